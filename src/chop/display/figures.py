"""Key figures: the title, meaning, unit and text of every number that several parts of the package show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from chop.display import numbers
from chop.registry import Registry

Better = Literal["higher", "lower"]
Kind = Literal["share", "points", "count", "number", "memory", "energy", "decibel", "seconds"]
"""How a number is written, by `KeyFigure.text` and by `SHOWN` in page/assets/numbers.js."""

_TEXT: dict[Kind, Callable[[float], str]] = {
    "share": numbers.percent,
    "points": numbers.points,
    "count": numbers.with_prefix,
    "number": numbers.significant,
    "memory": numbers.memory,
    "energy": numbers.energy,
    "decibel": numbers.decibels,
    "seconds": numbers.duration,
}
_COLUMN_FORMATS: dict[Kind, str] = {
    "share": ".4f",
    "points": "+.4f",
    "count": ",.0f",
    "number": ".6g",
    "decibel": ".1f",
    "seconds": ",.1f",
}
_UNITS: dict[Kind, Sequence[tuple[float, str]]] = {
    "share": ((0.01, "%"),),
    "points": ((0.01, "points"),),
    "count": (*(each for each in numbers.PREFIXES if each[0] >= 1e6), (1.0, "")),
    "memory": (*((8 * size, f"{prefix}B") for size, prefix in numbers.PREFIXES), (8.0, "B")),
    "energy": numbers.ENERGY_UNITS,
    "seconds": numbers.TIME_UNITS,
}
_DECIMALS: dict[Kind, int] = {"share": 2, "points": 2, "decibel": 1}
MAX_DECIMALS = 6


@dataclass(frozen=True)
class ColumnScale:
    """How several values of one key figure are written below each other."""

    title: str
    """The title of the figure with the unit: `Weight memory (kB)`."""
    size: float
    """One of this unit, in the stored unit."""
    decimals: int
    sign: str = ""

    def text(self, value: float) -> str:
        """Return the value in this unit, without it: `1,234.50`."""
        if not math.isfinite(value):
            return numbers.exact(value)
        return format(value / self.size, f"{self.sign},.{self.decimals}f").replace("-", numbers.MINUS)


@dataclass(frozen=True)
class KeyFigure:
    """A number that users see: what it is called, what it means, and how it is written.

    A figure that only one part of the package knows is declared there:
    `declare_figure(KeyFigure("luts", "LUTs", help="look-up tables of the design", better="lower", kind="count"))`.
    """

    name: str
    """The key in summaries and metrics, such as `weight_bits`."""
    title: str
    """Such as `weight memory`; see `heading` for one that starts a line."""
    help: str = ""
    """One phrase that says what is counted."""
    unit: str = ""
    """The unit of the stored value, such as `bits`; `text` may use another one, such as kB."""
    better: Better | None = None
    """Which direction is an improvement; None: neither."""
    kind: Kind = "number"
    short_title: str = ""
    """The title of a narrow column; empty: `title`."""
    column_format: str = ""
    """How `column_text` writes the value, as for `format`; empty: the usual one of its kind."""

    @property
    def heading(self) -> str:
        """The title with a capital letter."""
        return self.title[:1].upper() + self.title[1:]

    @property
    def column_title(self) -> str:
        """The title of a narrow column."""
        return self.short_title or self.title

    @property
    def column_heading(self) -> str:
        """The title of a narrow column with a capital letter."""
        return self.column_title[:1].upper() + self.column_title[1:]

    @property
    def axis_title(self) -> str:
        """The title with the unit of the stored value, as for the axis of a plot: `weight memory (bits)`."""
        return f"{self.title} ({self.unit})" if self.unit and self.unit not in self.title.split() else self.title

    def text(self, value: float) -> str:
        """Return the value with three or four digits and its unit: `92.31 %`, `1.23 MB`, `4.5 nJ`."""
        return _TEXT[self.kind](value)

    def column_text(self, value: float) -> str:
        """Return the value for a terminal column: `0.9231`, `9,840,000`, `1.23 MB`."""
        given = self.column_format or _COLUMN_FORMATS.get(self.kind)
        return self.text(value) if given is None else format(value, given)

    def scale(self, values: Sequence[float]) -> ColumnScale:
        """Return the unit and the decimals that a column of a table or an axis of a plot has for `values`.

        The unit is the largest one in which no value is below 1: 4.33 kB beside 1,200.00 kB.
        """
        sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
        units = _UNITS.get(self.kind, ((1.0, self.unit),))
        size, unit = next((each for each in units if min(sizes, default=0.0) >= each[0]), units[-1])
        title = self.column_heading
        if unit and unit not in self.column_title.split():
            title += f" ({unit})"
        if self.kind in _DECIMALS or self.column_format.endswith("f"):
            decimals = _DECIMALS.get(self.kind) or int(self.column_format[-2])
        else:
            texts = [numbers.significant(value / size) for value in sizes]
            decimals = max((min(len(text.partition(".")[2]), MAX_DECIMALS) for text in texts), default=0)
        return ColumnScale(title, size, decimals, "+" if self.kind == "points" else "")

    def change(self, before: float, after: float) -> str:
        """Return the difference between two values: `+2.10 points` for shares, else `-25.0 %` or a factor."""
        change = numbers.change_in_points if self.kind == "share" else numbers.relative_change
        return change(before, after)


KEY_FIGURES: Registry[KeyFigure] = Registry("key figure")


def declare_figure(declared: KeyFigure) -> KeyFigure:
    """Add a figure to those that `figure` finds, and return it."""
    KEY_FIGURES.add(declared.name, declared)
    return declared


def figure(name: str) -> KeyFigure:
    """Return the key figure of that name; for an unknown name a plain number with the name as its title."""
    return KEY_FIGURES[name] if name in KEY_FIGURES else KeyFigure(name, name.replace("_", " "))


_higher, _lower = partial(KeyFigure, better="higher"), partial(KeyFigure, better="lower")

for _each in (
    _higher("accuracy", "accuracy", "share of correct predictions", kind="share"),
    KeyFigure("accuracy_error", "standard error", "standard error of the accuracy on the test split", kind="share"),
    *(
        _higher(
            f"{split}_accuracy",
            f"{split} accuracy",
            f"share of correct predictions in the {split} split, on which the best setting is chosen",
            kind="share",
        )
        for split in ("validation", "training")
    ),
    _lower("loss", "loss", "mean loss per sample", column_format=".4f"),
    _lower("perplexity", "perplexity", "exponential of the mean loss per token", column_format=".4f"),
    _higher(
        "rank_correlation",
        "rank correlation",
        "Spearman's correlation of sentence similarities with those of the original model",
        column_format=".4f",
    ),
    _lower("parameters", "parameters", "number of parameters of the model", kind="count"),
    _lower(
        "average_weight_bits",
        "average weight bits",
        "bits per weight, averaged over all weights",
        short_title="weight bits",
        column_format=".2f",
    ),
    _lower(
        "average_activation_bits",
        "average activation bits",
        "bits per activation, averaged over the inputs of all layers",
        short_title="activation bits",
        column_format=".2f",
    ),
    _lower(
        "quantized_weight_bits",
        "weight bits of quantised nodes",
        "bits per weight of quantised nodes, without biases",
        short_title="bits per weight",
        column_format=".2f",
    ),
    _lower(
        "quantized_activation_bits",
        "activation bits of quantised nodes",
        "bits per activation, averaged over the inputs of quantised nodes",
        short_title="bits per activation",
        column_format=".2f",
    ),
    _lower(
        "average_bitwidth",
        "average bit width",
        "mean of the average weight bits and the average activation bits",
        unit="bits",
        short_title="bits",
        column_format=".2f",
    ),
    _higher(
        "memory_density",
        "memory density",
        "how many times smaller the model is than with 32 bits per element",
        column_format=".2f",
    ),
    _lower("macs", "MACs", "multiply-accumulate operations", kind="count"),
    _lower("flops", "FLOPs", "floating-point operations; a MAC counts as two", kind="count"),
    _lower(
        "bitops",
        "bit operations",
        "MACs, each multiplied by the bits of both operands",
        kind="count",
        short_title="BitOPs",
    ),
    _lower("weight_bits", "weight memory", "memory of all weights and biases", unit="bits", kind="memory"),
    _lower(
        "activation_bits", "activation memory", "memory of the inputs of all layers", unit="bits", kind="memory"
    ),
    _lower(
        "peak_activation_bits",
        "peak activations",
        "largest memory of activations that are needed at the same time",
        unit="bits",
        kind="memory",
    ),
    _lower("energy_pj", "energy", "estimated energy", unit="pJ", kind="energy"),
    _higher("intensity", "operations per byte", "operations per byte read or written"),
    _lower("time_s", "estimated time", "lower bound given by the roofline model", unit="s", kind="seconds"),
    _higher("sqnr_db", "SQNR", "signal-to-quantisation-noise ratio", unit="dB", kind="decibel"),
    _higher(
        "output_sqnr_db",
        "output SQNR",
        "signal-to-quantisation-noise ratio of the model's output",
        unit="dB",
        kind="decibel",
    ),
    _lower("max_error", "largest error", "largest absolute difference from the original"),
    _higher("cosine", "cosine similarity", "cosine of the angle to the original"),
    _lower("loss_change", "change in loss", "difference from the loss without quantisation"),
    _higher(
        "accuracy_change", "change in accuracy", "difference from the accuracy without quantisation", kind="points"
    ),
    _lower("lut", "look-up tables", "estimated look-up tables of the circuit", kind="count", short_title="LUTs"),
    _lower("dsp", "DSP blocks", "estimated DSP blocks of the circuit", kind="count"),
    _lower("latency", "latency", "clock cycles from an input to its result", unit="cycles"),
    KeyFigure("num_rows", "rows evaluated", "rows that the metrics were measured on"),
    KeyFigure("seconds", "time", "duration of the run", unit="s", kind="seconds"),
):
    declare_figure(_each)
