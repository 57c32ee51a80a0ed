"""What holds for every captured model: the same results, formats, gradients, cost, and every pass."""

from __future__ import annotations

import copy
import logging
import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from chop.ir import MaseGraph
from chop.ir.graph.capture.dynamic_sizes import has_lengths
from chop.passes.graph import (
    estimate_cost_analysis_pass,
    load_mase_graph_interface_pass,
    save_mase_graph_interface_pass,
    verify_common_metadata_analysis_pass,
)
from real_models import MODELS
from real_models_base import RealModel
from real_models_table import (
    CONFIGS,
    captured,
    documented,
    failing_passes,
    known_ops,
    load_without_model,
    passes_that_fail,
    quantized,
    shown_capture,
    sqnr_db,
    tensors,
)

pytestmark = pytest.mark.slow

Captured = tuple[str, RealModel, MaseGraph]

EVALUATION_ONLY = ("Mamba", "SegFormer", "Swin", "wav2vec2")
"""Models that skip paths or layers at random in training, or call other functions (Mamba)."""
LOWEST_DB = {
    ("MobileNetV2", "INT8"): 10,
    ("MobileNetV2", "MXFP8"): -2,
    ("EfficientNet", "INT8"): 9,
    ("EfficientNet", "MXFP8"): 3,
    **dict.fromkeys((("Gemma 2", "MXFP8"), ("Gemma 3", "MXFP8"), ("SegFormer", "MXFP8")), 17),
}
"""Models that amplify errors: `test_models_with_a_lower_bar_amplify_any_noise`."""

NOT_PICKLED = ("wav2vec2",)
"""Models with parametrised layers, which PyTorch does not pickle."""

WITH_ALL_PASSES = (
    "BERT",
    "Llama",
    "ResNet",
    "plain ResNet-18",
    "LSTM",
    "GPT-2",
    "ViT",
    "Whisper encoder",
    "Qwen3",
    "T5",
)
"""Models on which every pass is tested; on the others, `make test-captured` does."""


logged: dict[str, list[logging.LogRecord]] = {}
"""What torch's tensors without data logged while a model was captured."""


class Records(logging.Handler):
    """A handler that keeps what is logged."""

    def __init__(self, kept: list[logging.LogRecord]) -> None:
        super().__init__()
        self.kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record)


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Captured:
    handler = Records(logged.setdefault(request.param, []))
    names = [name for name in logging.root.manager.loggerDict if name.startswith("torch._subclasses")]
    for name in names:  # some of them do not pass their records on
        logging.getLogger(name).addHandler(handler)
    try:
        return request.param, *captured(request.param)
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


def test_models_are_captured_without_tracebacks_in_the_log(model: Captured) -> None:
    """torch logs a traceback when grouped products of float32, as in Mixtral, run on tensors without data."""
    assert not logged[model[0]]


def test_outputs_keys_and_modules_are_those_of_the_model(model: Captured) -> None:
    _, real, graph = model
    for rows in (2, 3, 1):
        batch = {name: torch.cat([value, value])[:rows] for name, value in real.batch.items()}
        with torch.no_grad():
            expected, found = real.model(**batch), graph.model(**batch)
        assert type(found) is type(expected)
        for a, b in zip(tensors(found), tensors(expected), strict=True):
            assert torch.allclose(a, b, atol=1e-5)
    assert graph.model.state_dict().keys() == real.model.state_dict().keys()
    for node in graph.fx_graph.nodes:
        if node.op == "call_module":
            assert graph.model.get_submodule(str(node.target)) is real.model.get_submodule(str(node.target))
    verify_common_metadata_analysis_pass(graph, None)


