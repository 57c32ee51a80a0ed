"""Quantisation-aware training: each configuration is trained before it is measured."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from chop.config import SearchConfig, TrainConfig
from chop.dataset import Rows
from chop.ir import MaseGraph, NodeMeta
from chop.passes.graph import quantize_transform_pass
from chop.runs import Experiment
from chop.searching.evaluation.cost_runners import CostRunner
from chop.searching.evaluation.costs import costs_of
from chop.searching.evaluation.problem import Metrics, Problem, ShouldContinue
from chop.searching.evaluation.software_runners import SEARCHABLE_OPTIONS, BasicTrain
from chop.searching.evaluation.transform_config import model_options, transform_config
from chop.searching.space import Configuration, Unit, read_space
from chop.searching.space.dimension import equality_key
from chop.searching.space.space import MODEL, TRAINING, read_option_choices
from chop.tasks import Evaluation
from chop.training.batches import to_device
from chop.training.budget import Correct
from chop.training.evaluation import correct_on, evaluate_on
from chop.training.loop import train_epochs


class QATProblem(Problem):
    """A problem that trains: each configuration starts from the same weights and is trained for a few epochs."""

    def __init__(
        self,
        config: SearchConfig,
        experiment: Experiment,
        training: BasicTrain,
        rows: Rows,
        runners: Sequence[CostRunner],
    ) -> None:
        self._config, self._experiment, self._training, self._runners = config, experiment, training, runners
        self._device = experiment.device
        self._rows = to_device(rows, self._device)
        self._training_rows = to_device(training.rows(experiment.data), self._device)
        self._option_values = {each.name: each.values for each in read_option_choices(config.search.search_space)}
        self._quantizable_nodes: dict[object, set[str]] = {}  # by the model options of the configuration
        self.space = read_space(config.search.search_space, self._all_nodes())
        self._measured: dict[object, tuple[Metrics, list[Evaluation]]] = {}

    @property
    def num_rows(self) -> int:
        return len(self._rows.labels)

    @property
    def rungs(self) -> Mapping[int, int]:
        max_epochs = self._training.max_epochs_of(self._option_values.get(TRAINING, {}))
        return dict.fromkeys(range(1, max_epochs), self.num_rows)

    def measure(self, configuration: Configuration, should_continue: ShouldContinue | None = None) -> Metrics:
        key = equality_key(configuration)
        costs, evaluations = self._measured.get(key) or self._train(self._quantized(configuration), configuration)
        results: list[Evaluation] = []
        last = self._train_config(configuration).max_epochs
        for epoch, found in enumerate(evaluations, 1):
            results.append(found)
            if should_continue is not None and epoch < last and not should_continue(costs, epoch, found.accuracy):
                break
        else:
            self._measured[key] = costs, results
        return {"accuracy": results[-1].accuracy, "loss": results[-1].loss, **costs, "epochs": float(len(results))}

    def measure_original(self) -> Metrics:
        """Return the metrics of the loaded model; if none was loaded, of the model trained without quantisation."""
        if self._config.load_name is None:
            return self.measure(self._first_options)
        found = evaluate_on(self._rows, copy.deepcopy(self._experiment.model), self._experiment, self._device)
        return {"accuracy": found.accuracy, "loss": found.loss, **costs_of(self._quantized({}), self._runners)}

    def correct(self, configuration: Configuration | None) -> Correct:
        if configuration is None and self._config.load_name is not None:
            model = copy.deepcopy(self._experiment.model)
        else:
            model = self.trained_graphs(self._first_options if configuration is None else configuration)[1].model
        return lambda rows: correct_on(rows, model, self._experiment)

    @property
    def _first_options(self) -> Configuration:
        """The first value of each training and model option, without number formats."""
        options = self._option_values.items()
        return {part: {name: each[0] for name, each in values.items()} for part, values in options}

    def units(self, configuration: Configuration) -> Sequence[Unit]:
        names = self._quantizable_nodes[_model_key(configuration)]
        present = (
            replace(unit, metas=tuple(meta for meta in unit.metas if meta.node.name in names))
            for unit in self.space.units
        )
        return [unit for unit in present if unit.metas]

    def training_options(self, configuration: Configuration) -> Mapping[str, Any]:
        config = self._train_config(configuration)
        return {name: getattr(config, name) for name in SEARCHABLE_OPTIONS}

    def trained_graphs(self, configuration: Configuration) -> tuple[MaseGraph, MaseGraph]:
        graph = self._quantized(configuration)
        _, evaluations = self._train(graph, configuration)
        for _ in evaluations:
            pass
        return self._original(configuration), graph

    def _train_config(self, configuration: Configuration) -> TrainConfig:
        return self._training.train_config(self._config, configuration.get(TRAINING, {}))

    def _train(self, graph: MaseGraph, configuration: Configuration) -> tuple[Metrics, Iterable[Evaluation]]:
        """Return the costs, and an iterator that trains one epoch and evaluates each time it is advanced."""

        def epochs() -> Iterator[Evaluation]:
            model = graph.model.to(self._device)
            for _ in train_epochs(model, self._training_rows, self._train_config(configuration)):
                yield evaluate_on(self._rows, model, self._experiment, self._device)

        return costs_of(graph, self._runners), epochs()

    def _quantized(self, configuration: Configuration) -> MaseGraph:
        """Return the quantised graph of a configuration before its training."""
        graph = self._original(configuration)
        passes = transform_config(self._config, self.units(configuration), configuration).passes
        for arguments in passes.values():
            graph, _ = quantize_transform_pass(graph, {"compile": self._config.compile, **arguments})
        return graph

    def _original(self, configuration: Configuration) -> MaseGraph:
        """Return the graph of a configuration before quantisation and training."""
        return self._experiment.with_model(self._model(configuration)).annotated_graph()

    def _model(self, configuration: Configuration) -> nn.Module:
        """Return a copy of the loaded model, or a new model with the options that the configuration chooses."""
        if MODEL not in configuration:
            return copy.deepcopy(self._experiment.model)
        torch.manual_seed(self._config.seed)
        info, options = self._experiment.data.dataset_info, model_options(self._config, configuration)
        return self._experiment.model_info.build(info, options).to(self._device)

    def _all_nodes(self) -> list[NodeMeta]:
        """Return the nodes of all variants of the model; of nodes with the same name, the first."""
        found: dict[str, NodeMeta] = {}
        for configuration in _model_variants(self._option_values.get(MODEL)):
            metas = self._original(configuration).annotated_metas()
            quantizable = {meta.node.name for meta in metas if meta.quantizable}
            self._quantizable_nodes[_model_key(configuration)] = quantizable
            found = {meta.node.name: meta for meta in metas} | found
        return list(found.values())


def _model_variants(values: Mapping[str, tuple[Any, ...]] | None) -> Iterator[Configuration]:
    """Yield a configuration per combination of model options; one empty configuration if there are none."""
    if values is None:
        yield {}
        return
    for chosen in itertools.product(*values.values()):
        yield {MODEL: dict(zip(values, chosen, strict=True))}


def _model_key(configuration: Configuration) -> object:
    return equality_key(configuration[MODEL]) if MODEL in configuration else None
