"""The methods for low bit widths in one pass; the formats of the graph decide which of them run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from chop.config import option
from chop.formats import Format
from chop.ir import MaseGraph
from chop.passes.base import Pass, PassResult, register_pass
from chop.passes.graph.transforms.hardware import fold_batch_norm_transform_pass
from chop.passes.graph.transforms.low_bits.adaround import adaround_transform_pass
from chop.passes.graph.transforms.low_bits.clip import clip_transform_pass
from chop.passes.graph.transforms.low_bits.correct_bias import correct_bias_transform_pass
from chop.passes.graph.transforms.low_bits.gptq import gptq_transform_pass
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs, weighted_layers
from chop.passes.graph.transforms.low_bits.rotate import rotate_transform_pass
from chop.passes.graph.transforms.low_bits.smooth import smooth_transform_pass
from chop.registry import closest
from chop.statistics.batches import limited_batches

logger = logging.getLogger(__name__)

_PROBE = torch.ones(4, 256)
_LARGE_GROUP = 128
"""Elements per scale from which a few large values harm many others."""
_SMALL_NETWORK = 100_000
"""Weights up to which a network learns its rounding as a whole: that takes seconds."""


@dataclass(frozen=True)
class LayerFormats:
    """The formats of the weights and of the inputs of all quantised layers."""

    weights: frozenset[Format]
    inputs: frozenset[Format]
    num_weights: int
    may_learn: bool
    """Whether `adaround` is not left out."""

    @classmethod
    def of(cls, graph: MaseGraph, may_learn: bool = True) -> LayerFormats:
        metas = weighted_layers(graph)
        values = [meta.value("weight") for meta in metas]
        formats = [meta.quantized.formats for meta in metas if meta.quantized is not None]
        weights, inputs = (
            frozenset(each[name] for each in formats if name in each and each[name].rounds)
            for name in ("weight", "data_in_0")
        )
        num_weights = sum(value.numel() for value in values if value is not None)
        return cls(weights, inputs, num_weights, may_learn)

    @property
    def learn_together(self) -> bool:
        """Whether the rounding of the whole network is learned."""
        few = _fewest_bits(self.weights) <= 5 and self.num_weights <= _SMALL_NETWORK
        return self.may_learn and few and _share_scale(self.weights)

    @property
    def few_weight_bits(self) -> bool:
        """Whether weights have up to 6 bits whose rounding is not learned together."""
        return _fewest_bits(self.weights) <= 6 and not self.learn_together

    @property
    def noisy_inputs(self) -> bool:
        """Whether inputs have up to 4 bits, and scales per row or block: their errors differ from call to call."""
        follow = all(1 < _elements_per_scale(each) < _PROBE.numel() for each in self.inputs)
        return _fewest_bits(self.inputs) <= 4 and follow

    @property
    def large_groups(self) -> bool:
        """Whether many values share a scale that follows them: per tensor, channel or row, not in small blocks."""
        return any(_elements_per_scale(each) >= _LARGE_GROUP for each in self.weights | self.inputs)


def _fewest_bits(formats: Iterable[Format]) -> int:
    """Return the width of the narrowest format; 32 if nothing is rounded."""
    return min((number_format.width for number_format in formats), default=32)


def _share_scale(formats: Iterable[Format]) -> bool:
    """Whether all values of some layer share a scale, or fraction bits, that can be chosen."""
    return any(each.fitted(1.0) is not each or each.scale_for(1.0) is not None for each in formats)


def _elements_per_scale(number_format: Format) -> int:
    """Return how many elements share a scale that is computed from them; 1 if there is none."""
    groups = number_format.for_operand(-1, 0).scale_groups(_PROBE)
    return 1 if groups is None else _PROBE.numel() // (int(groups.max()) + 1)


@dataclass(frozen=True)
class RecoveryStep:
    """A pass, and when it runs."""

    run: Pass
    when: str
    """The condition, as the documentation has it."""
    applies: Callable[[LayerFormats], bool]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.run.__name__.removesuffix("_transform_pass")


STEPS = (
    RecoveryStep(
        fold_batch_norm_transform_pass,
        "no weight has fraction bits, or one scale per tensor",
        lambda formats: not _share_scale(formats.weights),
    ),
    RecoveryStep(
        rotate_transform_pass,
        "weights of up to 4 bits or inputs of up to 8 bits, with 128 or more elements per scale",
        lambda formats: (
            formats.large_groups and (_fewest_bits(formats.weights) <= 4 or _fewest_bits(formats.inputs) <= 8)
        ),
    ),
    RecoveryStep(smooth_transform_pass, "`adaround` runs", lambda formats: formats.learn_together),
    RecoveryStep(
        clip_transform_pass,
        "weights have fraction bits or one scale",
        lambda formats: _share_scale(formats.weights),
    ),
    RecoveryStep(
        clip_transform_pass,
        "only inputs have fraction bits or one scale",
        lambda formats: _share_scale(formats.inputs) and not _share_scale(formats.weights),
        {"weights": False},
    ),
    RecoveryStep(
        adaround_transform_pass,
        "weights of up to 5 bits have fraction bits or one scale, in a network with up to 100,000 weights",
        lambda formats: formats.learn_together,
        {"layers_per_block": 0, "iterations": 1000, "learning_rate": 0.02},
    ),
    RecoveryStep(
        gptq_transform_pass,
        "weights of up to 6 bits, and `adaround` does not run",
        lambda formats: formats.few_weight_bits and not formats.noisy_inputs,
    ),
    RecoveryStep(
        gptq_transform_pass,
        "the same, with `earlier_layers = false`: inputs of up to 4 bits have scales per row or block",
        lambda formats: formats.few_weight_bits and formats.noisy_inputs,
        {"earlier_layers": False},
    ),
    RecoveryStep(
        correct_bias_transform_pass,
        "weights of more than 6 bits",
        lambda formats: _fewest_bits(formats.weights) > 6,
    ),
)
"""The passes in the order in which they run."""


@dataclass(frozen=True)
class RecoverAccuracyArgs(CalibrationArgs):
    """Arguments of `recover_accuracy`."""

    num_samples: int = option(256, least=1, help="The largest number of rows to run.")
    skip: tuple[str, ...] = ()
    """Passes that do not run, for example `rotate` if the graph becomes a circuit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        known = list(dict.fromkeys(step.name for step in STEPS))
        for name in self.skip:
            if name not in known:
                raise ValueError(f"'skip': '{name}' is not one of the passes; {closest(name, known)}")


