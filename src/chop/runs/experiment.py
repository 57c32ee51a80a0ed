"""A model and its data, loaded from a configuration."""

from __future__ import annotations

import copy
import logging
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop import __version__
from chop.config import ActionConfig
from chop.dataset import MaseDataModule
from chop.dataset.images import IMAGE_DIMS
from chop.display.launcher import option_name
from chop.display.progress import Stage
from chop.ir import MaseGraph
from chop.ir.graph.annotate import annotate, init_metadata, init_software_metadata
from chop.ir.graph.device import device_of
from chop.ir.graph.interpreter import evaluation_mode
from chop.ir.graph.storage.nodes import plain_call
from chop.models import ModelInfo, check_supported, get_model_info
from chop.nn.quantized import QuantizedCall, QuantizedLayer, compile_rounding, plain_layer
from chop.runs.devices import pick_device
from chop.runs.folder import RunFolder
from chop.runs.input_generator import InputGenerator
from chop.runs.weights import load_model
from chop.task_names import TASKS
from chop.tasks import Evaluation, Meter, get_task
from chop.tasks.base import first_tensor

logger = logging.getLogger(__name__)

GREY_IMAGE_DIMS = 3  # of a batch without a dimension for channels
MAX_VALUES_KEPT = 2**26  # elements of the activations of a batch: 256 MB of float32
MAX_WEIGHTS_NAMED = 3  # in a warning
PACKAGES = ("torch", "numpy", "lightning-fabric")  # whose versions are in the summary


