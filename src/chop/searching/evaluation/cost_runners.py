"""Cost runners, which compute cost metrics from the formats of a graph, without running it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chop.config import Options, option
from chop.cost import bitops, input_storage, weight_storage
from chop.cost.conventions import bitops_formula
from chop.cost.memory import Storage, average_bits
from chop.display.figures import KEY_FIGURES, KeyFigure
from chop.hardware.node_estimate import EstimatedStrategy, NodeEstimate, estimate_node
from chop.ir import NodeMeta
from chop.registry import Decorator, Registry

Amounts = tuple[float, ...]
"""Numbers that add up over the nodes of a graph, such as bit operations."""


class CostRunner(Options, ABC):
    """The computation of one or more cost metrics from amounts that add up over the nodes of a graph.

    It is called a runner because its options are in `[search.strategy.hw_runner]`. A subclass is a frozen dataclass
    whose fields are these options.

    What a node contributes may depend on the formats of its own operands, not on those of other nodes: a search
    computes the contribution of each unit once per config and adds the contributions up. A weight that several
    nodes share is the exception; see `Costs`. `tests/contracts/test_cost_runners.py` checks all registered runners.
    """

    metrics: ClassVar[tuple[KeyFigure, ...]]
    """The metrics that `summarize` returns; each says which direction is better."""
    num_shown: ClassVar[int] = 1
    """How many of the metrics, from the first, tables show."""
    is_default: ClassVar[bool] = True
    """Whether every search computes it; False: only if its options are given or it is optimised."""
    additive: ClassVar[Mapping[str, str]] = {}
    """For each metric that is not a weighted sum over nodes, one that is, and that improves together with it."""

    @property
    def shared_amounts(self) -> Hashable:
        """Equal for runners whose amounts are the same, so that they are computed once."""
        return id(self)

    @abstractmethod
    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        """Return the amounts of the nodes, summed over all of them."""

    @abstractmethod
    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        """Return the metrics, by name, from the amounts of a graph that was annotated with `num_rows` samples."""


COST_RUNNERS: Registry[type[CostRunner]] = Registry("cost runner")


def register_cost_runner(name: str) -> Decorator:
    """Return a decorator that registers a `CostRunner`; write it above `@dataclass`.

    `name` is the name of its options in `[search.strategy.hw_runner]`.
    """
    return COST_RUNNERS.register(name)


def default_cost_runners() -> list[CostRunner]:
    """Return the cost runners that every search has, with their default options."""
    return [runner() for runner in COST_RUNNERS.values() if runner.is_default]


@register_cost_runner("average_bitwidth")
@dataclass(frozen=True)
class AverageBitwidth(CostRunner):
    """The mean of the average bits per weight and per input, both of quantised nodes, and the memory density.

    The memory density is how much smaller the mean is than `compare_to`.
    """

    metrics: ClassVar[tuple[KeyFigure, ...]] = (
        KEY_FIGURES["average_bitwidth"],
        KEY_FIGURES["quantized_weight_bits"],
        KEY_FIGURES["quantized_activation_bits"],
        KEY_FIGURES["memory_density"],
    )
    num_shown: ClassVar[int] = 3
    additive: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("quantized_weight_bits", "quantized_activation_bits", "memory_density"), "average_bitwidth"
    )
    compare_to: int = option(32, least=1, help="bits per element")

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        stored = [of(metas, quantized=only) for only in (False, True) for of in (weight_storage, input_storage)]
        return tuple(number for each in stored for number in (each.elements, each.bits))

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        weights, inputs, *quantized = (Storage(int(totals[i]), totals[i + 1]) for i in range(0, len(totals), 2))
        kinds = [each.average for each in (weights, inputs) if each.elements]
        average = sum(kinds) / max(1, len(kinds))
        return {
            "average_bitwidth": average,
            "quantized_weight_bits": average_bits(weights, quantized[0]),
            "quantized_activation_bits": average_bits(inputs, quantized[1]),
            "memory_density": self.compare_to / average if average else 0.0,
        }


@register_cost_runner("bitops")
@dataclass(frozen=True)
class Bitops(CostRunner):
    """Bit operations per sample; a node whose operations are unknown counts as 0."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["bitops"],)
    convention: str = "bops"

    def __post_init__(self) -> None:
        super().__post_init__()
        bitops_formula(self.convention)

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        return (sum(bitops(meta, self.convention) or 0 for meta in metas),)

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        return {"bitops": totals[0] / num_rows}


@register_cost_runner("memory")
@dataclass(frozen=True)
class Memory(CostRunner):
    """Bits of all weights, and bits per sample of the inputs of all nodes."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["weight_bits"], KEY_FIGURES["activation_bits"])

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        return weight_storage(metas).bits, input_storage(metas).bits

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        return {"weight_bits": totals[0], "activation_bits": totals[1] / num_rows}


ESTIMATED = ("lut", "dsp", "latency")
"""What all runners of circuits take from one estimate."""


@dataclass(frozen=True)
class HardwareRunner(CostRunner):
    """A number of the estimated circuit. It is computed only if its options are given or it is an objective."""

    is_default: ClassVar[bool] = False
    strategy: EstimatedStrategy = "unrolled"

    @property
    def shared_amounts(self) -> Hashable:
        return HardwareRunner, self.strategy

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        total = sum((estimate_node(meta, self.strategy) for meta in metas), NodeEstimate())
        return tuple(float(getattr(total, name)) for name in ESTIMATED)

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        amounts = dict(zip(ESTIMATED, totals, strict=True))
        return {figure.name: amounts[figure.name] for figure in self.metrics}


@register_cost_runner("lut")
@dataclass(frozen=True)
class LookUpTables(HardwareRunner):
    """Look-up tables of the circuit."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["lut"],)


@register_cost_runner("dsp")
@dataclass(frozen=True)
class DspBlocks(HardwareRunner):
    """DSP blocks of the circuit."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["dsp"],)


@register_cost_runner("latency")
@dataclass(frozen=True)
class Latency(HardwareRunner):
    """Clock cycles from an input to its result."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["latency"],)
