"""Finding a model by what users write: a name, a class in a file, or a published model."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from torch import nn

from chop.display.launcher import option_name
from chop.files import read_file
from chop.models.base import MODELS, DataInfo, ModelInfo, describe_model
from chop.models.gguf_model import describe_gguf
from chop.models.hugging_face import describe_hugging_face
from chop.models.onnx_reader.read import describe_onnx
from chop.models.timm_model import TIMM, describe_timm
from chop.plugins import is_reference, load_maker
from chop.registry import UnknownNameError, closest
from chop.task_names import GGUF, HUGGING_FACE, ONNX, check_task, model_folder

WEIGHTS = (".pt", ".pth", ".th", ".ckpt", ".bin", ".safetensors")
"""Suffixes of files with the weights of a model."""
DATA = (".npz", ".csv", ".tsv", ".parquet", ".pq", ".arff", ".h5", ".hdf5", ".txt")
"""Suffixes of files with rows."""


def get_model_info(
    name: str, task: str | None = None, *, pretrained: bool = False, trust_remote_code: bool = False
) -> ModelInfo:
    """Return the description of a model.

    `name` is a registered name, a class as `path/to/net.py:Net` or `module.path:Net`, `hf/ID` for a model of the
    Hugging Face hub, a folder of `save_pretrained`, a GGUF or ONNX file, or `timm/NAME`. `pretrained` allows
    downloads, and `trust_remote_code` the execution of Python files of a repository.
    """
    if name in MODELS:
        return MODELS[name]
    if name.endswith(GGUF):
        return describe_gguf(name)
    if name.endswith(ONNX):
        return describe_onnx(name)
    if name.startswith(TIMM):
        return describe_timm(name, pretrained)
    if name.startswith(HUGGING_FACE) or (model_folder(name) / "config.json").is_file():
        task = None if task is None else check_task(task)
        return describe_hugging_face(name, task, pretrained, trust_remote_code)
    if not is_reference(name):
        raise UnknownNameError(_unknown_model(name))
    make = load_maker(name, lambda cls: issubclass(cls, nn.Module), "a torch.nn.Module class")
    return describe_model(name, make)


def _unknown_model(name: str) -> str:
    if name.endswith(".py"):
        return f"'{name}' is a file, not a model: name the class or function in it, as {name}:{_first_class(name)}"
    if Path(name).suffix in DATA:
        return f"'{name}' is a data file, not a model: the model is given first, and then the data set"
    if Path(name).suffix in WEIGHTS or (Path(name) / "run.toml").is_file():
        what = "a run" if Path(name).is_dir() else "a file of weights"
        return f"'{name}' is {what}, not a model: give the name of its model, and this as {option_name('load')}"
    if Path(name).is_dir():
        return f"folder '{name}' holds no model: it has no config.json, which save_pretrained writes"
    text = f"unknown model '{name}'; {closest(name, MODELS)}"
    return (
        text
        if text.endswith("?")
        else f"{text}; a network of your own is given as path/to/net.py:Net, or registered by a --plugin FILE"
    )


def _first_class(file: str) -> str:
    """Return the first class in a Python file, without running it; `Net` if there is none."""
    try:
        body = ast.parse(read_file(Path(file))).body
    except (OSError, SyntaxError, ValueError):
        return "Net"
    return next((each.name for each in body if isinstance(each, ast.ClassDef)), "Net")


def get_model(
    name: str,
    task: str = "cls",
    dataset_info: DataInfo | None = None,
    pretrained: bool = False,
    options: Mapping[str, object] | None = None,
    trust_remote_code: bool = False,
) -> nn.Module:
    """Return the model `name`; see `get_model_info` for the names. Registered models have untrained weights."""
    info = get_model_info(name, task, pretrained=pretrained, trust_remote_code=trust_remote_code)
    check_supported(info, task, pretrained)
    return info.build(dataset_info, options)


def check_supported(info: ModelInfo, task: str, pretrained: bool) -> None:
    """Raise an error if a model does not support a task, or has no pretrained weights."""
    if check_task(task) not in info.tasks:
        known = ", ".join(info.tasks)
        raise ValueError(f"model '{info.name}' does not support the task '{task}'; its tasks: {known}")
    if pretrained and not info.has_weights:
        raise ValueError(f"there are no pretrained weights for model '{info.name}'; use pretrained=False")
