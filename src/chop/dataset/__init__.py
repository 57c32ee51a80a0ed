"""Data sets by name, one file each, and the data module that makes batches."""

from chop.dataset.base import (
    DATASETS,
    Dataset,
    DatasetInfo,
    Rows,
    Scaling,
    Splits,
    register_dataset,
)
from chop.dataset.cifar10 import CIFAR10
from chop.dataset.data_module import MaseDataModule
from chop.dataset.digits import Digits
from chop.dataset.file_dataset import FileDataset
from chop.dataset.jsc import JSC
from chop.dataset.lookup import dataset_from, get_dataset_info, resolve_dataset
from chop.dataset.mnist import MNIST, FashionMNIST
from chop.dataset.toy_tiny import ToyTiny

__all__ = [
    "CIFAR10",
    "DATASETS",
    "JSC",
    "MNIST",
    "Dataset",
    "DatasetInfo",
    "Digits",
    "FashionMNIST",
    "FileDataset",
    "MaseDataModule",
    "Rows",
    "Scaling",
    "Splits",
    "ToyTiny",
    "dataset_from",
    "get_dataset_info",
    "register_dataset",
    "resolve_dataset",
]
