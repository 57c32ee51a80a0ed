"""Models by name, one file per family."""

from chop.models.base import (
    MODELS,
    DataInfo,
    ModelInfo,
    describe_model,
    get_model,
    get_model_info,
    register_model,
)
from chop.models.jet_substructure import JSCS, JSCTiny, JSCToy
from chop.models.toy import Toy, ToyConvNet

__all__ = [
    "JSCS",
    "MODELS",
    "DataInfo",
    "JSCTiny",
    "JSCToy",
    "ModelInfo",
    "Toy",
    "ToyConvNet",
    "describe_model",
    "get_model",
    "get_model_info",
    "register_model",
]
