"""Configurations that are trained before they are measured."""

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
from chop.searching.evaluation import CostRunner
from chop.searching.evaluation.basic_train import BasicTrain, train_epochs
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.problem import Judge, Measurable, Metrics
from chop.searching.results.recipe import model_options, transform_config
from chop.searching.space import Unit, read_seeds
from chop.searching.space.dimension import label
from chop.searching.space.space import MODEL, TRAINING, Configs, read_settings
from chop.training.batches import in_order, place
from chop.training.devices import pick_device
from chop.training.metrics import Evaluation, evaluate


class TrainingProblem(Measurable):
    """Each configuration begins with the same weights, is quantised, trained for a few epochs, and tested."""

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
        self._rows = place(rows, self._device)
        self._training_rows = place(training.rows(experiment.data), self._device)
        self._choices = {each.name: each.choices for each in read_settings(config.search.search_space)}
        self._nodes: dict[object, set[str]] = {}  # that can be quantised, for each shape of the model
        self.space = read_seeds(config.search.search_space, self._all_nodes())
        self._known: dict[object, tuple[Metrics, list[Evaluation]]] = {}

    @property
    def num_rows(self) -> int:
        return len(self._rows.labels)

    @property
    def rungs(self) -> Mapping[int, int]:
        most = self._training.most_epochs(self._choices.get(TRAINING, {}))
        return dict.fromkeys(range(1, most), self.num_rows)

    def measure(self, configs: Configs, judge: Judge | None = None) -> Metrics:
        key = label({name: dict(config) for name, config in configs.items()})
        costs, evaluations = self._known.get(key) or self._run(self._graph(configs), configs)
        results: list[Evaluation] = []
        last = self.how(configs).max_epochs
        for epoch, found in enumerate(evaluations, 1):
            results.append(found)
            if judge is not None and epoch < last and not judge(costs, epoch, found.accuracy):
                break
        else:
            self._known[key] = costs, results
        return {"accuracy": results[-1].accuracy, "loss": results[-1].loss, **costs, "epochs": float(len(results))}

    def plain(self) -> Metrics:
        """The model that was loaded; without one, the model without formats, trained as all are."""
        if self._config.load_name is None:
            return self.measure({name: _first(choices) for name, choices in self._choices.items()})
        found = self._evaluate(copy.deepcopy(self._experiment.model))
        return {"accuracy": found.accuracy, "loss": found.loss, **self._costs(self._graph({}))}

    def units(self, configs: Configs) -> Sequence[Unit]:
        names = self._nodes[_shape(configs)]
        present = (
            replace(unit, metas=tuple(meta for meta in unit.metas if meta.node.name in names))
            for unit in self.space.units
        )
        return [unit for unit in present if unit.metas]

    def how(self, configs: Configs) -> TrainConfig:
        return self._training.config(self._config, configs.get(TRAINING, {}))

    def trained(self, configs: Configs) -> tuple[MaseGraph, MaseGraph]:
        """The graph as it was measured, after as it was before it was quantised and trained."""
        graph = self._graph(configs)
        _, evaluations = self._run(graph, configs)
        for _ in evaluations:
            pass
        graph.model.cpu()
        return self._annotated(configs), graph

    def _run(self, graph: MaseGraph, configs: Configs) -> tuple[Metrics, Iterable[Evaluation]]:
        """What it costs, and how it does after each epoch; it is trained as far as that is asked for."""

        def epochs() -> Iterator[Evaluation]:
            model = graph.model.to(self._device)
            for _ in train_epochs(model, self._training_rows, self.how(configs)):
                yield self._evaluate(model)

        return self._costs(graph), epochs()

    def _graph(self, configs: Configs) -> MaseGraph:
        """The model of a configuration before its training, quantised."""
        graph = self._annotated(configs)
        passes = transform_config(self._config, self.units(configs), configs).passes
        for arguments in passes.values():
            graph, _ = quantize_transform_pass(graph, arguments)
        return graph

    def _annotated(self, configs: Configs) -> MaseGraph:
        """The model of a configuration as it begins, without formats."""
        return replace(self._experiment, model=self._model(configs)).annotated_graph()

    def _model(self, configs: Configs) -> nn.Module:
        """The model that was loaded, or a fresh one of the shape that is chosen."""
        if MODEL not in configs:
            return copy.deepcopy(self._experiment.model)
        torch.manual_seed(self._config.seed)
        info, options = self._experiment.data.dataset_info, model_options(self._config, configs)
        return get_model(self._config.model, self._config.task, info, options=options)

    def _all_nodes(self) -> list[NodeMeta]:
        """The nodes of all shapes of the model; of nodes with the same name, the first."""
        found: dict[str, NodeMeta] = {}
        for configs in _shapes(self._choices.get(MODEL)):
            metas = self._annotated(configs).annotated_metas()
            self._nodes[_shape(configs)] = {meta.node.name for meta in metas if meta.quantizable}
            found = {meta.node.name: meta for meta in metas} | found
        return list(found.values())

    def _costs(self, graph: MaseGraph) -> Metrics:
        metas = graph.annotated_metas()
        return Costs(metas, self._runners, metas[0].results["data_out_0"].shape[0]).total(())

    def _evaluate(self, model: nn.Module) -> Evaluation:
        batches = in_order(self._rows, self._config.batch_size)
        return evaluate(model.to(self._device), batches, self._experiment.num_classes, self._device)


def _shapes(choices: Mapping[str, tuple[Any, ...]] | None) -> Iterator[Configs]:
    """Every combination of the model's choices; nothing, where there are none."""
    if choices is None:
        yield {}
        return
    for values in itertools.product(*choices.values()):
        yield {MODEL: dict(zip(choices, values, strict=True))}


def _shape(configs: Configs) -> object:
    return label(dict(configs[MODEL])) if MODEL in configs else None


def _first(choices: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: values[0] for name, values in choices.items()}
