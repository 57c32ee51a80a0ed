"""Every preset on every kind of model: quantised, trained, saved, and opened by a process without the class."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import chop
from chop.ir import MaseGraph
from chop.nn.quantized import PRESETS, QuantConfig
from chop.quantizing.batches import Batches
from chop.tasks.base import first_tensor
from quantizing.models import SkipCNN, mlp, rows

ROOT = Path(__file__).parents[2]
RUN_ALL = """
import sys
from pathlib import Path
import chop
from chop.tasks.base import first_tensor
from safetensors.torch import load_file, save_file

folder = Path(sys.argv[1])
inputs = load_file(folder / "inputs.safetensors")
outputs = {path.parent.name: first_tensor(chop.load(path.parent)(**inputs)) for path in folder.glob("*/graph.json")}
save_file({name: output.detach().contiguous() for name, output in outputs.items()}, folder / "outputs.safetensors")
"""
LEAST_SQNR_DB = {8: 15.0, 6: 10.0, 4: 4.0}
"""By the bits of weights; random weights of small models are hard to round."""


def _transformer() -> tuple[nn.Module, list[Any]]:
    transformers: Any = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, vocab_size=50, max_position_embeddings=32, num_labels=3)
    tokens = torch.randint(50, (4, 10))
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.tensor([0, 1, 2, 0])}
    return transformers.BertForSequenceClassification(config), [transformers.BatchEncoding(batch)]


MODELS = {
    "mlp": lambda: (mlp(), rows()),
    "cnn": lambda: (SkipCNN(), [(torch.randn(4, 1, 6, 6), torch.tensor([0, 1, 2, 3])) for _ in range(2)]),
    "transformer": _transformer,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_every_preset_is_quantised_trained_saved_and_opened_without_the_class(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, data = MODELS[kind]()
    model.eval()
    before = copy.deepcopy(model.state_dict())
    inputs = dict(Batches.of(model, data).first())
    save_file(inputs, tmp_path / "inputs.safetensors")
    graph = MaseGraph(model, example_inputs=inputs)  # once: quantising the model itself would capture it each time
    expected = {}
    for name in PRESETS:
        quantized = chop.quantize(graph, name, data)
        chop.save(quantized, tmp_path / name)
        expected[name] = first_tensor(quantized(**inputs)).detach()
        first_tensor(quantized.train()(**inputs)).square().mean().backward()
        used = [parameter for path, parameter in quantized.named_parameters() if "embeddings" not in path]
        assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in used), name
    table = chop.compare(model, list(PRESETS), data)
    measured = zip(table.column("output_sqnr_db"), table.column("quantized_weight_bits"), strict=True)
    for name, (sqnr_db, bits) in zip(PRESETS, list(measured)[1:], strict=True):
        config = QuantConfig.read(name, name)
        assert config is not None
        assert sqnr_db > LEAST_SQNR_DB[config.formats["weight"].width], name
        assert bits > config.formats["weight"].width, name
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", RUN_ALL, str(tmp_path)], env=environment, cwd=tmp_path, check=True)
    outputs = load_file(tmp_path / "outputs.safetensors")
    assert {name: outputs[name].equal(output) for name, output in expected.items()} == dict.fromkeys(PRESETS, True)
