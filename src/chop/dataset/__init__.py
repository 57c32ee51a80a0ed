"""Data sets by name, one file each, and the module that makes batches of them."""

from chop.dataset.base import (
    DATASETS,
    Dataset,
    DatasetInfo,
    Rows,
    Scaling,
    Splits,
    get_dataset_info,
    register_dataset,
)
from chop.dataset.jsc import JSC
from chop.dataset.module import MaseDataModule
from chop.dataset.toy_tiny import ToyTiny

__all__ = [
    "DATASETS",
    "JSC",
    "Dataset",
    "DatasetInfo",
    "MaseDataModule",
    "Rows",
    "Scaling",
    "Splits",
    "ToyTiny",
    "get_dataset_info",
    "register_dataset",
]