def test_graphs_take_the_lengths_that_are_documented(model: Captured) -> None:
    name, real, graph = model
    captured = documented()[name][1]
    is_sequence = captured.startswith("export") and has_lengths(real.batch)
    assert ("length" in captured) == is_sequence
    if not is_sequence:
        return
    shorter = {key: value[:, :7] for key, value in real.batch.items()}
    if "fixed" in captured:
        with pytest.raises(
            ValueError, match=r"input '\w+' has the shape \[2, 7.*, and only its first size may differ"
        ):
            graph.model(**shorter)
        return
    for rows, length in ((2, 7), (2, 1), (1, 1)):  # torch.export does not consider sizes of 1
        batch = {key: value[:rows, :length] for key, value in real.batch.items()}
        with torch.no_grad():
            found, expected = tensors(graph.model(**batch)), tensors(real.model(**batch))
        for a, b in zip(found, expected, strict=True):
            assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("kind", CONFIGS)
def test_quantised_models_have_a_small_error_and_gradients(model: Captured, kind: str) -> None:
    name, real, original = model
    graph = quantized(original, kind)
    shown = float(documented()[name][4 + list(CONFIGS).index(kind)].split()[0])
    assert sqnr_db(real, graph) == pytest.approx(shown, abs=3)
    assert shown > LOWEST_DB.get((name, kind), 20)
    real.model.zero_grad()
    tensors(real.model(**real.batch))[0].square().sum().backward()
    reached = {key for key, parameter in real.model.named_parameters() if parameter.grad is not None}
    real.model.zero_grad()
    graph.model.train(name not in EVALUATION_ONLY)
    tensors(graph.model(**real.batch))[0].square().sum().backward()
    gradients = {key: p.grad for key, p in graph.model.named_parameters() if p.grad is not None}
    assert gradients.keys() == reached
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@pytest.mark.parametrize("name", sorted({name for name, _ in LOWEST_DB}))
def test_models_with_a_lower_bar_amplify_any_noise(name: str) -> None:
    """Without any format: noise of -30 dB in each layer's output is 8 dB stronger in the model's output."""
    torch.manual_seed(0)
    real = MODELS[name]()
    real.model.eval()
    with torch.no_grad():
        expected = tensors(real.model(**real.batch))[0]
        for layer in real.model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.register_forward_hook(lambda _, given, y: y + 10**-1.5 * y.std() * torch.randn_like(y))
        found = tensors(real.model(**real.batch))[0]
    assert 10 * torch.log10(expected.square().sum() / (found - expected).square().sum()) < 22


def test_operations_are_those_counted_by_hand(model: Captured) -> None:
    _, real, graph = model
    _, info = estimate_cost_analysis_pass(graph, None)
    assert info["total"]["macs"] == real.macs


def test_saved_and_copied_models_compute_the_same(model: Captured, tmp_path: Path) -> None:
    name, real, original = model
    graph = quantized(original, "INT8")
    save_mase_graph_interface_pass(graph, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(copy.deepcopy(original), tmp_path)
    with torch.no_grad():
        expected = tensors(graph.model(**real.batch))
        others = [loaded] if name in NOT_PICKLED else [loaded, pickle.loads(pickle.dumps(graph))]
        for other in others:
            for a, b in zip(tensors(other.model(**real.batch)), expected, strict=True):
                assert a.equal(b)
    if documented()[name][7] == "yes":
        assert load_without_model(real, graph, tmp_path) == ""


def test_every_pass_works_as_documented(model: Captured, tmp_path: Path) -> None:
    name, real, original = model
    if name not in WITH_ALL_PASSES and "CHOP_TEST_CAPTURED" not in os.environ:
        pytest.skip("only with `make test-captured`")
    logging.getLogger("chop").setLevel(logging.ERROR)  # warnings about unknown ops
    failures = failing_passes(real, original, tmp_path)
    assert failures.keys() <= passes_that_fail(documented()[name][8]), failures


def test_the_page_describes_how_each_model_is_captured(model: Captured) -> None:
    name, _, graph = model
    assert documented()[name][1] == shown_capture(graph)
    known, calls = (int(number) for number in documented()[name][3].split(" of "))
    assert (known_ops(graph)[0] >= known, known_ops(graph)[1]) == (True, calls)
    assert documented().keys() == MODELS.keys()