@register_pass("recover_accuracy", kind="transform")
def recover_accuracy_transform_pass(graph: MaseGraph, args: RecoverAccuracyArgs) -> PassResult:
    """Run the methods for low bit widths that suit the formats of a quantised graph, without training.

    `info["passes"]` lists those that ran; `info["layers"]` has what each of them gained, in dB of a layer's output;
    `info["renamed"]` has, for each batch norm that is gone, the node that computes its result.
    """
    formats = LayerFormats.of(graph, may_learn="adaround" not in args.skip)
    if not formats.weights and not formats.inputs:
        raise ValueError("recover_accuracy: no layer is quantised; run quantize before it")
    batches = list(limited_batches(args.input_generator, args.num_samples))
    ran: list[str] = []
    layers: dict[str, dict[str, float]] = {}
    renamed: dict[str, str] = {}
    for step in STEPS:
        if step.name in args.skip or not step.applies(formats):
            continue
        arguments: dict[str, Any] = {}
        if issubclass(step.run.args_class, CalibrationArgs):
            same = {"num_samples": args.num_samples, "seed": args.seed, "checkpoint": args.checkpoint}
            arguments = {"input_generator": batches, **same, **step.options}
        graph, info = step.run(graph, arguments)
        ran.append(step.name)
        renamed |= info.get("renamed", {})
        for node, report in info.get("layers", {}).items():
            layers.setdefault(node, {})[f"{step.name}_db"] = report["gain_db"]
    logger.info("recover_accuracy: ran %s", ", ".join(ran))
    return graph, {"passes": ran, "layers": layers, "renamed": renamed}
