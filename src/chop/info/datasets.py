"""Data sets: the shape of their samples, their classes and options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chop.dataset import DATASETS, get_dataset_info, resolve_dataset
from chop.info.page import Kind, Listing, Page, documentation, summary
from chop.info.parameters import parameter_table


def dataset_table() -> Listing:
    """Return the table of all data sets."""
    rows = []
    for name, make in DATASETS.items():
        options = [option for option, *_ in _options(name).rows]
        rows.append((name, _shape(name), get_dataset_info(name).num_classes, options, summary(make)))
    return Listing(("name", "sample", "classes", "options", "what it is"), rows)


def dataset_page(name: str) -> Page:
    """Return the page of a data set: a registered name, a data file or `data.py:Name`."""
    info = get_dataset_info(name)
    return Page(
        title=f"data set {name}",
        text=documentation(_maker(name)),
        facts={
            "sample": _shape(name),
            "features": info.feature_names,
            "classes": info.class_names or info.num_classes,
        },
        tables={"options: --data-option NAME=VALUE (path: --data PATH), or [data] in TOML": _options(name)},
    )


def _options(name: str) -> Listing:
    return parameter_table(_maker(name), left_out="seed")


def _maker(name: str) -> Callable[..., object]:
    make = resolve_dataset(name)
    return make.func if isinstance(make, partial) else make


def _shape(name: str) -> str:
    return " x ".join(str(size) for size in get_dataset_info(name).feature_shape)


KIND = Kind(dataset_table, dataset_page)
