"""The Python interface: what the commands do, as functions that return the finished run."""

from __future__ import annotations

import copy
import logging
import os
import warnings
import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from chop.actions import train as train_action
from chop.actions import transform as transform_action
from chop.config import (
    ActionConfig,
    ExportConfig,
    SearchConfig,
    SweepConfig,
    TrainConfig,
    TransformConfig,
)
from chop.config.settings import INPUTS, read_settings
from chop.dataset import MaseDataModule, Rows
from chop.dataset.tokens import token_arguments
from chop.display.extras import need
from chop.display.numbers import counted
from chop.display.tables import Table
from chop.exporting import Exported, export_graph, file_name
from chop.exporting.export import export_run
from chop.ir import MaseGraph
from chop.ir.graph.annotate import annotate, init_metadata
from chop.ir.graph.interpreter import evaluation_mode, example_inputs
from chop.nn.quantized import FormatSpec
from chop.options import read_options
from chop.passes.graph import report_html_analysis_pass
from chop.quantizing.compare import compare as compare_models
from chop.quantizing.compare import layers as compare_layers
from chop.quantizing.quantize import Style
from chop.quantizing.quantize import quantize as quantize_model
from chop.quantizing.saving import load as load_model
from chop.quantizing.saving import save as save_model
from chop.registry import closest
from chop.reporting.run_report import page_to_write, write_report
from chop.reporting.table_reports import write_sweep_report
from chop.runs import Run, RunFolder, open_run
from chop.runs.folder import output_file
from chop.runs.listing import with_run_to_load
from chop.sweeping.sweep import sweep as run_sweep
from chop.tasks import Evaluation, get_task
from chop.tasks.classification import ClassificationMeter
from chop.training.batches import Batch, evaluation_batches
from chop.training.evaluation import evaluate as evaluate_batches
from chop.training.threads import limit_threads, multiplications_per_row
from chop.trusted_files import trust

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Evaluation",
    "Exported",
    "Run",
    "compare",
    "evaluate",
    "export",
    "layers",
    "load",
    "open_run",
    "plot",
    "quantize",
    "report",
    "save",
    "search",
    "sweep",
    "train",
    "transform",
    "trust",
]

logger = logging.getLogger(__name__)

Config = TypeVar("Config", bound=ActionConfig)
Split = Literal["train", "val", "test"]
Name = str | os.PathLike[str] | None
"""A model or a data set: a registered name, or a file."""
Data = str | os.PathLike[str] | MaseDataModule | Rows | Iterable[tuple[Tensor, Tensor]]
"""A data set by name, a data module, rows in memory, or batches `(features, labels)` such as a `DataLoader`."""


def train(model: Name = None, dataset: Name = None, **options: Any) -> Run:
    """Train a model, test its best epoch, and return the run.

    `model` is a registered name or a reference such as `net.py:Net`, `dataset` a registered name or a file of rows.
    The options are those of `ch train`, for example `max_epochs=5`; `config="run.toml"` reads them from a file.
    """
    config = _read_config(TrainConfig, "train", model, dataset, options)
    return open_run(train_action.train(config))


