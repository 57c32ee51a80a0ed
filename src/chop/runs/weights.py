"""Weights from a checkpoint, or a saved graph from a folder."""

from __future__ import annotations

import logging
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from chop.files import CorruptFileError, check_regular
from chop.ir import MaseGraph
from chop.ir.graph.storage import is_packed_graph, load_graph, read_packed_graph
from chop.runs.folder import RunFolder

logger = logging.getLogger(__name__)

LOAD_TYPES = ("auto", "pt", "pl", "mz")
PREFIX = "model."  # of all keys in a Lightning checkpoint, where the model is an attribute of the module
PREFIXES = ("", PREFIX, "module.", f"{PREFIX}module.")
"""What keys may start with; `module.` is added by DataParallel."""
MAX_KEYS_NAMED = 4  # in an error message


def load_model(
    load_name: str | os.PathLike[str],
    load_type: str = "auto",
    model: nn.Module | None = None,
    example_inputs: Callable[[], Mapping[str, Tensor]] | None = None,
) -> nn.Module:
    """Return `model` with the weights of a checkpoint, or the model of a saved graph.

    `load_type` is `pt` for a `state_dict` (of torch.save, or .safetensors), `pl` for a checkpoint that has one
    under 'state_dict', as Lightning and many training scripts write it, `mz` for a folder of
    `save_mase_graph_interface_pass`, and `auto` to detect it. Keys may start with `model.` (Lightning) or `module.`
    (DataParallel). `load_name` may also be a run folder: its graph or its best checkpoint is loaded. A graph with
    layers or functions that only the code of the model can build is loaded into a graph of `model`, captured with
    `example_inputs()`. The model is then in evaluation mode, so that a forward pass leaves batch norm statistics
    alone. After an error it is unchanged.
    """
    if load_type not in LOAD_TYPES:
        raise ValueError(f"unknown load_type '{load_type}'; allowed: {', '.join(LOAD_TYPES)}")
    path = Path(load_name)
    if not path.exists():
        raise ValueError(f"checkpoint '{path}' does not exist")
    if RunFolder(path).config.is_file():
        path = RunFolder(path).weights
    check_regular(path)
    if load_type == "mz" or (load_type == "auto" and (path.is_dir() or is_packed_graph(path))):
        return _load_graph(path, model, example_inputs).eval()
    if path.is_dir():
        raise ValueError(f"checkpoint '{path}' is a folder, but load_type '{load_type}' needs a file; try 'mz'")
    if model is None:
        raise ValueError(f"checkpoint '{path}' holds only weights: pass the model that they belong to as model=")
    state = _strip_prefix(path, _pick_state(path, load_type, _read_safely(path)), model.state_dict())
    _check_fit(path, state, model)
    model.load_state_dict(state, strict=False)  # tied weights may be stored once
    return model.eval()


def _load_graph(
    path: Path, model: nn.Module | None, example_inputs: Callable[[], Mapping[str, Tensor]] | None
) -> nn.Module:
    is_file = is_packed_graph(path)
    if not (path.is_dir() or is_file):
        raise ValueError(f"checkpoint '{path}' is a file, but load_type 'mz' needs a folder; try 'pl' or 'pt'")
    load = read_packed_graph if is_file else load_graph
    try:
        return load(path).model
    except CorruptFileError:
        raise
    except ValueError:  # for example a layer that only the code of the model can build
        if model is None:
            raise
        inputs = None if example_inputs is None else dict(example_inputs())
        return load(path, MaseGraph(model, example_inputs=inputs)).model


