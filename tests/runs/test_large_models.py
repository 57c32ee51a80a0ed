"""Memory of large models: activations are not kept, and rounded weights are kept at most once."""

from __future__ import annotations

from pathlib import Path

import pytest

from chop.config import TransformConfig
from chop.config.transform import TransformTable
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph import quantize_transform_pass
from chop.runs import Experiment, experiment
from chop.transforming.outcome import _evaluate

FEW_ROWS = {"num_rows": 100}


def test_activations_are_kept_if_they_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Experiment.load(TransformConfig(model="toy", dataset="toy_tiny", data_options=FEW_ROWS))
    assert all(
        tensor.value is not None for meta in loaded.annotated_graph().metas() for tensor in meta.results.values()
    )
    monkeypatch.setattr(experiment, "MAX_VALUES_KEPT", 10)
    large = loaded.annotated_graph()
    assert all(meta.annotated for meta in large.metas())
    assert all(tensor.value is None for meta in large.metas() for tensor in meta.results.values())


def test_formats_are_chosen_from_data_without_keeping_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Experiment.load(TransformConfig(model="toy", dataset="toy_tiny", data_options=FEW_ROWS))
    args = {"by": "type", "linear": {"config": {"name": "integer", "data_in_frac_width": "auto"}}}
    _, expected = quantize_transform_pass(loaded.annotated_graph(), args)
    monkeypatch.setattr(experiment, "MAX_VALUES_KEPT", 10)
    _, found = quantize_transform_pass(loaded.annotated_graph(), args)
    assert found["chosen"] == expected["chosen"] != {}


@pytest.mark.parametrize("cache_weights", [True, False])
def test_rounded_weights_are_kept_during_an_evaluation_only(
    cache_weights: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = TransformConfig(
        model="toy",
        dataset="toy_tiny",
        data_options=FEW_ROWS,
        transform=TransformTable(cache_weights=cache_weights),
    )
    loaded = Experiment.load(config)
    args = {"by": "type", "linear": {"config": {"name": "integer"}}}
    graph, _ = quantize_transform_pass(loaded.annotated_graph(), args)
    layers = [layer for layer in graph.model.modules() if isinstance(layer, QuantizedLayer)]
    kept: list[bool] = []
    for layer in layers:
        layer.register_forward_hook(lambda layer, inputs, output: kept.append("_cache" in vars(layer)))
    _evaluate(config, loaded, {"after": graph.model})
    assert kept[-len(layers) :] == [cache_weights] * len(layers)
    assert not any("_cache" in vars(layer) for layer in layers)
