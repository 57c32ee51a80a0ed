"""What is given to a command is used by it, or refused, or named: for every command and every key."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from chop.cli.parser import parse
from chop.config import ACTIONS, COMMAND_LINE_ONLY, ActionConfig, AnyConfig
from chop.config.settings import Settings, read_settings
from chop.searching.search import search
from chop.sweeping.sweep import sweep
from chop.toml import write_toml
from chop.training.testing import run_test
from chop.training.train import train
from chop.transforming.transform import transform

pytestmark = pytest.mark.slow
ON_MODELS = [name for name, cls in ACTIONS.items() if issubclass(cls, ActionConfig)]
KEYS: dict[str, Any] = {
    **{"project": "x", "pretrained": True, "load_name": "x.pt", "load_type": "pt", "model_options": {"a": 1}},
    **{"cf_args": {"a": 1}, "batch_size": 3, "seed": 3, "data_path": "x", "data_options": {"a": 1}},
    **{"max_samples": 3, "num_workers": 3, "accelerator": "cpu", "num_devices": 3, "nodes": 3, "strategy": "ddp"},
    **{"trainer_precision": "bf16", "project_dir": "x", "name": "x", "report_to": "none", "log_every_n_steps": 3},
    **{"plugins": ["x.py"], "log_level": "error", "debug": True, "no_warnings": True, "max_epochs": 3},
    **{"max_steps": 3, "learning_rate": 0.3, "weight_decay": 0.3, "training_optimizer": "sgd"},
    **{"lr_scheduler": "cosine", "accumulate_grad_batches": 3, "distill": True, "freeze_batch_norm": 1},
    **{"rounding_epochs": 3, "prune_sparsity": 0.3, "resume": True, "workers": 3, "recover_accuracy": True},
    **{"passes": {"quantize": {"by": "type"}}, "transform": {"evaluate": False}, "report": True, "open": True},
    **{"search": {"search_space": {"name": "x"}}, "n_trials": 3, "timeout": 3.0, "storage": "memory", "study": "x"},
    **{"max_drop": 3.0, "apply": 3, "finetune": 3, "formats": "mxfp", "widths": "3", "roles": "weight"},
    **{"calibrate": "mse", "compile": True},
}
"""A value other than the default for the keys of a TOML file."""
REFUSED_ALONE = {"teacher", "distill_temperature", "distill_weight", "prune_epochs", "prune_scope"}
REFUSED_ALONE |= {"prune_granularity"}
"""Options of ch train that raise an error without the option that they belong to."""


CONFIG = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8, "weight_frac_width": 4}
ENGINES: dict[str, Any] = {
    "train": train,
    "test": run_test,
    "transform": transform,
    "sweep": sweep,
    "search": search,
}


def settings(action: str, *words: str) -> Settings:
    request = parse([action, "toy", "toy_tiny", *words])
    return read_settings(request.action, request.given, request.replaced)


def is_used(action: str, key: str) -> bool:
    """Whether a command uses an option that is given without others."""
    cls: Any = ACTIONS[action]
    if key not in {each.name for each in fields(cls)} or (action, key) == ("train", "workers"):
        return False
    return key not in cls(model="toy", dataset="toy_tiny").without_effect()


def as_words(key: str) -> str:
    """Return a key with its value as `--set` takes it."""
    value, path = KEYS[key], key
    while isinstance(value, dict):
        ((name, value),) = value.items()
        path = f"{path}.{name}"
    return write_toml({"x": value}).replace("x = ", f"{path}=").strip()


def test_every_key_of_a_file_has_a_value_here() -> None:
    known = {each.name for each in fields(AnyConfig)} - {"model", "dataset", "task", *COMMAND_LINE_ONLY}
    assert set(KEYS) == known - REFUSED_ALONE


@pytest.mark.parametrize("action", ON_MODELS)
def test_a_key_that_is_set_on_the_command_line_is_used_or_refused(action: str) -> None:
    for key in KEYS:
        if is_used(action, key):
            assert settings(action, "--set", as_words(key)).unused() == []
        else:
            with pytest.raises(ValueError, match=r"has no effect (on|without)"):
                settings(action, "--set", as_words(key)).unused()


@pytest.mark.parametrize("action", ON_MODELS)
def test_a_key_of_a_file_is_used_or_named(action: str, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    for key, value in KEYS.items():
        file.write_text(write_toml({key: value}))
        unused = settings(action, "--config", str(file)).unused()
        assert (key in unused) is not is_used(action, key)


ONLY_COPIES = ("to_table", "common_options", "replace", "_replace", "__post_init__", "<dictcomp>", "<genexpr>")
"""Functions that read all options, whether they have an effect or not."""
ELSEWHERE = {
    "config",
    "plugins",
    "log_level",
    "debug",
    "no_warnings",
    "trust",
    "resume",
    "report",
    "open",
    "workers",
}
"""Options that the command line reads, or that belong to a mode in which the tests below do not run."""


def test_engines_read_the_options_of_their_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()

    def reads(config: ActionConfig, name: str) -> Any:
        if sys._getframe(1).f_code.co_name not in ONLY_COPIES:
            read.add(name)
        return object.__getattribute__(config, name)

    common: dict[str, Any] = {"model": "toy", "dataset": "toy_tiny", "project_dir": tmp_path}
    given: dict[str, dict[str, Any]] = {"train": {"max_epochs": 1, "distill": False}, "sweep": {"widths": "4"}}
    given["transform"] = {"passes": {"quantize": {"by": "type", "linear": {"config": CONFIG}}}}
    given["search"] = {"n_trials": 1, "finetune": 1}
    for name, engine in ENGINES.items():
        config = ACTIONS[name](**common, **given.get(name, {}))
        monkeypatch.setattr(ActionConfig, "__getattribute__", reads, raising=False)
        engine(config)
        monkeypatch.undo()
        names = {each.name for each in fields(config)} - ELSEWHERE - REFUSED_ALONE - {*config.without_effect()}
        assert names - read == set(), name
        read.clear()
