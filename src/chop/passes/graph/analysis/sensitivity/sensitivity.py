"""How much each node suffers from a number format."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer
from chop.options import read_options
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.analysis.sensitivity.measure import Candidates, Effect, Sensitivity, measure_sensitivity
from chop.passes.graph.transforms.quantize.quantize import QuantizeArgs, chosen_configs
from chop.passes.quantization.replacement import formats_of, replacement
from chop.statistics.batches import LabelledBatch, limited

logger = logging.getLogger(__name__)
_LABEL = "given"
_TOLD = 10  # nodes that the log names


@dataclass(frozen=True)
class SensitivityArgs:
    """Formats to try, and data to try them on."""

    formats: QuantizeArgs
    """Written as `config`, one for all nodes, or as the arguments of `quantize`: `by`, `default` and so on."""
    input_generator: Iterable[Mapping[str, Any]] | None = None
    """Batches by argument name, such as `{"x": tensor}`; of loss and accuracy they say nothing."""
    labelled_batches: Iterable[tuple[Mapping[str, Any], Tensor]] | None = None
    """Pairs of such a batch and the classes of its rows, instead of `input_generator`."""
    num_samples: int = 256
    """How many rows to run at most; the last batch is cut to it."""
    nodes: tuple[str, ...] = ()
    """The nodes to look at; none: all that the formats are for."""
    both: bool = True
    """Also the other way round: everything in its format but for one node."""

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1, got {self.num_samples}")
        if (self.input_generator is None) == (self.labelled_batches is None):
            raise ValueError("needs either 'input_generator' or 'labelled_batches'")

    @classmethod
    def from_pass_args(cls, pass_args: Mapping[str, Any] | None, where: str) -> Self:
        """Read `{"config": {"name": ...}, ...}`, or the entries of `quantize` in the place of `config`."""
        if pass_args is not None and not isinstance(pass_args, Mapping):
            raise ValueError(f"{where}: must be a dict such as {{'config': ...}}, got {pass_args!r}")
        given = dict(pass_args or {})
        own = {field.name for field in fields(cls)}
        # What is no table can only be a misspelt option; tables are left to be read as those of `quantize`.
        options = {key: value for key, value in given.items() if key in own or not _is_choice(key, value)}
        rest = {key: value for key, value in given.items() if key not in options}
        return read_options(cls, {**options, "formats": _read_formats(rest, where)}, where)

    def batches(self) -> Iterator[LabelledBatch]:
        given: Iterable[LabelledBatch]
        if self.labelled_batches is not None:
            given = (_pair(batch) for batch in self.labelled_batches)
        else:
            given = ((batch, None) for batch in self.input_generator or ())
        return limited(given, self.num_samples)


def _is_choice(key: str, value: object) -> bool:
    return key in ("by", "config") or isinstance(value, Mapping)


def _read_formats(given: Mapping[str, Any], where: str) -> QuantizeArgs:
    if "config" not in given:
        if "by" not in given:
            raise ValueError(f"{where}: needs 'config', a format for all nodes, or 'by' and what `quantize` takes")
        return QuantizeArgs.from_pass_args(given, where)
    if len(given) > 1:
        other = next(key for key in given if key != "config")
        raise ValueError(f"{where}: 'config' is for all nodes, '{other}' cannot be given beside it")
    config = given["config"]
    if not isinstance(config, Mapping):
        raise ValueError(f"{where}: 'config' must be a dict {{'name': ..., ...}}, got {config!r}")
    return QuantizeArgs("type", default=QuantConfig.read(config, f"{where}: 'config'"))


def _pair(batch: object) -> LabelledBatch:
    match batch:
        case (Mapping() as inputs, Tensor() as labels):
            return inputs, labels
    kind = type(batch).__name__
    raise ValueError(f"labelled_batches must give pairs of a dict such as {{'x': tensor}} and labels, got a {kind}")


@register_pass("sensitivity", kind="analysis")
def sensitivity_analysis_pass(graph: MaseGraph, args: SensitivityArgs) -> PassResult:
    """What the given formats do to the model's output, loss and accuracy: of each node alone, and of all but it.

    `info["alone"][node]` has `sqnr_db` of the node's own output, `output_sqnr_db` of the model's, `loss_change` and
    `accuracy_change`; `info["all_but"][node]` and `info["quantized"]` (all nodes) have the last three, and
    `info["baseline"]` the `loss` and `accuracy` of the graph as it is. `info["ranking"]` begins with the node that
    raises the loss most or, without labels, leaves the lowest `output_sqnr_db`. Without labels loss and accuracy
    are None. Nodes that call the same layer are measured together. The graph is not changed.
    """
    candidates = candidates_of(graph, {_LABEL: args.formats})
    if not candidates:
        raise ValueError("sensitivity_analysis_pass: the formats are for no node of this graph")
    nodes = args.nodes or None
    found = measure_sensitivity(graph, candidates, args.batches(), nodes=nodes, both=args.both)
    info = _as_info(found)
    _tell(info)
    return graph, info


def candidates_of(graph: MaseGraph, choices: Mapping[str, QuantizeArgs]) -> Candidates:
    """What stands in the place of each node that a choice is for, by node and by the label of the choice."""
    metas = graph.annotated_metas()
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for label, args in choices.items():
        plan = chosen_configs(args, metas)
        made: dict[nn.Module, QuantizedLayer | QuantizedCall] = {}
        for meta in metas:
            if meta.node in plan:
                layer, config = meta.module, plan[meta.node]
                new = made.get(layer) if layer is not None else None
                if new is None:
                    new = replacement(meta, formats_of(meta, config)[0], config.name)
                if layer is not None:
                    made[layer] = new
                found.setdefault(meta.node.name, {})[label] = new
    return found


def _as_info(found: Sensitivity) -> dict[str, Any]:
    alone = {node: effects[_LABEL] for node, effects in found.alone.items()}
    all_but = {node: effects[_LABEL] for node, effects in found.all_but.items() if effects}
    return {
        "alone": {node: {"sqnr_db": effect.sqnr_db, **_numbers(effect)} for node, effect in alone.items()},
        "all_but": {node: _numbers(effect) for node, effect in all_but.items()},
        "baseline": {"loss": found.loss, "accuracy": found.accuracy},
        "quantized": _numbers(found.quantized[_LABEL]),
        "num_samples": found.num_samples,
        "ranking": sorted(alone, key=lambda node: _harmlessness(alone[node])),
    }


def _numbers(effect: Effect) -> dict[str, float | None]:
    return {
        "output_sqnr_db": effect.output_sqnr_db,
        "loss_change": effect.loss_change,
        "accuracy_change": effect.accuracy_change,
    }


def _harmlessness(effect: Effect) -> tuple[float, float]:
    """Low for what does most harm: by the loss if it is known, else by the output."""
    change = effect.loss_change or 0.0
    return (-math.inf if math.isnan(change) else -change), effect.output_sqnr_db


def _tell(info: Mapping[str, Any]) -> None:
    ranking = info["ranking"]
    named = [f"{node} ({_told(info['alone'][node])})" for node in ranking[:_TOLD]]
    more = f" and {len(ranking) - _TOLD} more" if len(ranking) > _TOLD else ""
    logger.info("sensitivity, most sensitive first: %s%s", ", ".join(named), more)


def _told(numbers: Mapping[str, float | None]) -> str:
    ratio = f"{numbers['output_sqnr_db']:.1f} dB"
    return ratio if numbers["loss_change"] is None else f"loss {numbers['loss_change']:+.2g}, {ratio}"
