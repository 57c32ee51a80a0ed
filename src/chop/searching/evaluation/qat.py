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
from chop.models import get_model
from chop.passes.graph import quantize_transform_pass
from chop.runs import Experiment
from chop.searching.evaluation.basic_train import SEARCHABLE_OPTIONS, BasicTrain
from chop.searching.evaluation.cost_metrics import CostRunner
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.problem import Metrics, Problem, ShouldContinue
from chop.searching.evaluation.transform_config import model_options, transform_config
from chop.searching.space import Configs, Unit, read_space
from chop.searching.space.dimension import to_label
from chop.searching.space.space import MODEL, TRAINING, read_option_choices
from chop.training.batches import evaluation_batches, to_device
from chop.training.devices import pick_device
from chop.training.loop import train_epochs
from chop.training.metrics import Evaluation, evaluate


class QATProblem(Problem):
    """Each configuration starts from the same weights, is quantised, trained for a few epochs, and evaluated."""

    def __init__(
        self,
        config: SearchConfig,
        experiment: Experiment,
        training: BasicTrain,
        rows: Rows,
        runners: Sequence[CostRunner],
    ) -> None:
        self._config, self._experiment, self._training, self._runners = config, experiment, training, runners
        self._device = pick_device(config.accelerator)
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

    def measure(self, configs: Configs, should_continue: ShouldContinue | None = None) -> Metrics:
        key = to_label({name: dict(config) for name, config in configs.items()})
        costs, evaluations = self._measured.get(key) or self._train(self._quantized(configs), configs)
        results: list[Evaluation] = []
        last = self._train_config(configs).max_epochs
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
            return self.measure({name: _first(values) for name, values in self._option_values.items()})
        found = self._evaluate(copy.deepcopy(self._experiment.model))
        return {"accuracy": found.accuracy, "loss": found.loss, **self._costs(self._quantized({}))}

    def units(self, configs: Configs) -> Sequence[Unit]:
        names = self._quantizable_nodes[_model_key(configs)]
        present = (
            replace(unit, metas=tuple(meta for meta in unit.metas if meta.node.name in names))
            for unit in self.space.units
        )
        return [unit for unit in present if unit.metas]

    def training_options(self, configs: Configs) -> Mapping[str, Any]:
        config = self._train_config(configs)
        return {name: getattr(config, name) for name in SEARCHABLE_OPTIONS}

    def trained_graphs(self, configs: Configs) -> tuple[MaseGraph, MaseGraph]:
        graph = self._quantized(configs)
        _, evaluations = self._train(graph, configs)
        for _ in evaluations:
            pass
        graph.model.cpu()
        return self._original(configs), graph

    def _train_config(self, configs: Configs) -> TrainConfig:
        return self._training.train_config(self._config, configs.get(TRAINING, {}))

    def _train(self, graph: MaseGraph, configs: Configs) -> tuple[Metrics, Iterable[Evaluation]]:
        """Return the costs, and an iterator that trains one epoch and evaluates each time it is advanced."""

        def epochs() -> Iterator[Evaluation]:
            model = graph.model.to(self._device)
            for _ in train_epochs(model, self._training_rows, self._train_config(configs)):
                yield self._evaluate(model)

        return self._costs(graph), epochs()

    def _quantized(self, configs: Configs) -> MaseGraph:
        """Return the quantised graph of a configuration before its training."""
        graph = self._original(configs)
        passes = transform_config(self._config, self.units(configs), configs).passes
        for arguments in passes.values():
            graph, _ = quantize_transform_pass(graph, arguments)
        return graph

    def _original(self, configs: Configs) -> MaseGraph:
        """Return the graph of a configuration before quantisation and training."""
        return replace(self._experiment, model=self._model(configs)).annotated_graph()

    def _model(self, configs: Configs) -> nn.Module:
        """Return a copy of the loaded model, or a new model with the options that the configuration chooses."""
        if MODEL not in configs:
            return copy.deepcopy(self._experiment.model)
        torch.manual_seed(self._config.seed)
        info, options = self._experiment.data.dataset_info, model_options(self._config, configs)
        return get_model(self._config.model, self._config.task, info, options=options)

    def _all_nodes(self) -> list[NodeMeta]:
        """Return the nodes of all variants of the model; of nodes with the same name, the first."""
        found: dict[str, NodeMeta] = {}
        for configs in _model_variants(self._option_values.get(MODEL)):
            metas = self._original(configs).annotated_metas()
            self._quantizable_nodes[_model_key(configs)] = {meta.node.name for meta in metas if meta.quantizable}
            found = {meta.node.name: meta for meta in metas} | found
        return list(found.values())

    def _costs(self, graph: MaseGraph) -> Metrics:
        metas = graph.annotated_metas()
        return Costs(metas, self._runners, metas[0].results["data_out_0"].shape[0]).total(())

    def _evaluate(self, model: nn.Module) -> Evaluation:
        batches = evaluation_batches(self._rows, self._config.batch_size)
        return evaluate(model.to(self._device), batches, self._experiment.num_classes, self._device)


def _model_variants(values: Mapping[str, tuple[Any, ...]] | None) -> Iterator[Configs]:
    """Yield a configuration per combination of model options; one empty configuration if there are none."""
    if values is None:
        yield {}
        return
    for chosen in itertools.product(*values.values()):
        yield {MODEL: dict(zip(values, chosen, strict=True))}


def _model_key(configs: Configs) -> object:
    return to_label(dict(configs[MODEL])) if MODEL in configs else None


def _first(values: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: each[0] for name, each in values.items()}
