"""The names of tasks, and the task of a model and a data set that a user names; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from chop.files import read_json
from chop.registry import Registry, closest


class TaskName(NamedTuple):
    """What is known of a task without its engine."""

    title: str
    """As run folders and summaries write it."""
    batch_size: int
    """The default number of samples per batch; the outputs of a language model take a lot of memory."""


TASKS: Registry[TaskName] = Registry(
    "task",
    {
        "cls": TaskName("classification", 128),
        "lm": TaskName("language-modelling", 2),
        "similarity": TaskName("similarity", 16),
    },
)
ALIASES: Mapping[str, str] = {"classification": "cls"}

HUGGING_FACE = "hf/"
"""How names of Hugging Face models start."""
GGUF = ".gguf"
ONNX = ".onnx"


def check_task(task: str) -> str:
    """Return the canonical name of a task."""
    name = ALIASES.get(task, task)
    if name not in TASKS:
        raise ValueError(f"unknown task '{task}'; {closest(task, (*TASKS, *ALIASES))}")
    return name


def guess_task(model: str, dataset: str) -> str:
    """Return what a model is for: classification, unless its files or the data set say otherwise."""
    if model.endswith(GGUF):
        return "lm"
    config = model_folder(model) / "config.json"
    if config.is_file():
        architectures = read_json(config).get("architectures") or ["Model"]
        return _task_of_class(str(architectures[0]))
    return "lm" if dataset.endswith(".txt") else "cls"


def model_folder(model: str) -> Path:
    """Return the folder that a name such as `hf/FOLDER` may mean; it need not exist."""
    return Path(model.removeprefix(HUGGING_FACE)).expanduser()


def _task_of_class(name: str) -> str:
    """Return the task of a class of transformers, such as LlamaForCausalLM."""
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        return "lm"
    return "similarity" if name.endswith("Model") else "cls"
