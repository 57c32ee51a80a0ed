"""Tasks by name."""

from __future__ import annotations

from collections.abc import Mapping

from chop.task_names import check_task
from chop.tasks.base import Task
from chop.tasks.classification import Classification
from chop.tasks.language_modelling import LanguageModelling
from chop.tasks.similarity import Similarity

_TASKS: Mapping[str, Task] = {task.name: task for task in (Classification(), LanguageModelling(), Similarity())}


def get_task(name: str) -> Task:
    """Return the task `name`."""
    return _TASKS[check_task(name)]
