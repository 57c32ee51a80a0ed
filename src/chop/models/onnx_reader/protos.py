"""Reading the parts of an ONNX file: constants and attributes."""

from __future__ import annotations

from collections.abc import Mapping
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
    return model


def tensor_of(proto: Any) -> Tensor:
    """Return a constant: real numbers in float32, integers in int64."""
    onnx = need("onnx", "reading an ONNX file")
    array = onnx.numpy_helper.to_array(proto)
    if array.dtype.kind in "iu" or array.dtype.name in ("int4", "uint4", "int2", "uint2"):
        return torch.from_numpy(np.asarray(array, np.int64).copy())
    if array.dtype.kind == "b":
        return torch.from_numpy(array.copy())
    return torch.from_numpy(np.asarray(array, np.float32).copy())


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a node as plain values; text is `str`."""
    helper = need("onnx", "reading an ONNX file").helper
    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


INTEGER_TYPES: Mapping[str, tuple[int, bool]] = {
    f"{'' if signed else 'U'}INT{width}": (width, signed) for width in (2, 4, 8, 16, 32) for signed in (True, False)
}
"""Width and sign of the integer types by their names."""
FLOAT_TYPES: Mapping[str, Literal["e4m3", "e5m2"]] = {"FLOAT8E4M3FN": "e4m3", "FLOAT8E5M2": "e5m2"}


def type_name(number: int) -> str:
    """Return the name of a type by its number."""
    name: str = need("onnx", "reading an ONNX file").TensorProto.DataType.Name(number)
    return name