def _read_safely(path: Path) -> object:
    """Return the content of a file of tensors and plain values; other objects could run code and are refused."""
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about pickles not written by torch.save
            content: object = torch.load(path, map_location="cpu", weights_only=True)
        broken = None
        if zipfile.is_zipfile(path):  # torch does not check the checksums of its records
            with zipfile.ZipFile(path) as archive:
                broken = archive.testzip()
    except OSError as error:
        raise ValueError(f"checkpoint '{path}' cannot be read: {error.strerror}") from error
    except Exception as error:  # a corrupt file makes torch raise errors of many kinds
        refused = re.search(r"GLOBAL ([\w.]+)", str(error))  # the class or function that the file names
        if refused is None:
            raise ValueError(
                f"checkpoint '{path}' is corrupt, or does not hold tensors and plain values"
            ) from error
        raise ValueError(
            f"checkpoint '{path}' is refused: it holds '{refused[1]}', and loading anything but tensors and "
            "plain values could run code; save model.state_dict() instead"
        ) from error
    if broken is not None:
        raise ValueError(f"checkpoint '{path}' is corrupt: the checksum of its record '{broken}' is wrong")
    return content


def _pick_state(path: Path, load_type: str, content: object) -> dict[str, Tensor]:
    """Return the weights under the keys of the model."""
    if not isinstance(content, Mapping):
        raise ValueError(f"checkpoint '{path}' holds {type(content).__name__}, not a dict of weights")
    wrapped = isinstance(content.get("state_dict"), Mapping)
    if load_type == "pt" and wrapped:
        raise ValueError(f"checkpoint '{path}' has its weights under 'state_dict'; use load_type 'pl' or 'auto'")
    if load_type == "pl" and not wrapped:
        raise ValueError(f"checkpoint '{path}' has no 'state_dict'; use load_type 'pt' or 'auto'")
    state = dict(content["state_dict"] if wrapped else content)
    unexpected = [key for key, value in state.items() if not (isinstance(key, str) and isinstance(value, Tensor))]
    if unexpected or not state:
        raise ValueError(
            f"checkpoint '{path}' is not a dict of weights: it holds {_first(unexpected) or 'nothing'}"
        )
    return state


def _strip_prefix(path: Path, state: Mapping[str, Tensor], expected: Collection[str]) -> dict[str, Tensor]:
    """Return the weights without the prefix under which most keys are those of the model."""

    def fit(prefix: str) -> tuple[int, int, int]:
        keys = [key.removeprefix(prefix) for key in state if key.startswith(prefix)]
        return sum(key in expected for key in keys), len(keys), len(prefix)

    prefix = max(PREFIXES, key=fit)
    others = [key for key in state if not key.startswith(prefix)]
    if others:
        logger.warning("checkpoint '%s': ignored keys that do not belong to the model: %s", path, _first(others))
    return {key.removeprefix(prefix): value for key, value in state.items() if key not in others}


def _check_fit(path: Path, state: Mapping[str, Tensor], model: nn.Module) -> None:
    expected = model.state_dict()
    # A checkpoint may lack tied weights that are stored once, and counters of batches: BatchNorm has had
    # `num_batches_tracked` since PyTorch 0.4.1; published checkpoints are older.
    stored = {tensor.data_ptr() for key, tensor in expected.items() if key in state and tensor.numel()}
    missing = [
        key
        for key, tensor in expected.items()
        if key not in state and tensor.data_ptr() not in stored and key.rpartition(".")[2] != "num_batches_tracked"
    ]
    unexpected = [key for key in state if key not in expected]
    shapes = [
        f"{key} {list(state[key].shape)} for {list(expected[key].shape)}"
        for key in expected
        if key in state and state[key].shape != expected[key].shape
    ]
    problems = [
        f"{what} {_first(keys)}"
        for what, keys in (("missing:", missing), ("unexpected:", unexpected), ("different shapes:", shapes))
        if keys
    ]
    if problems:
        raise ValueError(f"checkpoint '{path}' does not fit this {type(model).__name__}; {'; '.join(problems)}")


def _first(keys: Iterable[str]) -> str:
    shown = [str(key) for key in keys]
    rest = len(shown) - MAX_KEYS_NAMED
    return ", ".join(shown[:MAX_KEYS_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def share_equal_weights(model: nn.Module, other: nn.Module) -> None:
    """Make parameters of `model` use the memory of equal parameters of `other` with the same name.

    A change in place of one of them then changes both.
    """
    known = dict(other.named_parameters())
    for name, parameter in model.named_parameters():
        same = known.get(name)
        if same is not None and same.dtype == parameter.dtype and torch.equal(same, parameter):
            parameter.data = same.data
