"""Key figures: the title, meaning, unit and text of every number that several parts of the package show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


for _each in (
    KeyFigure("accuracy", "accuracy", "share of correct predictions", better="higher", kind="share"),
    *(
        KeyFigure(
            f"{split}_accuracy",
            f"{split} accuracy",
            f"share of correct predictions in the {split} split, on which the best setting is chosen",
            better="higher",
            kind="share",
        )
        for split in ("validation", "training")
    ),
    KeyFigure("loss", "loss", "mean loss per sample", better="lower", column_format=".4f"),
    KeyFigure(
        "perplexity",
        "perplexity",
        "exponential of the mean loss per token",
        better="lower",
        column_format=".4f",
    ),
    KeyFigure(
        "rank_correlation",
        "rank correlation",
        "Spearman's correlation of sentence similarities with those of the original model",
        better="higher",
        column_format=".4f",
    ),
    KeyFigure("parameters", "parameters", "number of parameters of the model", better="lower", kind="count"),
    KeyFigure(
        "average_weight_bits",
        "average weight bits",
        "bits per weight, averaged over all weights",
        better="lower",
        short_title="weight bits",
        column_format=".2f",
    ),
    KeyFigure(
        "average_activation_bits",
        "average activation bits",
        "bits per activation, averaged over the inputs of all layers",
        better="lower",
        short_title="activation bits",
        column_format=".2f",
    ),
    KeyFigure(
        "quantized_weight_bits",
        "weight bits of quantised nodes",
        "bits per weight of quantised nodes, without biases",
        better="lower",
        short_title="bits per weight",
        column_format=".2f",
    ),
    KeyFigure(
        "quantized_activation_bits",
        "activation bits of quantised nodes",
        "bits per activation, averaged over the inputs of quantised nodes",
        better="lower",
        short_title="bits per activation",
        column_format=".2f",
    ),
    KeyFigure(
        "average_bitwidth",
        "average bit width",
        "mean of the average weight bits and the average activation bits",
        unit="bits",
        better="lower",
        short_title="bits",
        column_format=".2f",
    ),
    KeyFigure(
        "memory_density",
        "memory density",
        "how many times smaller the model is than with 32 bits per element",
        better="higher",
        column_format=".2f",
    ),
    KeyFigure("macs", "MACs", "multiply-accumulate operations", better="lower", kind="count"),
    KeyFigure("flops", "FLOPs", "floating-point operations; a MAC counts as two", better="lower", kind="count"),
    KeyFigure(
        "bitops",
        "bit operations",
        "MACs, each multiplied by the bits of both operands",
        better="lower",
        kind="count",
        short_title="BitOPs",
    ),
    KeyFigure(
        "weight_bits",
        "weight memory",
        "memory of all weights and biases",
        unit="bits",
        better="lower",
        kind="memory",
    ),
    KeyFigure(
        "activation_bits",
        "activation memory",
        "memory of the inputs of all layers",
        unit="bits",
        better="lower",
        kind="memory",
    ),
    KeyFigure(
        "peak_activation_bits",
        "peak activations",
        "largest memory of activations that are needed at the same time",
        unit="bits",
        better="lower",
        kind="memory",
    ),
    KeyFigure("energy_pj", "energy", "estimated energy", unit="pJ", better="lower", kind="energy"),
    KeyFigure("intensity", "operations per byte", "operations per byte read or written", better="higher"),
    KeyFigure(
        "time_s",
        "estimated time",
        "lower bound given by the roofline model",
        unit="s",
        better="lower",
        kind="seconds",
    ),
    KeyFigure("sqnr_db", "SQNR", "signal-to-quantisation-noise ratio", unit="dB", better="higher", kind="decibel"),
    KeyFigure(
        "output_sqnr_db",
        "output SQNR",
        "signal-to-quantisation-noise ratio of the model's output",
        unit="dB",
        better="higher",
        kind="decibel",
    ),
    KeyFigure("max_error", "largest error", "largest absolute difference from the original", better="lower"),
    KeyFigure("cosine", "cosine similarity", "cosine of the angle to the original", better="higher"),
    KeyFigure("loss_change", "change in loss", "difference from the loss without quantisation", better="lower"),
    KeyFigure(
        "accuracy_change",
        "change in accuracy",
        "difference from the accuracy without quantisation",
        better="higher",
        kind="points",
    ),
    KeyFigure(
        "lut",
        "look-up tables",
        "estimated look-up tables of the circuit",
        better="lower",
        kind="count",
        short_title="LUTs",
    ),
    KeyFigure("dsp", "DSP blocks", "estimated DSP blocks of the circuit", better="lower", kind="count"),
    KeyFigure("latency", "latency", "clock cycles from an input to its result", unit="cycles", better="lower"),
    KeyFigure("num_rows", "rows evaluated", "rows that the metrics were measured on"),
    KeyFigure("seconds", "time", "duration of the run", unit="s", kind="seconds"),
):
    declare_figure(_each)
