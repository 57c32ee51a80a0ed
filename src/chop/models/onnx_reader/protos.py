"""Reading the parts of an ONNX file: constants and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from chop.display.extras import need
from chop.files import check_regular

MAX_BYTES = 2**31
"""Protocol buffers are smaller; larger models keep their tensors in further files, which are not supported."""


def read_model(path: Path) -> Any:
    """Return the checked `ModelProto` of a file."""
    onnx = need("onnx", f"reading '{path.name}'")
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"ONNX file '{path}' does not exist")
    if path.stat().st_size >= MAX_BYTES:
        raise ValueError(f"'{path}' has {path.stat().st_size:,} bytes; ONNX files have at most {MAX_BYTES:,}")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
        if not model.graph.node:
            raise ValueError("it has no nodes")
        onnx.checker.check_model(model)
    except Exception as error:  # a corrupt file causes errors of all kinds
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"'{path}' is corrupt, or not an ONNX file: {reason}") from error
    if any(each.external_data for each in model.graph.initializer):
        raise ValueError(f"'{path}' keeps its tensors in other files, which is not supported")
    if opset_of(model) < OLDEST_OPSET:
        raise ValueError(f"'{path}' has opset {opset_of(model)}; {OLDEST_OPSET} is the oldest one that is read")
    return model


def opset_of(model: Any) -> int:
    """Return the version of the standard ops of a model."""
    return max(
        (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=OLDEST_OPSET
    )


def tensor_of(proto: Any) -> Tensor:
    """Return a constant: real numbers in float32, integers in int64."""
    onnx = need("onnx", "reading an ONNX file")
    if not isinstance(proto, onnx.TensorProto):
        raise ValueError(f"a constant is a {type(proto).__name__}, not a tensor")
    if proto.external_data or proto.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError(f"the tensor '{proto.name}' is in another file, which is not supported")
    array = onnx.numpy_helper.to_array(proto)
    if array.dtype.kind in "cOSU" or (array.dtype == np.uint64 and bool((array > np.iinfo(np.int64).max).any())):
        raise ValueError(f"the values of the tensor '{proto.name}' are neither real numbers nor integers of int64")
    if array.dtype.kind in "iu" or array.dtype.name in ("int4", "uint4", "int2", "uint2"):
        return torch.from_numpy(np.asarray(array, np.int64).copy())
    if array.dtype.kind == "b":
        return torch.from_numpy(array.copy())
    return torch.from_numpy(np.asarray(array, np.float32).copy())


class Attributes(Mapping[str, Any]):
    """The attributes of a node as plain values, which remember whether they were read; text is `str`."""

    def __init__(self, node: Any) -> None:
        helper = need("onnx", "reading an ONNX file").helper
        found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        self._values = {name: each.decode() if isinstance(each, bytes) else each for name, each in found.items()}
        self._node, self._unread = node, set(found)

    def __getitem__(self, name: str) -> Any:
        self._unread.discard(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def check_all_read(self, opset: int) -> None:
        """Raise ValueError if an attribute has no effect here although it does not have its default."""
        onnx = need("onnx", "reading an ONNX file")
        op, domain = self._node.op_type, self._node.domain.removeprefix("ai.onnx")
        if not onnx.defs.has(op, domain):
            return
        known = onnx.defs.get_schema(op, opset, domain).attributes
        for name in sorted(self._unread - WITHOUT_EFFECT):
            default = onnx.helper.get_attribute_value(known[name].default_value)
            if self._values[name] != (default.decode() if isinstance(default, bytes) else default):
                raise ValueError(f"its attribute '{name}' is read only with the value {default}")


WITHOUT_EFFECT = {"kernel_shape", "momentum", "ratio", "seed", "storage_order"}
"""Attributes that the weight has too, or that matter in training or to further results only."""
OLDEST_OPSET = 9
"""Before it, the standard ops that are read here had other attributes."""
INTEGER_TYPES: Mapping[str, tuple[int, bool]] = {
    f"{'' if signed else 'U'}INT{width}": (width, signed) for width in (2, 4, 8, 16, 32) for signed in (True, False)
}
"""Width and sign of the integer types by their names."""
FLOAT_TYPES: Mapping[str, Literal["e4m3", "e5m2"]] = {"FLOAT8E4M3FN": "e4m3", "FLOAT8E5M2": "e5m2"}


def type_name(number: int) -> str:
    """Return the name of a type by its number."""
    name: str = need("onnx", "reading an ONNX file").TensorProto.DataType.Name(number)
    return name
