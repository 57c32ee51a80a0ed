"""Latency in onnxruntime of models that were exported in narrow types, relative to the same models in float32."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor

import chop
from benchmarks.results import Result
from benchmarks.timing import cpu_times
from chop.exporting import export_graph
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    calibrate_transform_pass,
    fold_batch_norm_transform_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

SUMMARY = (
    "`jsc-mlp` with the widths of weights that a search chose (`configs/examples/jsc_mlp_search_int8.toml`: 8-bit "
    "activations, weights of 5 to 8 bits in INT8), and `resnet32` in INT8 (batch norms folded, results of ReLU "
    "unsigned, fraction bits calibrated, as docs/export.md recommends), exported with `--format onnx` and proven; "
    "then run by onnxruntime with default options beside the same model in float32. CPU time, one thread, medians "
    "of alternating calls. For a single jet, the call costs more than its layers of at most 64 neurons."
)
SPACE = Path(__file__).parents[1] / "configs" / "examples" / "jsc_mlp_search_int8.toml"
INPUTS: dict[str, Any] = {"name": "integer"}
WEIGHTS: dict[str, Any] = {"name": "integer", "data_in_name": "float"}
SUMMANDS: dict[str, Any] = {**WEIGHTS, "data_out_name": "integer"}
NOT_NEGATIVE: dict[str, Any] = {**SUMMANDS, "data_out_is_signed": False}
INT8: dict[str, Any] = {
    "by": "regex_name",
    r"conv1": {"config": INPUTS},
    r"layer.*conv1": {"config": WEIGHTS},
    r"layer.*conv2": {"config": SUMMANDS},
    r".*relu.*": {"config": NOT_NEGATIVE},
    r"linear": {"config": {**INPUTS, "data_in_is_signed": False}},
}
"""Each result that another layer reads is rounded once, where it is computed: onnxruntime fuses such layers."""


class _Images:
    """The images of CIFAR-10, without its files."""

    num_features, num_classes, feature_shape = 3072, 10, (3, 32, 32)


def run(quick: bool) -> list[Result]:
    """Measure both models."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*_jets(folder, quick), *_resnet(folder, quick)]


def _jets(folder: Path, quick: bool) -> list[Result]:
    options: dict[str, Any] = {"project_dir": folder, "max_samples": 500, "data_options": {"num_rows": 2000}}
    trained = chop.train("jsc-mlp", "jsc", max_epochs=1, name="float", **options)
    given: dict[str, Any] = {"load": trained.folder.path, "n_trials": 2 if quick else 8, "name": "search"}
    searched = chop.search("jsc-mlp", "jsc", tomllib.loads(SPACE.read_text())["search"], **given, **options)
    found = chop.transform(config=searched.folder.best_config, project_dir=folder, name="found")
    paths = [chop.export(each, samples=100).path for each in (trained, found)]
    rows = searched.test_batches(512).features
    return _compare("jsc-mlp, INT8 found by a search", paths, "x", rows, quick)


def _resnet(folder: Path, quick: bool) -> list[Result]:
    torch.manual_seed(0)
    images = torch.randn(16, 3, 32, 32)
    model = get_model("resnet20" if quick else "resnet32", dataset_info=_Images())
    model(torch.randn(64, 3, 32, 32))  # statistics of the batch norms
    model.eval()
    plain, graph = (fold_batch_norm_transform_pass(_annotated(model, images), {})[0] for _ in range(2))
    graph, _ = quantize_transform_pass(graph, INT8)
    graph, _ = calibrate_transform_pass(graph, {"input_generator": [{"x": images}]})
    paths = [folder / "float.onnx", folder / "int8.onnx"]
    for each, path in zip((plain, graph), paths, strict=True):
        print(f"{path.name}: {export_graph(each, path, 'onnx', [{'x': images[:4]}]).proof}")
    return _compare("resnet32, INT8", paths, "x", images, quick)


def _annotated(model: torch.nn.Module, images: Tensor) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    return add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": images[:2]}})[0]


def _compare(what: str, paths: list[Path], name: str, rows: Tensor, quick: bool) -> list[Result]:
    """Return the latency of the float file, and that of the other relative to it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    sessions = [onnxruntime.InferenceSession(path, options) for path in paths]
    results = []
    bar = 1.0 if "resnet" in what and not quick else float("inf")
    for count in (1, len(rows)):
        feed = {name: rows[:count].numpy()}
        calls = [lambda session=session, feed=feed: session.run(None, feed) for session in sessions]
        plain, narrow = cpu_times(*calls, repeats=2 if quick else 30)
        label = f"{what}, {count} row{'s' if count > 1 else ''}"
        results.append(Result(f"{label}, float32", 1000 * plain, float("inf"), "ms"))
        results.append(Result(f"{label}, exported", narrow / plain, bar, "x float32"))
    size = paths[1].stat().st_size / paths[0].stat().st_size
    return [
        *results,
        Result(f"{what}, size of the file", size, bar, "x float32"),
    ]
