"""Activation functions and dropout."""

from __future__ import annotations

from torch import nn

from chop.ops.base import Operand
from chop.ops.spellings import add_each, data, multiply_and_add_each, register_spelled

_ACTIVATIONS: dict[str, tuple[type[nn.Module], ...]] = {
    "relu": (nn.ReLU,),
    "leaky_relu": (nn.LeakyReLU,),
    "gelu": (nn.GELU,),
    "silu": (nn.SiLU,),
    "sigmoid": (nn.Sigmoid,),
    "tanh": (nn.Tanh,),
    "selu": (nn.SELU,),
    "elu": (nn.ELU,),
    "celu": (nn.CELU,),
    "softplus": (nn.Softplus,),
    "softsign": (nn.Softsign,),
    "hardtanh": (nn.Hardtanh, nn.ReLU6),
    "hardsigmoid": (nn.Hardsigmoid,),
    "hardswish": (nn.Hardswish,),
    "hardshrink": (nn.Hardshrink,),
    "softshrink": (nn.Softshrink,),
    "tanhshrink": (nn.Tanhshrink,),
    "logsigmoid": (nn.LogSigmoid,),
    "mish": (nn.Mish,),
    "threshold": (nn.Threshold,),
}
_OTHER_NAMES = {"hardtanh": ("relu6",), "logsigmoid": ("log_sigmoid",)}

# Any activation counts one operation per element, which is the convention of the course.
for _name, _modules in _ACTIVATIONS.items():
    register_spelled(
        _name,
        "module_related_func",
        data("data_in"),
        other_names=_OTHER_NAMES.get(_name, ()),
        modules=_modules,
        aten=_OTHER_NAMES.get(_name, ()),
        count=add_each,
        batch_from_ndim=1,
    )
register_spelled("rrelu", "module_related_func", data("data_in"), modules=(nn.RReLU,), count=add_each)
register_spelled(
    "prelu",
    "module_related_func",
    (*data("data_in"), Operand("weight", "weight", 1, ("weight",))),
    modules=(nn.PReLU,),
    count=add_each,
)


# The sigmoid of one half, and its product with the other.
register_spelled("glu", "module_related_func", data("data_in"), modules=(nn.GLU,), count=multiply_and_add_each)

# Never quantised: in training it keeps the format of its input, and in evaluation it does nothing.
register_spelled(
    "dropout",
    "module_related_func",
    data(None),
    other_names=(
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_dropout",
        "feature_alpha_dropout",
    ),
    modules=(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
    aten=("native_dropout",),
)
