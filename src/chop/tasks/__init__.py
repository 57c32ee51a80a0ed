"""What models are evaluated on, one file per task."""

from chop.tasks.base import Evaluation, Meter, Reduce, Task, get_task, register_task
from chop.tasks.classification import Classification
from chop.tasks.language_modelling import LanguageModelling
from chop.tasks.similarity import Similarity

__all__ = [
    "Classification",
    "Evaluation",
    "LanguageModelling",
    "Meter",
    "Reduce",
    "Similarity",
    "Task",
    "get_task",
    "register_task",
]
