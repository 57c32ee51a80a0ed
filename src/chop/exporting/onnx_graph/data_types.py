"""The tensor types of ONNX: their numbers in a file, their widths, and the smallest opset with each of them."""

from __future__ import annotations

from enum import IntEnum

import torch


class DataType(IntEnum):
    """`TensorProto.DataType` of onnx.proto."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E5M2 = 19
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26


BASE_OPSET = 21
"""The smallest opset that is written: the first with blocked scales, INT4 and INT16."""
MAX_OPSET = 26
"""The largest that onnxruntime reads."""
MAX_IR_VERSION = 13
OPSETS: dict[DataType, int] = {
    DataType.FLOAT4E2M1: 23,
    DataType.FLOAT8E8M0: 24,
    DataType.UINT2: 25,
    DataType.INT2: 25,
}
"""The smallest opset that has a type; 21 for all others."""
ELEMENTS: dict[str, DataType] = {
    "e4m3": DataType.FLOAT8E4M3FN,
    "e5m2": DataType.FLOAT8E5M2,
    "e2m1": DataType.FLOAT4E2M1,
}
_INTEGERS: dict[int, tuple[DataType, DataType]] = {
    2: (DataType.UINT2, DataType.INT2),
    4: (DataType.UINT4, DataType.INT4),
    8: (DataType.UINT8, DataType.INT8),
    16: (DataType.UINT16, DataType.INT16),
    32: (DataType.UINT32, DataType.INT32),
}
WIDTHS: dict[DataType, int] = {each: width for width, both in _INTEGERS.items() for each in both}
OF_TORCH: dict[torch.dtype, DataType] = {
    torch.float32: DataType.FLOAT,
    torch.float64: DataType.DOUBLE,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BFLOAT16,
    torch.int64: DataType.INT64,
    torch.int32: DataType.INT32,
    torch.int16: DataType.INT16,
    torch.int8: DataType.INT8,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.BOOL,
    torch.float8_e4m3fn: DataType.FLOAT8E4M3FN,
}


def integer_type(width: int, signed: bool) -> DataType:
    """Return the smallest integer type with at least `width` bits: INT8 for 6 bits."""
    return _INTEGERS[min(each for each in _INTEGERS if each >= width)][signed]


def integer_limits(data_type: DataType) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type."""
    width = WIDTHS[data_type]
    signed = data_type.name.startswith("INT")
    return (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
