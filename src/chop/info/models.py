"""Models: their size for a data set that fits, and their layers."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn

from chop.dataset import DATASETS, DatasetInfo, get_dataset_info
from chop.info.page import Kind, Listing, Page, documentation
from chop.models import MODELS, ModelInfo, get_model_info


def model_table() -> Listing:
    """Return the table of all models."""
    rows = []
    for name, info in MODELS.items():
        data = _fitting_dataset(info)
        rows.append((name, _num_parameters(_build(info, data)) if data else None, data and data.name, info.summary))
    return Listing(("name", "parameters", "data set", "what it is"), rows)


def model_page(name: str) -> Page:
    """Return the page of a model: a registered name or `net.py:Net`."""
    info = get_model_info(name)
    data = _fitting_dataset(info)
    facts: dict[str, object] = {"tasks": info.tasks, "inputs": info.inputs}
    if info.options:
        facts["options"] = [f"{name} = {value}" for name, value in info.options.items()]
    layers: list[tuple[object, ...]] = []
    if data is not None:
        model = _build(info, data)
        leaves = {path: layer for path, layer in model.named_modules() if not list(layer.children())}
        layers = [(path, layer, _num_parameters(layer) or None) for path, layer in leaves.items()]
        counts = Counter(type(layer).__name__ for layer in leaves.values())
        facts |= {
            "parameters": f"{_num_parameters(model):,} for {data.name}",
            "layers": [f"{count} {kind}" for kind, count in counts.items()],
        }
    table = Listing(("name", "layer", "parameters"), layers)
    return Page(f"model {name}", documentation(info.make), facts, {"layers": table})


def _fitting_dataset(info: ModelInfo) -> DatasetInfo | None:
    """Return a data set whose samples have the number of dimensions that the model takes: `jsc` if it fits."""
    names = sorted(DATASETS, key=lambda name: name != "jsc")
    known = (get_dataset_info(name) for name in names)
    return next((each for each in known if info.sample_dims in (None, len(each.feature_shape))), None)


def _build(info: ModelInfo, data: DatasetInfo) -> nn.Module:
    with torch.device("meta"):  # allocates no memory for the weights
        return info.build(data)


def _num_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


KIND = Kind(model_table, model_page)
