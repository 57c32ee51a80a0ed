"""All that is told of one node, as numbers and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

from tabulate import tabulate

from chop.cost.conventions import Number
from chop.formats import Format
from chop.formats.integer import Integer
from chop.passes.graph.analysis.explain.suggest import WIDTHS, Suggestion
from chop.statistics.deviation import decibel_text
from chop.statistics.range_meter import Measured

COLUMNS = 100
WORTH_TELLING = 0.5
"""Decibels that another format must gain to be worth a sentence."""


@dataclass(frozen=True)
class Tensors:
    """One operand or result of a node: its format, its values, and formats that would do."""

    role: str | None
    """None: it is never quantised."""
    shape: Sequence[int]
    format: Format | None
    """None: it is not quantised."""
    measured: Measured | None
    """None: no values were at hand."""
    same_width: Suggestion | None = None
    """The best fixed-point format as wide as the present one."""
    narrowest: Suggestion | None = None
    """The narrowest fixed-point format that reaches the SQNR asked for."""


@dataclass(frozen=True)
class Cost:
    """What one run of a node on the annotating batch takes; None where it is not known."""

    macs: int | None
    operations: int | None
    bitops: Number | None
    num_weights: int
    weight_bits: Number


@dataclass(frozen=True, repr=False)
class Explanation:
    """All that is told of a node; shows itself as text, in words and tables."""

    name: str
    op: str
    calls: str
    """The class of the layer, or the name of the function or method."""
    operands: Mapping[str, Tensors]
    results: Mapping[str, Tensors]
    result_db: float | None
    """SQNR of the result against the same layer or function without formats; None: it has none."""
    cost: Cost | None
    num_samples: int
    """Rows that activations were measured on."""
    wanted_db: float
    """SQNR that suggested formats reach."""

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain dicts, lists, numbers and strings."""
        return {
            "node": self.name,
            "op": self.op,
            "calls": self.calls,
            "operands": {name: _plain(each) for name, each in self.operands.items()},
            "results": {name: _plain(each) for name, each in self.results.items()},
            "result_sqnr_db": self.result_db,
            "cost": None if self.cost is None else asdict(self.cost),
            "num_samples": self.num_samples,
            "sqnr_db": self.wanted_db,
            "words": self.words(),
        }

    def words(self) -> list[str]:
        """What is worth telling of the tensors, a sentence each."""
        found = {name: self._words_on(each) for name, each in self._all().items()}
        told = [f"{name}: {'; '.join(words)}." for name, words in found.items() if words]
        if not told and any(each.format is not None for each in self.operands.values()):
            return [
                f"Nothing saturates, no bit is wasted, and nothing reaches {self.wanted_db:g} dB in fewer bits."
            ]
        return told

    def _words_on(self, tensors: Tensors) -> list[str]:
        measured = tensors.measured
        if measured is None:
            return []
        found = []
        if measured.num_not_finite:
            found.append(f"{_counted(measured.num_not_finite, 'value')} NaN or infinite")
        if measured.saturated:
            found.append(f"{_share(measured.saturated)} of the values are beyond the format and saturate")
        if measured.to_zero:
            found.append(f"{_share(measured.to_zero)} of the values other than 0 become 0")
        if measured.unused_bits:
            found.append(f"{_counted(measured.unused_bits, 'top bit')} never used")
        return found + self._words_on_formats(tensors, measured)

    def _words_on_formats(self, tensors: Tensors, measured: Measured) -> list[str]:
        best, least, present, now = tensors.same_width, tensors.narrowest, measured.sqnr_db, tensors.format
        if tensors.role is None or measured.min is None or measured.min == measured.max == 0:
            return []
        found = []
        if isinstance(now, Integer) and now.is_signed and measured.min >= 0:
            found.append("no value is negative, which is_signed = false would make use of")
        if best is not None and present is not None and best.sqnr_db > present + WORTH_TELLING:
            gain = "no noise" if best.sqnr_db == math.inf else f"{best.sqnr_db - present:.1f} dB less noise"
            found.append(f"{best.format} is as wide and has {gain}")
        if least is None:
            found.append(f"no integer of up to {WIDTHS[-1]} bits reaches {self.wanted_db:g} dB")
        elif now is None:
            found.append(f"not quantised; {least.format} would {_reach(least)}")
        elif least.format.bits < now.bits:
            found.append(f"{least.format} is narrower and would {_reach(least)}")
        elif present is not None and present < self.wanted_db and least != best:
            found.append(f"{self.wanted_db:g} dB need {least.format}")
        return found

    def __repr__(self) -> str:
        parts = [f"{self.name}: {self.op} ({self.calls})", self._formats_table(), self._values_table()]
        bullets = [fill(each, COLUMNS, initial_indent="- ", subsequent_indent="  ") for each in self.words()]
        parts += ["\n".join(bullets), self._last_lines()]
        return "\n\n".join(part for part in parts if part)

    def _last_lines(self) -> str:
        lines = []
        if self.result_db is not None:
            lines.append(f"Result against the same without formats: {decibel_text(self.result_db)}.")
        if self.num_samples:
            lines.append(f"Activations are those of {self.num_samples:,} rows.")
        return "\n".join([*lines, *self._cost_lines()])

    def _all(self) -> dict[str, Tensors]:
        return {**self.operands, **self.results}

    def _formats_table(self) -> str:
        rows = [
            (
                name,
                _shape(each.shape),
                each.format or "-",
                _number(each.format.bits if each.format else None),
                *_range(each),
            )
            for name, each in self._all().items()
        ]
        return _table(rows, ("tensor", "shape", "format", "bits", "smallest", "largest", "format holds"), "lllrrrl")

    def _values_table(self) -> str:
        rows = []
        for name, each in self._all().items():
            measured = each.measured
            if measured is None or (each.format is None and each.narrowest is None and measured.sqnr_db is None):
                continue
            unused = "-" if measured.unused_bits is None else str(measured.unused_bits)
            shares = _share(measured.saturated), _share(measured.to_zero)
            same, least = _suggested(each.same_width), _suggested(each.narrowest)
            rows.append((name, *shares, unused, decibel_text(measured.sqnr_db), same, least))
        headers = ("tensor", "saturate", "to zero", "spare bits", "SQNR", "best as wide")
        return _table(rows, (*headers, f"{self.wanted_db:g} dB need"), "lrrrr")

    def _cost_lines(self) -> list[str]:
        if self.cost is None:
            return []
        cost = self.cost
        counts = {"MACs": cost.macs, "operations": cost.operations, "bit operations (bops)": cost.bitops}
        lines = [
            f"Cost of a run on these shapes: {', '.join(f'{_number(n)} {what}' for what, n in counts.items())}."
        ]
        if cost.num_weights:
            lines.append(f"Weights: {_number(cost.num_weights)}, of {_number(cost.weight_bits)} bits in all.")
        return lines


