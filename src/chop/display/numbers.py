"""Numbers as text, for pages, tables and the terminal. Everything that shows numbers uses these functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext

MINUS, TIMES, INFINITY = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{INFINITY}"
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
ENERGY_UNITS = ((1e12, "J"), (1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ"), (1.0, "pJ"))
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
ROUNDS_UP = 0.9995  # from this share of 1000 on, three digits would show 1000


# Terminal: a minus is an ASCII hyphen, so that numbers can be copied


def table_number(value: float | None, digits: int = 5) -> str:
    """Return a number for a text table: all digits of an integer, else `digits` significant ones.

    >>> table_number(1234567), table_number(12345.6), table_number(1 / 3), table_number(None)
    ('1,234,567', '12,346', '0.33333', '-')
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if _is_integer(value) or 10 ** (digits - 1) <= abs(value) < 1e15:
        return f"{round(value):,}"
    return f"{value:.{digits}g}"


def table_decibels(value: float | None) -> str:
    """Return a ratio in decibels for a text table: `31.4 dB`; `exact` if there is no error, `-` if unknown."""
    if value is None:
        return "-"
    return "exact" if value == math.inf else f"{value:.1f} dB"


def percentage_points(value: float) -> str:
    """Return a number of percentage points as short as possible.

    >>> percentage_points(1.0), percentage_points(0.5)
    ('1 percentage point', '0.5 percentage points')
    """
    return counted(value, "percentage point")


def counted(number: float, what: str) -> str:
    """Return a number with what is counted, in the singular or plural.

    >>> counted(1, "row"), counted(1234, "row"), counted(4.25, "bit")
    ('1 row', '1,234 rows', '4.25 bits')
    """
    text = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{text} {what}" if number == 1 else f"{text} {what}s"


# Pages. The functions up to `duration` are also in page/assets/numbers.js, and write the same text there.


def exact(value: float) -> str:
    """Return all digits of an integer, six significant digits of any other number: 1,234,567 or 0.333333."""
    if math.isnan(value) or math.isinf(value):
        return "not a number" if math.isnan(value) else f"{MINUS if value < 0 else ''}{INFINITY}"
    return _with_minus(f"{int(value):,}") if _is_integer(value) else significant(value, 6)


def significant(value: float, digits: int = 4) -> str:
    """Return `digits` significant digits, but all before the point, without trailing zeros: 13.43, 12,346."""
    if not math.isfinite(value) or value == 0:
        return exact(value)
    mantissa, exponent = _rounded(value, f".{digits - 1}e").split("e")
    is_plain = -4 <= int(exponent) < 6
    text = _rounded(value, f",.{max(0, digits - 1 - int(exponent))}f") if is_plain else mantissa
    trimmed = text.rstrip("0").rstrip(".") if "." in text else text
    return _with_minus(trimmed if is_plain else f"{trimmed}e{exponent}")


def with_prefix(value: float, unit: str = "") -> str:
    """Return three digits with a decimal prefix: 1.23 M."""
    if math.isfinite(value):
        for size, prefix in PREFIXES:
            if abs(value) >= ROUNDS_UP * size:
                return f"{significant(value / size, 3)} {prefix}{unit}"
    return f"{significant(value, 3)} {unit}".rstrip()


def percent(share: float) -> str:
    """Return a share as a percentage: 30.38 %, or 0.00012 % if two decimals would show zero."""
    return f"{_percentage(share)} %" if math.isfinite(share) else exact(share)


def points(share: float) -> str:
    """Return a difference between two shares in percentage points, with its sign: +2.10 points."""
    return _with_plus(f"{_percentage(share)} points", share) if math.isfinite(share) else ""


def decibels(value: float) -> str:
    """Return a ratio in decibels: 31.4 dB; `exact` if there is no error at all."""
    if value == math.inf:
        return "exact"
    return f"{_with_minus(_rounded(value, '.1f')) if math.isfinite(value) else exact(value)} dB"


def memory(bits: float) -> str:
    """Return a number of bits as bytes: 433 B."""
    return with_prefix(bits / 8, "B")


def energy(picojoules: float) -> str:
    """Return an energy in the largest unit of which there is at least one: 4.5 nJ."""
    return _in_units(picojoules, ENERGY_UNITS)


def duration(seconds: float) -> str:
    """Return a duration: 12.3 ms, 5.25 s, 1 min 1 s or 2 h 3 min."""
    if seconds == 0:
        return "0 s"
    if not 60 <= seconds < math.inf:
        return _in_units(seconds, TIME_UNITS)
    minutes, rest = divmod(math.floor(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


# Differences between two numbers, for pages


def relative_change(before: float, after: float) -> str:
    """Return the change in percent of `before`, as a factor if it at least doubles, absolute if `before` is 0."""
    change = after - before
    if not math.isfinite(change):
        return ""
    if before == 0 or change == 0:
        return _with_plus(exact(change), change)
    share = change / abs(before)
    if share >= 1:
        return f"{TIMES}{significant(after / before, 3)}"
    return _with_plus(_with_minus(f"{share:.1%}").replace("%", " %"), share)


def change_in_points(before: float, after: float) -> str:
    """Return the change from one share to another in percentage points: +2.10 points."""
    return points(after - before)


def _is_integer(value: float) -> bool:
    """Whether all digits of a number are before the point, and few enough to be shown."""
    if isinstance(value, int):
        return abs(value) < 10**21
    return value.is_integer() and abs(value) < 1e15


def _percentage(share: float) -> str:
    text = _rounded(100 * share, ".2f")
    return significant(100 * share, 2) if share != 0 and float(text) == 0 else _with_minus(text)


def _rounded(value: float, specification: str) -> str:
    """Format a number; ties are rounded away from zero, as in JavaScript: 0.125 to 0.13."""
    with localcontext(rounding=ROUND_HALF_UP):
        return format(Decimal(value + 0.0), specification)  # turns a negative zero into 0


def _in_units(value: float, units: Sequence[tuple[float, str]]) -> str:
    size, unit = next((each for each in units if abs(value) >= ROUNDS_UP * each[0]), units[-1])
    return f"{significant(value / size, 3)} {unit}"


def _with_plus(text: str, value: float) -> str:
    return f"+{text}" if value > 0 else text


def _with_minus(text: str) -> str:
    return text.replace("-", MINUS)