def transform(
    model: Name = None,
    dataset: Name = None,
    passes: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> Run:
    """Run passes on a model, evaluate it before and after, and return the run with the new graph.

    `passes` has the arguments of each pass by its name, in order, like the `[passes.NAME]` tables of a TOML file.
    The options are those of `ch transform`; `load` is a checkpoint, a run folder or a `Run` to start from.
    """
    given = options if passes is None else {**options, "passes": passes}
    config = _read_config(TransformConfig, "transform", model, dataset, given)
    return open_run(transform_action.transform(config))


def sweep(model: Name = None, dataset: Name = None, **options: Any) -> Run:
    """Measure accuracy and cost in several formats and widths, and return the run; `run.summary["rows"]` has all.

    The options are those of `ch sweep`, such as `formats=["integer", "mxfp"]`, `widths=range(2, 9)`, `load=run`.
    """
    given = {key: list(value) if isinstance(value, range) else value for key, value in options.items()}
    return open_run(run_sweep(_read_config(SweepConfig, "sweep", model, dataset, given)).path)


def search(
    model: Name = None, dataset: Name = None, search: Mapping[str, Any] | None = None, **options: Any
) -> Run:
    """Search for Pareto-optimal number formats and return the run.

    `search` is the `[search]` table of a TOML file; by default the table of `ch search`. The options are those of
    `ch search`, for example `n_trials=20` and `load=run`.
    """
    given = options if search is None else {**options, "search": search}
    config = _read_config(SearchConfig, "search", model, dataset, given)
    with warnings.catch_warnings():
        # Optuna takes half a second to import. It imports tqdm, which warns in notebooks without ipywidgets.
        warnings.filterwarnings("ignore", message="IProgress not found")
        need("optuna", "chop.search")
        from chop.searching.search import search as run_search
    return open_run(run_search(config))


def evaluate(
    model: nn.Module | MaseGraph | Run,
    data: Data,
    *,
    split: Split = "test",
    batch_size: int = 128,
    original: Evaluation | None = None,
) -> Evaluation:
    """Return loss, accuracy and confusion matrix of a classifier, on the device of its parameters.

    `split` and `batch_size` apply to a data set by name, and `split` to a data module. A data module of texts is
    evaluated on its task; `original` is the result of the model that the task `similarity` compares with.
    """
    module = _module(model, "chop.evaluate")
    batches = _batches(data, split, batch_size)
    first = next(batches, None)
    if first is None:
        raise ValueError("chop.evaluate: there are no rows to evaluate on")
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    if isinstance(data, MaseDataModule) and data.dataset_info.kind == "tokens":
        meter = get_task(data.task).meter(data.dataset_info, device, original)
        return evaluate_batches(module, chain([first], batches), meter, device, arguments=token_arguments)
    num_classes = _num_classes(module, first, device)
    work = multiplications_per_row(module, first.features[:2].to(device)) * len(first.features)
    with limit_threads(work):
        checked = (_check_labels(batch, num_classes) for batch in chain([first], batches))
        return evaluate_batches(module, checked, ClassificationMeter(num_classes, device), device)


def quantize(
    model: nn.Module | MaseGraph | Run,
    spec: FormatSpec,
    data: Any = None,
    *,
    style: Style = "graph",
    calibrate: bool | None = None,
) -> nn.Module:
    """Return a quantised copy of a model, which can be called, trained and saved; the model itself stays as it was.

    `spec` is a preset (`ch info presets`), a format with parameters such as `"integer(width=4, scale=float)"`, a
    `Format`, or a config as for the pass `quantize`. All but the last are for linear layers, convolutions,
    recurrent layers and attention. `data` is a batch, or yields batches: tensors, `(features, labels)`, or dicts by
    argument name. The graph is captured on the first one, and presets such as `int8` fix scales of activations on
    the first 16; `calibrate` decides otherwise. A model that cannot be captured, one without `data`, and
    `style="module"` get a copy of their own class in which each layer is replaced.
    """
    return quantize_model(_module(model, "chop.quantize"), spec, data, style=style, calibrate=calibrate)


def compare(model: nn.Module | MaseGraph | Run, specs: FormatSpec | Sequence[FormatSpec], data: Any) -> Table:
    """Return a table of a model quantised in several ways, each as for `chop.quantize`, and of the model as it is.

    Its columns are the SQNR of the output, the bits per weight of quantised layers as they are stored, with scales,
    and, if the batches of `data` have labels, accuracy, its difference from the model as it is, and loss.
    """
    return compare_models(_module(model, "chop.compare"), specs, data)


def layers(quantized: nn.Module | MaseGraph, original: nn.Module | MaseGraph, data: Any) -> Table:
    """Return a table of the error of each quantised layer and of the output, against the original model."""
    return compare_layers(_module(quantized, "chop.layers"), _module(original, "chop.layers"), data)


def save(model: nn.Module | MaseGraph, path: Path | str) -> None:
    """Write a model into the folder `path`, as JSON and safetensors, for `chop.load`."""
    save_model(_module(model, "chop.save"), path)


def load(path: Path | str, into: nn.Module | None = None) -> nn.Module:
    """Return the model that `chop.save` wrote, that of a saved graph, or that of a run.

    A model with a graph does not need its class. One without needs a model `into` of the same class, which stays as
    it was; so does a graph with layers that only the model's own code can build.
    """
    return load_model(path, into)


def export(
    subject: Run | MaseGraph | Path | str = "latest",
    output: Path | str | None = None,
    *,
    format: str = "onnx",
    data: Data | None = None,
    samples: int = 1000,
    opset: int | None = None,
) -> Exported:
    """Write the model of a run, or an annotated graph, as a file for other tools; `print(result.proof)`.

    The file is kept only if it computes what the model computes: on test samples of the run, or for a graph on the
    first `samples` rows of `data`, else on the batch that it is annotated with.
    """
    file = None if output is None else Path(output)
    given = {"format": format, "output": file, "samples": samples, "opset": opset}
    options = read_options(ExportConfig, given, "chop.export")
    if isinstance(subject, MaseGraph):
        if file is None:
            raise ValueError("chop.export: a graph needs 'output', the file to write")
        batches = iter(
            [example_inputs(subject, "data")] if data is None else _named_batches(subject, data, samples)
        )
        first = next(batches, None)
        if first is None:
            raise ValueError("chop.export: 'data' has no rows")
        path = output_file(file, file_name(format))
        return export_graph(_annotated(subject, first), path, format, chain([first], batches), options)
    return export_run(_open(subject, "chop.export"), options)


def plot(
    run: Run | Path | str | Sequence[Run | Path | str] = "latest",
    x: str | None = None,
    y: str | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Return the plot of a training, sweep or search as a figure of Matplotlib, which can be changed and saved.

    For several runs, or with `x`, `y` or `ax`, it shows a key figure over another one in the size of a column of a
    paper, by default `accuracy` over `weight_bits`.
    """
    from chop.reporting.run_plot import (  # here, because importing Matplotlib takes long
        figure_of_run,
        figure_of_runs,
    )

    runs = [run] if isinstance(run, Run | Path | str) else list(run)
    opened = [_open(run, "chop.plot") for run in runs]
    if len(opened) == 1 and x is None and y is None and ax is None:
        return figure_of_run(opened[0])
    return figure_of_runs(opened, x or "weight_bits", y or "accuracy", ax)


def report(
    subject: Run | MaseGraph | Path | str = "latest",
    output: Path | str | None = None,
    *,
    data: Data | None = None,
    original: MaseGraph | None = None,
    samples: int = 256,
    sensitivity: bool = True,
    open: bool = False,
) -> Path:
    """Write the HTML report of a run or of an annotated graph, and return its path.

    A run is given as a `Run`, or as `open_run` accepts it; by default the page is `report.html` in its folder. The
    page of a graph shows the values of the first `samples` rows of `data` and a comparison with `original`.
    """
    if samples < 1:
        raise ValueError(f"chop.report: 'samples' must be at least 1, got {samples}")
    if isinstance(subject, MaseGraph):
        path = page_to_write(None if output is None else Path(output), RunFolder(Path()))
        batches = None if data is None else _named_batches(subject, data, samples)
        given = {"path": path, "original": original, "input_generator": batches, "num_samples": samples}
        report_html_analysis_pass(subject, given)
    else:
        run = _open(subject, "chop.report")
        path = page_to_write(None if output is None else Path(output), run.folder)
        if run.action == "sweep":
            write_sweep_report(run.folder, path)
        else:
            write_report(run, path, num_samples=samples, with_sensitivity=sensitivity)
    if open:
        webbrowser.open(path.absolute().as_uri())
    return path


def _open(subject: object, where: str) -> Run:
    if isinstance(subject, Run):
        return subject
    if isinstance(subject, Path | str):
        return open_run(subject)
    hint = "; create one with MaseGraph(model)" if isinstance(subject, nn.Module) else ""
    kind = type(subject).__name__
    raise ValueError(f"{where} needs a Run, the name or path of a run, or a MaseGraph, got {kind}{hint}")


def _annotated(graph: MaseGraph, batch: Mapping[str, Tensor]) -> MaseGraph:
    """Return the graph, or a copy that is annotated with a batch if it is not annotated yet."""
    if all("mase" in node.meta and node.meta["mase"].annotated for node in graph.fx_graph.nodes):
        return graph
    copied = copy.deepcopy(graph)
    init_metadata(copied)
    annotate(copied, batch)
    return copied


def _read_config(
    cls: type[Config], action: str, model: object, dataset: object, options: Mapping[str, Any]
) -> Config:
    """Return the options of an action: those of its TOML file, if any, replaced by those that are given."""
    caller = f"chop.{action}"
    if isinstance(model, nn.Module | MaseGraph | type):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ValueError(
            f"{caller} needs the name of a model, or a reference such as 'net.py:{name}', so that "
            "the run can be repeated from its folder; chop.quantize, chop.compare, chop.evaluate and the passes "
            "accept the model itself"
        )
    inputs = {"model": model, "dataset": dataset}
    for name, value in inputs.items():
        if not isinstance(value, str | os.PathLike | None):
            raise ValueError(
                f"{caller} needs the name of a {INPUTS[name]} or a file, so that the run can be repeated from its "
                f"folder, got {type(value).__name__}; save rows with to_csv or numpy.savez, and give the path of "
                "the file; chop.evaluate accepts rows in memory"
            )
    names = {name: os.fspath(value) for name, value in inputs.items() if isinstance(value, str | os.PathLike)}
    given = {**names, **options}
    for name, value in given.items():
        if isinstance(value, Run | RunFolder):
            given[name] = value.folder.path if isinstance(value, Run) else value.path
    settings = read_settings(action, given, caller=caller)
    settings.prepare()
    config = settings.config()
    assert isinstance(config, cls), "a call has one value for each option"
    return with_run_to_load(config)


def _module(model: object, where: str) -> nn.Module:
    module = model.model if isinstance(model, MaseGraph | Run) else model
    if not isinstance(module, nn.Module):
        raise ValueError(f"{where} needs a torch.nn.Module, a MaseGraph or a Run, got {_shown(model)}")
    return module


def _shown(value: object) -> str:
    """Return what was given instead of a model, with what makes one of it."""
    if isinstance(value, str | os.PathLike):
        return f"'{os.fspath(value)}'; chop.open_run(...) opens a run, and chop.models.get_model(...) makes a model"
    return type(value).__name__


def _batches(data: Data, split: Split, batch_size: int) -> Iterator[Batch]:
    if isinstance(data, str | os.PathLike):
        data = MaseDataModule(os.fspath(data), batch_size)
    if isinstance(data, MaseDataModule):
        if split not in get_args(Split):
            raise ValueError(f"chop.evaluate: unknown split '{split}'; {closest(split, get_args(Split))}")
        data.prepare_data()
        data.setup()
        return evaluation_batches(getattr(data.splits, split), data.batch_size)
    if isinstance(data, Rows):
        return evaluation_batches(data, batch_size)
    if not isinstance(data, Iterable):
        raise ValueError(f"chop.evaluate: data must be a data set or yield batches, got {type(data).__name__}")
    return (_batch(pair, type(data).__name__) for pair in data)


def _batch(pair: object, kind: str) -> Batch:
    match pair:
        case (Tensor() as features, Tensor() as labels) if features.ndim > 0:
            return Batch(features, labels, len(features))
    raise ValueError(
        "chop.evaluate: data must be a data set or yield batches (features, labels); for a single batch pass "
        f"[(features, labels)]; got {kind}"
    )


def _check_labels(batch: Batch, num_classes: int) -> Batch:
    """Return the batch with labels as int64; raise ValueError if they are not the class of each row."""
    labels, num_rows = batch.labels, len(batch.features)
    if labels.is_floating_point() or labels.is_complex() or labels.shape != (num_rows,):
        raise ValueError(
            f"chop.evaluate: the labels of {counted(num_rows, 'row')} must be class indices, integers of shape "
            f"[{num_rows}], got {labels.dtype} of shape {list(labels.shape)}"
        )
    wrong = labels[(labels < 0) | (labels >= num_classes)]
    if len(wrong):
        raise ValueError(
            f"chop.evaluate: labels must be from 0 to {num_classes - 1}, because the model returns {num_classes} "
            f"scores; got {int(wrong[0])}"
        )
    return batch._replace(labels=labels.long())


def _num_classes(model: nn.Module, batch: Batch, device: torch.device) -> int:
    """Return the number of scores that a model returns per row."""
    with evaluation_mode(model):
        output = model(batch.features[:2].to(device))
    if not isinstance(output, Tensor) or output.ndim != 2:
        shape = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(f"chop.evaluate needs a model that returns [rows, classes]; this one returns {shape}")
    return output.shape[1]


def _named_batches(graph: MaseGraph, data: Data, batch_size: int) -> Iterator[dict[str, Tensor]]:
    """Yield batches as keyword arguments of the graph."""
    name = next(str(node.target) for node in graph.fx_graph.nodes if node.op == "placeholder")
    for batch in _batches(data, "test", batch_size):
        for features in batch.features.split(batch_size):
            yield {name: features}
