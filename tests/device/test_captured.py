"""Models of other libraries as graphs: captured on the CPU and moved, or captured on the other device."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from chop.ir import MaseGraph
from chop.ir.graph.device import moved
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from device.other import NAME
from real_models import MODELS

THERE = torch.device(NAME, 0)

WITHOUT_KERNEL = {
    "LSTM": "fused cells",
    "GRU": "fused cells",
    "Mixtral": "histograms of int32",
    "Falcon": "tensors made under torch.export",
    "DeBERTa-v2": "functions of torch.jit that make tensors",
}
"""What the test device cannot do, by model; GPUs can."""
CHOSEN = {"BERT", "OPT", "GPT-2", "Llama", "Gemma 2", "GPT-NeoX", "T5", "Mamba", "ViT", "Swin", "ConvNeXt"}
CHOSEN |= {"MobileNetV2", "Whisper encoder", "nn.Transformer"}
"""One model of each kind; `make test-captured` runs all."""
TESTED = [
    name for name in MODELS if name not in WITHOUT_KERNEL and (name in CHOSEN or "CHOP_TEST_CAPTURED" in os.environ)
]


def outputs(model: Any, batch: dict[str, Any]) -> list[Tensor]:
    with torch.no_grad():
        found = model.eval()(**batch)
    return [leaf.cpu() for leaf in pytree.tree_leaves(found) if isinstance(leaf, Tensor)]


@pytest.mark.parametrize("captured", ["on the CPU", "there"])
@pytest.mark.parametrize(
    "name", [name if name == "BERT" else pytest.param(name, marks=pytest.mark.slow) for name in TESTED]
)
def test_graphs_compute_on_another_device(name: str, captured: str) -> None:
    real = MODELS[name]()
    expected = outputs(real.model, copy.deepcopy(real.batch))
    batch = moved(real.batch, THERE)
    if captured == "there":
        real.model.to(THERE)
        graph = MaseGraph(real.model, example_inputs=batch)
    else:
        graph = MaseGraph(real.model, example_inputs=real.batch)
        graph.model.to(THERE)
    for found, value in zip(outputs(graph.model, batch), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-4, atol=1e-4)
    graph, _ = init_metadata_analysis_pass(graph, None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": batch})
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": {"name": "integer"}}})
    assert all(value.isfinite().all() for value in outputs(graph.model, batch) if value.is_floating_point())
