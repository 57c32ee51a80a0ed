"""Models by name, one file per family."""

from chop.models.base import (
    MODELS,
    DataInfo,
    ModelInfo,
    Normalization,
    describe_model,
    register_model,
)
from chop.models.cifar_resnet import CifarResNet
from chop.models.jet_substructure import JSCS, JSCTiny, JSCToy
from chop.models.lookup import check_supported, get_model, get_model_info
from chop.models.toy import Toy, ToyConvNet

__all__ = [
    "JSCS",
    "MODELS",
    "CifarResNet",
    "DataInfo",
    "JSCTiny",
    "JSCToy",
    "ModelInfo",
    "Normalization",
    "Toy",
    "ToyConvNet",
    "check_supported",
    "describe_model",
    "get_model",
    "get_model_info",
    "register_model",
]
