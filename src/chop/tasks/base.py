"""The interface of tasks, and the result of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.ir.graph.interpreter import tensors_in
from chop.registry import Decorator, Registry
from chop.task_names import check_task

Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes."""


@dataclass(frozen=True)
class Evaluation:
    """What was measured on the rows of a split."""

    metrics: Mapping[str, float]
    """By the name of a key figure; the first one is the most important."""
    confusion: Tensor | None = None
    """Of classifiers with few classes: numbers of samples, [true class, predicted class]."""
    embeddings: Tensor | None = None
    """Of sentence encoders: a vector per sentence."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as the summary of a run holds it."""
        confusion = {} if self.confusion is None else {"confusion": self.confusion.tolist()}
        return {**self.metrics, **confusion}

    @property
    def loss(self) -> float:
        return self.metrics["loss"]

    @property
    def accuracy(self) -> float:
        return self.metrics["accuracy"]


class Meter(Protocol):
    """Adds up the outputs of a model."""

    def add(self, output: Any, labels: Tensor, inputs: Mapping[str, Tensor]) -> None:
        """Add the output for a batch; `inputs` are the arguments of the model."""
        ...

    def read(self, reduce: Reduce | None = None) -> Evaluation:
        """Return the result; `reduce` sums it over several processes."""
        ...


class Task(Protocol):
    """What a model does, and how that is measured."""

    compares: ClassVar[bool]
    """Whether the result says how close a model is to its original, rather than how good it is."""

    def meter(self, info: DatasetInfo, device: torch.device, original: Evaluation | None = None) -> Meter:
        """Return a new meter; `original` is the result of the model that this one is compared with, if any."""
        ...

    def check_output(self, output: Any, num_rows: int, info: DatasetInfo) -> str | None:
        """Return what a model should have returned for `num_rows` rows, or None if the output is right."""
        ...


_TASKS: Registry[Task] = Registry("task")


def register_task(name: str) -> Decorator:
    """Register a class like `Classification` under one of `chop.task_names.TASKS`; plug-ins add theirs first."""
    return _TASKS.register(name, lambda cls: cls())


def get_task(name: str) -> Task:
    """Return the task `name`."""
    return _TASKS[check_task(name)]


def first_tensor(output: Any) -> Tensor:
    """Return the first tensor in what a model returns, which has its scores or its last hidden state."""
    if isinstance(output, Tensor):
        return output
    found = next(iter(tensors_in(output)), None)
    if found is None:
        raise ValueError(f"the model returns {type(output).__name__}, without a tensor")
    return found