@dataclass(frozen=True)
class Experiment:
    """A configuration with its model and data loaded; the model accepts the rows of the data."""

    config: ActionConfig
    data: MaseDataModule
    model: nn.Module
    model_info: ModelInfo

    @classmethod
    def load(cls, config: ActionConfig, data: MaseDataModule | None = None) -> Experiment:
        """Load the model and the data of `config`, or use `data`, and check that they fit together."""
        device = pick_device(config.accelerator)
        with Stage(f"reading {Path(config.model).name}"):
            model_info = get_model_info(
                config.model, config.task, pretrained=config.pretrained, trust_remote_code=config.trust_remote_code
            )
            check_supported(model_info, config.task, config.pretrained)
            model_info = model_info.with_arguments(config.cf_args) if config.cf_args else model_info
            data = data or open_data(config, model_info)
            torch.manual_seed(config.seed)
            model = model_info.build(data.dataset_info, config.model_options)
        if config.load_name is not None:
            with Stage(f"loading {config.load_name}"):
                first_batch = partial(_first_batch, data, model_info, config.task)
                model = load_model(str(config.load_name), config.load_type, model, first_batch)
            folder = RunFolder(config.load_name.parent.parent.parent)
            if config.load_name.parent == folder.checkpoints and folder.graph.is_dir():
                # weights of a quantised graph also fit the plain model
                message = "%s holds weights without number formats; %s has both"
                logger.warning(message, config.load_name, folder.graph)
        if config.compile:
            compile_rounding(model)
        with Stage(f"reading {Path(config.dataset).name}"):
            data.prepare_data()  # last, because the other steps can fail without reading the rows
            data.setup()
        experiment = cls(config, data, model.to(device), model_info)
        with Stage("trying the model on two rows"):
            experiment._check_shapes()
        return experiment

    @property
    def device(self) -> torch.device:
        """The device of the model, on which everything is computed."""
        return device_of(self.model)

    @property
    def arguments(self) -> Callable[[Tensor], dict[str, Tensor]]:
        """Returns the arguments of the model's `forward` for rows."""
        return self.model_info.arguments

    def meter(self, device: torch.device, original: Evaluation | None = None) -> Meter:
        """Return what measures the task; `original` is the result of the model that is compared with."""
        return get_task(self.config.task).meter(self.data.dataset_info, device, original)

    def warn_if_untrained(self) -> None:
        """Warn if the model has random weights."""
        name, load_name = self.config.model, self.config.load_name
        if load_name is not None:
            _warn_if_run_is_untrained(load_name)
        elif not self.model_info.has_weights:
            message = "no checkpoint is loaded: '%s' has untrained weights; load one with %s"
            logger.warning(message, name, option_name("load"))
        elif random := self.model_info.random_weights():
            more = f" and {len(random) - MAX_WEIGHTS_NAMED} more" if len(random) > MAX_WEIGHTS_NAMED else ""
            message = "model '%s' has no trained weights for '%s': %s%s are random"
            logger.warning(message, name, self.config.task, ", ".join(random[:MAX_WEIGHTS_NAMED]), more)

    @property
    def is_graph(self) -> bool:
        """Whether the model is a graph that was saved with its formats, rather than the plain model."""
        return isinstance(self.model, fx.GraphModule)

    @property
    def _preparation(self) -> dict[str, Any]:
        """What was done to the data: the rows of each split, their order, and their values."""
        splits = self.data.splits
        rows = {"train": splits.train, "validation": splits.val, "test": splits.test}
        return {
            "rows": {name: len(split.labels) for name, split in rows.items()},
            "split": splits.split,
            "shape": list(self.data.dataset_info.feature_shape),
            "values": splits.values,
        }

    def log_data(self) -> None:
        """Log how the data were prepared, once per run."""
        given = self._preparation
        rows = ", ".join(f"{count:,} {name}" for name, count in given["rows"].items())
        order = " [channels, height, width]" if len(given["shape"]) == IMAGE_DIMS - 1 else ""
        logger.info(
            "data: %s rows of shape %s%s, split %s; values: %s",
            *(rows, given["shape"], order, given["split"], given["values"]),
        )

    @property
    def original(self) -> Experiment | None:
        """The same with the model that a loaded one was made from; None if nothing is loaded, or only weights.

        That is the model with its published weights, or else the loaded graph without its formats.
        """
        if self.config.load_name is None:
            return None
        if self.model_info.has_weights:
            torch.manual_seed(self.config.seed)
            return self.with_model(self.model_info.build(self.data.dataset_info, self.config.model_options))
        model = without_formats(MaseGraph(self.model)) if self.is_graph else None
        return None if model is None else self.with_model(model)

    @cached_property
    def starts_quantized(self) -> bool:
        """Whether the model has number formats before the command has done anything."""
        calls = self.model.graph.nodes if isinstance(self.model, fx.GraphModule) else ()
        layers = any(isinstance(layer, QuantizedLayer) for layer in self.model.modules())
        return layers or any(isinstance(node.target, QuantizedCall) for node in calls)

    def warn_if_quantized(self) -> None:
        """Warn if a command that quantises does not start from a model in float."""
        if self.starts_quantized:
            logger.warning(
                "the loaded model is already quantised: what results are compared with is this model, not the "
                "float model; to start from trained weights, load latest:train"
            )

    def with_model(self, model: nn.Module) -> Experiment:
        """Return the same experiment with another model."""
        return replace(self, model=model.to(self.device))

    def batches(self, split: str = "train") -> InputGenerator:
        """Return batches of a split of the data set, as keyword arguments of the model."""
        return InputGenerator(self.data, self.model_info, self.config.task, which_dataloader=split)

    def annotated_graph(self, num_rows: int | None = None) -> MaseGraph:
        """Return the model's graph, annotated with the first batch of the data, or with `num_rows` rows of it.

        Activations are kept unless they take a lot of memory; then only their ranges are.
        """
        batch = {name: rows[:num_rows] for name, rows in next(iter(self.batches())).items()}
        with Stage("capturing the graph"):
            graph = MaseGraph(model=self.model, example_inputs=batch)
        with Stage("annotating the graph"):
            init_metadata(graph)
            annotate(graph, batch, max_values=MAX_VALUES_KEPT)
            init_software_metadata(graph)
        return graph

    def describe(self, action: str) -> dict[str, Any]:
        """Return the part of a run's summary that identifies it: names, data, model size and versions."""
        config, info = self.config, self.data.dataset_info
        return {
            "action": action,
            "model": config.model,
            "dataset": config.dataset,
            "task": TASKS[config.task].title,
            "project": config.project,
            "seed": config.seed,
            "data": {
                "title": info.title,
                "version": info.version,
                "provenance": info.provenance,
                "sha256": self.data.splits.sha256,
                **self._preparation,
            },
            **({"quantized_start": True} if config.quantizes and self.starts_quantized else {}),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "versions": {
                "chop": __version__,
                "python": platform.python_version(),
                **{package: version(package) for package in PACKAGES},
            },
        }

    def _check_tokens(self) -> None:
        """Raise an error if texts have tokens that the model does not know, or more than it has positions."""
        embedding = getattr(self.model, "get_input_embeddings", lambda: None)()
        if self.data.dataset_info.kind != "tokens" or embedding is None:
            return
        splits = self.data.splits
        highest = max(
            int(rows.features.max()) for rows in (splits.train, splits.val, splits.test) if len(rows.labels)
        )
        if highest >= embedding.num_embeddings:
            raise ValueError(
                f"model '{self.config.model}': the tokenizer has the token {highest}, but the model only has 0 to "
                f"{embedding.num_embeddings - 1}: it is the tokenizer of another model"
            )
        length = splits.train.features.shape[-1]
        positions = _num_positions(self.model)
        if positions is not None and length > positions:
            option = "window" if self.config.task == "lm" else "max_length"
            raise ValueError(
                f"model '{self.config.model}' takes {positions} tokens at most, but the rows of "
                f"'{self.config.dataset}' have {length}: use --data-option {option}={positions}"
            )

    def _check_shapes(self) -> None:
        """Raise an error if a split is empty, or if the model does not turn two rows into one score per class."""
        for split, rows in (("training", self.data.splits.train), ("test", self.data.splits.test)):
            if len(rows.labels) == 0:
                raise ValueError(f"the {split} split of data set '{self.config.dataset}' has no rows")
        self._check_tokens()
        features = self.data.splits.train.features[:2].to(self.device)
        hint = " (grey images are arrays [rows, 1, height, width])" if features.dim() == GREY_IMAGE_DIMS else ""
        try:
            with evaluation_mode(self.model):
                output = self.model(**self.arguments(features))
        except (RuntimeError, TypeError, IndexError) as error:
            raise ValueError(
                f"model '{self.config.model}' does not accept rows of shape {list(features.shape)} from "
                f"'{self.config.dataset}'{hint}: {error}"
            ) from error
        expected = get_task(self.config.task).check_output(output, len(features), self.data.dataset_info)
        if expected is not None:
            shape = list(first_tensor(output).shape)
            raise ValueError(
                f"model '{self.config.model}' returns {shape} for {len(features)} rows; "
                f"{TASKS[self.config.task].title} on '{self.config.dataset}' needs {expected}"
            )


