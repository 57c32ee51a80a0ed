"""The explanation of one node, as numbers and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

from tabulate import tabulate

from chop.cost.conventions import Number
from chop.display.numbers import counted, table_decibels, table_number
from chop.formats import Format
from chop.formats.integer import Integer
from chop.passes.quantization.suggest import WIDTHS, Suggestion
from chop.statistics.format_fit import FormatFit

LINE_WIDTH = 100
MIN_GAIN_DB = 0.5
"""A format of the same width is mentioned if it gains at least this."""


@dataclass(frozen=True)
class ExplainedTensor:
    """One operand or result of a node: its format, its values, and suggested formats."""

    role: str | None
    """None if it is never quantised."""
    shape: Sequence[int]
    format: Format | None
    """None if it is not quantised."""
    measured: FormatFit | None
    """None if there are no values."""
    same_width: Suggestion | None = None
    """The best fixed-point format with the same width."""
    narrowest: Suggestion | None = None
    """The narrowest fixed-point format that reaches the target SQNR."""


@dataclass(frozen=True)
class Cost:
    """The cost of one run of a node on the annotating batch; None if it is unknown."""

    macs: int | None
    operations: int | None
    bitops: Number | None
    num_weights: int
    weight_bits: Number


@dataclass(frozen=True, repr=False)
class Explanation:
    """Everything about one node. Its `repr` is a text with tables and sentences."""

    name: str
    op: str
    calls: str
    """The class of the layer, or the name of the function or method."""
    operands: Mapping[str, ExplainedTensor]
    results: Mapping[str, ExplainedTensor]
    result_db: float | None
    """The SQNR of the result, compared with the same layer or function in float; None if it is not quantised."""
    cost: Cost | None
    num_samples: int
    """The number of rows that activations were measured on."""
    target_db: float
    """The SQNR that suggested formats reach."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, numbers and strings."""
        return {
            "node": self.name,
            "op": self.op,
            "calls": self.calls,
            "operands": {name: _plain(each) for name, each in self.operands.items()},
            "results": {name: _plain(each) for name, each in self.results.items()},
            "result_sqnr_db": self.result_db,
            "cost": None if self.cost is None else asdict(self.cost),
            "num_samples": self.num_samples,
            "sqnr_db": self.target_db,
            "words": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """Return one sentence per tensor that has something to report."""
        found = {name: self._findings(each) for name, each in self._all().items()}
        sentences = [f"{name}: {'; '.join(findings)}." for name, findings in found.items() if findings]
        if not sentences and any(each.format is not None for each in self.operands.values()):
            return [f"No value saturates, no bit is unused, and no narrower format reaches {self.target_db:g} dB."]
        return sentences

    def _findings(self, tensor: ExplainedTensor) -> list[str]:
        measured = tensor.measured
        if measured is None:
            return []
        found = []
        if measured.num_not_finite:
            found.append(f"{_are(measured.num_not_finite, 'value')} NaN or infinite")
        if measured.saturated:
            found.append(f"{_share(measured.saturated)} of the values saturate")
        if measured.to_zero:
            found.append(f"{_share(measured.to_zero)} of the nonzero values become 0")
        if measured.unused_bits:
            found.append(f"{_are(measured.unused_bits, 'top bit')} never used")
        return found + self._format_findings(tensor, measured)

    def _format_findings(self, tensor: ExplainedTensor, measured: FormatFit) -> list[str]:
        best, least, present, now = tensor.same_width, tensor.narrowest, measured.sqnr_db, tensor.format
        if tensor.role is None or measured.min is None or measured.min == measured.max == 0:
            return []
        found = []
        if isinstance(now, Integer) and now.is_signed and measured.min >= 0:
            found.append("no value is negative: is_signed = false would gain a bit")
        if best is not None and present is not None and best.sqnr_db > present + MIN_GAIN_DB:
            gain = "no noise" if best.sqnr_db == math.inf else f"{best.sqnr_db - present:.1f} dB higher SQNR"
            found.append(f"{best.format} has the same width and {gain}")
        if least is None:
            found.append(f"no integer format of up to {WIDTHS[-1]} bits reaches {self.target_db:g} dB")
        elif now is None:
            found.append(f"not quantised; {least.format} would {_reach(least)}")
        elif least.format.bits < now.bits:
            found.append(f"{least.format} is narrower and would {_reach(least)}")
        elif present is not None and present < self.target_db and least != best:
            found.append(f"{self.target_db:g} dB would need {least.format}")
        return found

    def __repr__(self) -> str:
        parts = [f"{self.name}: {self.op} ({self.calls})", self._formats_table(), self._values_table()]
        bullets = [fill(text, LINE_WIDTH, initial_indent="- ", subsequent_indent="  ") for text in self.sentences()]
        lines = []
        if self.result_db is not None:
            lines.append(f"SQNR of the result, compared with float: {table_decibels(self.result_db)}.")
        if self.num_samples:
            lines.append(f"Activations were measured on {counted(self.num_samples, 'row')}.")
        parts += ["\n".join(bullets), "\n".join([*lines, *self._cost_lines()])]
        return "\n\n".join(part for part in parts if part)

    def _all(self) -> dict[str, ExplainedTensor]:
        return {**self.operands, **self.results}

    def _formats_table(self) -> str:
        rows = []
        for name, tensor in self._all().items():
            shape = " x ".join(map(str, tensor.shape)) or "scalar"
            bits = table_number(tensor.format.bits if tensor.format else None)
            rows.append((name, shape, tensor.format or "-", bits, *_range(tensor)))
        return _table(rows, ("tensor", "shape", "format", "bits", "smallest", "largest", "format range"), "lllrrrl")

    def _values_table(self) -> str:
        rows = []
        for name, each in self._all().items():
            measured = each.measured
            if measured is None or (each.format is None and each.narrowest is None and measured.sqnr_db is None):
                continue
            unused = "-" if measured.unused_bits is None else str(measured.unused_bits)
            shares = _share(measured.saturated), _share(measured.to_zero)
            same, least = _suggested(each.same_width), _suggested(each.narrowest)
            rows.append((name, *shares, unused, table_decibels(measured.sqnr_db), same, least))
        headers = ("tensor", "saturated", "to zero", "unused bits", "SQNR", "best of this width")
        return _table(rows, (*headers, f"narrowest for {self.target_db:g} dB"), "lrrrr")

    def _cost_lines(self) -> list[str]:
        cost = self.cost
        if cost is None:
            return []
        counts = {"MACs": cost.macs, "operations": cost.operations, "bit operations (bops)": cost.bitops}
        listed = ", ".join(f"{table_number(number)} {what}" for what, number in counts.items())
        lines = [f"Cost of one forward pass: {listed}."]
        if cost.num_weights:
            number, bits = table_number(cost.num_weights), table_number(cost.weight_bits)
            lines.append(f"{number} weights and biases, {bits} bits in total.")
        return lines


def _plain(tensor: ExplainedTensor) -> dict[str, Any]:
    def suggested(found: Suggestion | None) -> dict[str, Any] | None:
        if found is None:
            return None
        return {"width": found.format.width, "frac_width": found.format.frac_width, "sqnr_db": found.sqnr_db}

    return {
        "role": tensor.role,
        "shape": list(tensor.shape),
        "format": None if tensor.format is None else str(tensor.format),
        "bits": None if tensor.format is None else tensor.format.bits,
        **({} if tensor.measured is None else asdict(tensor.measured)),
        "same_width": suggested(tensor.same_width),
        "narrowest": suggested(tensor.narrowest),
    }


def _table(rows: Sequence[Sequence[object]], headers: Sequence[str], align: str) -> str:
    sides = [{"l": "left", "r": "right"}[side] for side in align.ljust(len(headers), "l")]
    return tabulate(rows, headers, disable_numparse=True, colalign=sides) if rows else ""


def _range(tensor: ExplainedTensor) -> tuple[str, str, str]:
    measured = tensor.measured
    if measured is None:
        return "-", "-", "-"
    if tensor.format is None:
        holds = "-"
    elif measured.holds is None:
        holds = "follows the data"
    else:
        holds = " to ".join(map(table_number, measured.holds))
    return table_number(measured.min), table_number(measured.max), holds


def _reach(found: Suggestion) -> str:
    return "be exact" if found.sqnr_db == math.inf else f"reach {table_decibels(found.sqnr_db)}"


def _suggested(found: Suggestion | None) -> str:
    return "-" if found is None else f"{found.format} {table_decibels(found.sqnr_db)}"


def _share(value: float | None) -> str:
    """Return a share in percent; a share above 0 is never shown as 0 %."""
    if value is None:
        return "-"
    return "< 0.01 %" if 0 < value < 1e-4 else f"{100 * value:.3g} %"


def _are(number: int, what: str) -> str:
    return f"{counted(number, what)} {'is' if number == 1 else 'are'}"
