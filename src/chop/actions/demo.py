"""`ch demo`: the commands of a first session, one after the other."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import ActionConfig, DemoConfig, SweepConfig, TrainConfig, TransformConfig
from chop.display.launcher import launcher
from chop.files import read_toml
from chop.options import read_options
from chop.sweeping.sweep import sweep

MODEL: Mapping[str, Any] = {"model": "toy-convnet", "dataset": "digits"}  # part of scikit-learn: needs no download
TRAINING: Mapping[str, Any] = {"max_epochs": 15, "batch_size": 32, "learning_rate": 0.01}
SWEEP: Mapping[str, Any] = {"formats": "integer,mxfp", "widths": "3..8"}


def demo(config: DemoConfig) -> Path:
    """Train, sweep and transform; print each command before it runs, and return the report."""
    project = {} if config.project_dir == ActionConfig.project_dir else {"project_dir": config.project_dir}

    print("1. Train a small convolutional network on images of handwritten digits.")
    options = {**MODEL, **TRAINING, **project, "name": "demo-float"}
    _announce("train", options)
    trained = train(read_options(TrainConfig, options, "train"))

    print("\n2. Quantise its weights and activations to different formats and widths, without training.")
    options = {**MODEL, "load": trained, **SWEEP, **project, "name": "demo-sweep"}
    _announce("sweep", options)
    best = sweep(read_options(SweepConfig, options, "sweep")).sweep_config
    if not best.is_file():
        raise ValueError("no setting is accurate enough, which this demonstration relies on")

    print(
        "\n3. Quantise it to the cheapest of these that loses at most one percentage point of validation accuracy."
    )
    options = {"config": best, **project, "name": "demo-quantized", "report": True, "open": config.open}
    _announce("transform", options)
    return transform(read_options(TransformConfig, {**read_toml(best), **options}, str(best)))


def _announce(action: str, options: Mapping[str, Any]) -> None:
    print(f"\n$ {launcher()} {shlex.join([action, *command_words(options)])}", flush=True)


def command_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as words of the command line."""
    words = [str(options[key]) for key in MODEL if key in options]
    for key, value in options.items():
        if key not in MODEL and value is not False:
            words += [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words
