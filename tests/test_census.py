"""The census of transformers in docs/captured-models.md: a sample of it, its limits and its table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
import transformers

import census
from architectures import TASKS, architectures
from census import FAILED, FIXED_ROWS, NO_MODEL, REFUSED, WORKS, Outcome, guarded, table, tried
from real_models_table import PAGE

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "result", "reason"),
    [
        ("Glm4MoeLiteForCausalLM", WORKS, ""),
        ("HGNetV2ForImageClassification", WORKS, ""),
        ("AlbertForSequenceClassification", WORKS, ""),
        ("ReformerModelWithLMHead", FIXED_ROWS, ""),
        ("LongformerForMaskedLM", REFUSED, "`if is_global_attn:`: the code depends on the values of a tensor"),
        ("T5Gemma2ForSequenceClassification", REFUSED, "the model computes with a torch.autogra"),
        ("BltForCausalLM", NO_MODEL, "num_hidden_layers"),
    ],
)
def test_a_sample_of_the_census(name: str, result: str, reason: str) -> None:
    outcome = tried(name)
    assert outcome.result == result, outcome
    assert reason in outcome.reason


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("trial", "reason"),
    [(lambda name: time.sleep(60), "takes more than 0.5 s"), (lambda name: os._exit(1), "the process ended")],
)
def test_a_model_that_hangs_or_crashes_is_a_line(
    trial: Callable[[str], Outcome], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census, "tried", trial)
    monkeypatch.setattr(census, "MAX_SECONDS", 0.5)
    assert guarded("BertForMaskedLM") == Outcome(FAILED, reason)


def test_the_table_counts_each_task_and_lists_what_does_not_work() -> None:
    outcomes = {
        "BertForMaskedLM": Outcome(WORKS),
        "LlamaForCausalLM": Outcome(WORKS),
        "LongformerForMaskedLM": Outcome(REFUSED, "because"),
    }
    lines = table(outcomes, 1.2).splitlines()
    assert "| causal lm | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in lines
    assert "| masked lm | 2 | 1 | 0 | 1 | 0 | 0 | 0 |" in lines
    assert "| all | 3 | 2 | 0 | 1 | 0 | 0 | 0 |" in lines
    assert lines[-1] == "| LongformerForMaskedLM | refused | because |"


def test_the_page_has_the_census_of_the_installed_version() -> None:
    page = PAGE.read_text().partition(census.BEGIN)[2].partition(census.END)[0]
    assert f"transformers {transformers.__version__}" in page
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    counts = {task: [int(cell) for cell in cells] for task, *cells in rows[2 : 2 + len(TASKS) + 1]}
    assert 0 < counts["all"][0] <= len(architectures())
    assert all(first == sum(others) for first, *others in counts.values())
    assert [sum(column) for column in zip(*list(counts.values())[:-1], strict=True)] == counts["all"]
    assert len(rows) - (2 + len(TASKS) + 1 + 2) == counts["all"][0] - counts["all"][1]