def _first_batch(data: MaseDataModule, model_info: ModelInfo, task: str) -> dict[str, torch.Tensor]:
    data.prepare_data()
    data.setup()
    return next(InputGenerator(data, model_info, task))


def open_data(config: ActionConfig, model_info: ModelInfo) -> MaseDataModule:
    """Return the data module that `config` names, without reading its rows."""
    options = dict(config.data_options)
    for name in signature(MaseDataModule).parameters.keys() & options.keys() - {"data_seed", "max_token_len"}:
        hint = "did you mean 'data_seed'?" if name == "seed" else "the command sets it"
        raise ValueError(f"data set '{config.dataset}' has no option '{name}'; {hint}")
    if config.data_path is not None:
        options["path"] = config.data_path
    return MaseDataModule(
        name=config.dataset,
        batch_size=config.batch_size,
        model_name=config.model,
        num_workers=config.num_workers,
        tokenizer=None if model_info.tokenizer is None else model_info.tokenizer(),
        seed=config.seed,
        suggested=model_info.data_options,
        task=config.task,
        max_samples=config.max_samples,
        **options,
    )


def _warn_if_run_is_untrained(load_name: Path) -> None:
    """Warn if a graph is loaded that was made without a checkpoint."""
    for path in (load_name, *load_name.parents):
        folder = RunFolder(path)
        if folder.is_finished:
            with suppress(ValueError):  # its summary is corrupt
                summary = folder.read_summary()
                if summary.get("action") == "transform" and summary.get("checkpoint") is None:
                    logger.warning("run '%s' has untrained weights: it was made without a checkpoint", path)
            return


def _num_positions(model: nn.Module) -> int | None:
    """Return how many tokens a language model takes; positions of RoBERTa begin after that of the padding."""
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    embeddings = getattr(getattr(model, "base_model", None), "embeddings", None)
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return positions if not isinstance(positions, int) or padding is None else positions - padding - 1


def without_formats(graph: MaseGraph) -> fx.GraphModule | None:
    """Return a copy of a graph's model with everything in float; None if it is not quantised."""
    if all(meta.quantized is None for meta in graph.metas()):
        return None
    plain = copy.deepcopy(graph)
    for meta in plain.metas():
        quantized, node = meta.quantized, meta.node
        if isinstance(quantized, QuantizedLayer):
            plain.model.set_submodule(str(node.target), plain_layer(quantized))
        else:
            node.op, node.target = plain_call(node.op, node.target)
    plain.model.recompile()
    return plain.model
