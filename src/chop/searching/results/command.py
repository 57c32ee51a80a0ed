"""The command that applies a trial of a search."""

from __future__ import annotations

import shlex
from collections.abc import Container

from chop.display.launcher import launcher
from chop.runs import RunFolder


def command_of_best(folder: RunFolder, number: int, metrics: Container[str]) -> str:
    """Return the command that makes the model of the best trial; weights that it trained are trained again."""
    if "epochs" in metrics:  # ch transform does not train
        return f"{launcher()} search --config {shlex.quote(str(folder.config))} --apply {number}"
    return f"{launcher()} transform --config {shlex.quote(str(folder.best_config))}"