def _plain(tensors: Tensors) -> dict[str, Any]:
    measured = tensors.measured
    return {
        "role": tensors.role,
        "shape": list(tensors.shape),
        "format": None if tensors.format is None else str(tensors.format),
        "bits": None if tensors.format is None else tensors.format.bits,
        **({} if measured is None else asdict(measured)),
        "same_width": _plain_suggestion(tensors.same_width),
        "narrowest": _plain_suggestion(tensors.narrowest),
    }


def _plain_suggestion(found: Suggestion | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"width": found.format.width, "frac_width": found.format.frac_width, "sqnr_db": found.sqnr_db}


def _table(rows: Sequence[Sequence[object]], headers: Sequence[str], align: str) -> str:
    sides = [{"l": "left", "r": "right"}[side] for side in align.ljust(len(headers), "l")]
    return tabulate(rows, headers, disable_numparse=True, colalign=sides) if rows else ""


def _range(tensors: Tensors) -> tuple[str, str, str]:
    measured = tensors.measured
    if measured is None:
        return "-", "-", "-"
    if tensors.format is None:
        return _number(measured.min), _number(measured.max), "-"
    holds = "what the data need" if measured.holds is None else " to ".join(_number(end) for end in measured.holds)
    return _number(measured.min), _number(measured.max), holds


def _reach(found: Suggestion) -> str:
    return "be exact" if found.sqnr_db == math.inf else f"reach {decibel_text(found.sqnr_db)}"


def _suggested(found: Suggestion | None) -> str:
    return "-" if found is None else f"{found.format} {decibel_text(found.sqnr_db)}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(str(size) for size in shape) or "one number"


def _number(value: Number | None) -> str:
    if value is None:
        return "-"
    return f"{int(value):,}" if abs(value) < 1e15 and value == int(value) else f"{value:.5g}"


def _share(value: float | None) -> str:
    """A share in percent; what is more than nothing never looks like nothing."""
    if value is None:
        return "-"
    return "< 0.01 %" if 0 < value < 1e-4 else f"{100 * value:.3g} %"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what} is" if number == 1 else f"{number:,} {what}s are"
