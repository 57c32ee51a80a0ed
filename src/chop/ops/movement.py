"""Ops that move data, make constants or read shapes: never quantised, and without arithmetic."""

from __future__ import annotations

import builtins
import operator

import torch
from torch import nn

from chop.ops.base import Op, Operand
from chop.ops.spellings import data, register_spelled
from chop.ops.table import register_op

_NAMES = (
    *("view", "reshape", "size", "dim", "numel", "flatten", "unflatten", "permute", "transpose", "t"),
    *("contiguous", "squeeze", "unsqueeze", "expand", "expand_as", "repeat", "view_as", "reshape_as", "narrow"),
    *("select", "chunk", "split", "unbind", "clone", "detach", "to", "float", "type_as", "slice", "alias"),
    *("movedim", "swapaxes", "ravel", "broadcast_to", "diagonal", "as_strided", "tensor_split"),
    *("split_with_sizes", "double", "half", "bfloat16", "int", "long", "short", "bool", "type"),
    *("cpu", "requires_grad_", "flip", "fliplr", "flipud", "roll", "rot90", "tile", "repeat_interleave", "tril"),
    *("triu", "diag", "diag_embed", "gather", "index", "index_select", "index_put", "index_fill", "index_copy"),
    *("masked_fill", "masked_select", "scatter", "select_scatter", "slice_scatter", "take", "take_along_dim"),
    *("nonzero", "unfold", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "scalar_tensor"),
    *("one_hot", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full"),
    *("new_empty", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli"),
    *("stride", "storage_offset", "empty_strided", "masked_scatter", "zero", "fill", "copy", "item"),
    *("is_floating_point", "bucketize", "searchsorted", "constant_pad_nd", "pixel_shuffle", "pixel_unshuffle"),
    *("channel_shuffle", "max_unpool1d", "max_unpool2d", "max_unpool3d"),
)
_OTHER_NAMES = {
    "movedim": ("moveaxis",),
    "swapaxes": ("swapdims",),
    "split_with_sizes": ("unsafe_split",),
    "channel_shuffle": ("native_channel_shuffle",),
}
_MODULES: dict[str, type[nn.Module]] = {
    "flatten": nn.Flatten,
    "unflatten": nn.Unflatten,
    "unfold": nn.Unfold,
    "pixel_shuffle": nn.PixelShuffle,
    "pixel_unshuffle": nn.PixelUnshuffle,
    "channel_shuffle": nn.ChannelShuffle,
    "max_unpool1d": nn.MaxUnpool1d,
    "max_unpool2d": nn.MaxUnpool2d,
    "max_unpool3d": nn.MaxUnpool3d,
}
_ATEN = {
    "alias": ("lift_fresh_copy", "lift", "lift_fresh"),
    "to": ("_to_copy",),
    "size": ("sym_size",),
    "numel": ("sym_numel",),
    "stride": ("sym_stride",),
    "storage_offset": ("sym_storage_offset",),
    "item": ("_local_scalar_dense",),
    "t": ("numpy_T",),
    "view": ("_unsafe_view",),
    "unfold": ("im2col",),
}

for _name in _NAMES:
    register_spelled(
        _name,
        "implicit_func",
        data(None),
        other_names=_OTHER_NAMES.get(_name, ()),
        modules=(_MODULES[_name],) if _name in _MODULES else (),
        aten=_ATEN.get(_name, ()),
    )

register_op(Op("outputs", "implicit_func"))  # a class, such as a dataclass, that holds the outputs of a model
_WHERE = data(None, "condition", "input", "other")
register_spelled("where", "implicit_func", _WHERE)

_PADDINGS = ("Constant", "Zero", "Reflection", "Replication", "Circular")
register_spelled(
    "pad",
    "implicit_func",
    data(None),
    modules=tuple(getattr(nn, f"{kind}Pad{dims}d") for kind in _PADDINGS for dims in (1, 2, 3)),
    aten=tuple(f"{kind.lower()}_pad{dims}d" for kind in _PADDINGS[2:4] for dims in (1, 2, 3)),
)

register_op(Op("identity", "implicit_func", data(None), modules=(nn.Identity,)))
register_op(Op("getitem", "implicit_func", data(None), functions=(operator.getitem,)))
register_op(Op("getattr", "implicit_func", data(None), functions=(builtins.getattr,)))

for _name in ("stack", "hstack", "vstack", "dstack", "column_stack"):
    _tensors = (Operand("data_in_0", None, 0, ("tensors",), variadic=True),)
    register_spelled(_name, "implicit_func", _tensors)
for _name in ("meshgrid", "broadcast_tensors"):
    _tensors = (Operand("data_in_0", None, 0, ("tensors",), variadic=True, starred=True),)
    register_op(Op(_name, "implicit_func", _tensors, functions=(getattr(torch, _name),)))
