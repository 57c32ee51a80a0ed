"""What tasks measure, against values worked out by hand or by SciPy."""

from __future__ import annotations

import math

import pytest
import torch

from chop.dataset import DatasetInfo
from chop.task_names import TASKS, guess_task
from chop.tasks import Evaluation, get_task
from chop.tasks.similarity import mean_of_tokens, pair_similarities, rank_correlation

CPU = torch.device("cpu")
TEXT = DatasetInfo("text", 3, 4, kind="tokens")


def test_every_name_has_a_task() -> None:
    assert [type(get_task(name)).__name__ for name in TASKS] == [
        "Classification",
        "LanguageModelling",
        "Similarity",
    ]


def test_perplexity_is_the_number_of_equally_likely_tokens() -> None:
    meter = get_task("lm").meter(TEXT, CPU)
    logits = torch.zeros(2, 3, 4)
    logits[0, 0, 1] = math.log(3)  # probability 1/2
    labels = torch.tensor([[1, 2, -100], [0, -100, -100]])
    meter.add((logits,), labels, {})
    found = meter.read()
    loss = (math.log(2) + math.log(4) + math.log(4)) / 3
    assert found.metrics["loss"] == pytest.approx(loss)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(loss))
    assert found.accuracy == pytest.approx(2 / 3)  # the first label, and the first of equal scores


def test_a_diverged_language_model_has_an_infinite_perplexity() -> None:
    meter = get_task("lm").meter(TEXT, CPU)
    meter.add(torch.tensor([[[0.0, 1e6, 0, 0]] * 3]), torch.tensor([[0, 0, 0]]), {})
    assert meter.read().metrics["perplexity"] == math.inf


@pytest.mark.slow  # importing SciPy's statistics takes a second
def test_rank_correlation_is_spearmans() -> None:
    from scipy.stats import spearmanr

    generator = torch.Generator().manual_seed(0)
    first = torch.randint(0, 20, (50,), generator=generator).double()  # with ties
    second = first + 8 * torch.randn(50, generator=generator, dtype=torch.float64)
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)


def test_similarities_are_cosines_of_means_without_padding() -> None:
    hidden = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1], [1, 0]])
    vectors = mean_of_tokens(hidden, mask)
    assert vectors.tolist() == [[0.5, 0.5], [2.0, 0.0]]
    assert pair_similarities(vectors).tolist() == pytest.approx([math.sqrt(0.5)])


def test_similarity_compares_with_the_original() -> None:
    task, info = get_task("similarity"), DatasetInfo("text", 2, 1, kind="tokens")
    vectors = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))

    def measure(values: torch.Tensor, original: Evaluation | None) -> Evaluation:
        meter = task.meter(info, CPU, original)
        meter.add(values[:4], torch.zeros(4), {})
        meter.add(values[4:], torch.zeros(4), {})
        return meter.read()

    original = measure(vectors, None)
    assert original.metrics == {"rank_correlation": pytest.approx(1)}
    assert measure(3 * vectors, original).metrics["rank_correlation"] == pytest.approx(1)
    assert measure(vectors.roll(1, 0), original).metrics["rank_correlation"] < 0.9


@pytest.mark.parametrize(
    ("name", "shape", "fits"),
    [
        ("cls", (2, 4), True),
        ("cls", (2, 5), False),
        ("lm", (2, 3, 4), True),
        ("lm", (2, 3, 3), False),  # a tokenizer with more tokens than the model has
        ("lm", (2, 4), False),
        ("similarity", (2, 3, 8), True),
        ("similarity", (2, 8), True),
        ("similarity", (3, 8), False),
    ],
)
def test_outputs_of_the_wrong_shape_are_found(name: str, shape: tuple[int, ...], fits: bool) -> None:
    assert (get_task(name).check_output(torch.zeros(shape), 2, TEXT) is None) == fits


def test_the_task_follows_from_the_model_and_the_data() -> None:
    assert guess_task("jsc-tiny", "jsc") == "cls"
    assert guess_task("model.gguf", "story.txt") == "lm"
    assert guess_task("hf/someone/model", "story.txt") == "lm"
