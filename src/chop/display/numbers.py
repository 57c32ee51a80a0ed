"""Numbers as the pages show them, and what lies between two of them."""

from __future__ import annotations

import math

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plain(value: float) -> str:
    """All digits of a whole number, six of any other: 1,234,567 or 0.333333."""
    if math.isnan(value) or math.isinf(value):
        return "not a number" if math.isnan(value) else f"{MINUS if value < 0 else ''}∞"
    exact = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
    return _signed(f"{int(value):,}" if exact and abs(value) < 10**21 else f"{value:.6g}")


def short(value: float, unit: str = "") -> str:
    """Three digits and a prefix: 1.23 M."""
    for size, prefix in PREFIXES:
        if abs(value) >= 0.9995 * size and math.isfinite(value):  # three digits of less are not 1000 yet
            return f"{_digits(value / size)} {prefix}{unit}"
    return f"{_digits(value)} {unit}".rstrip()


def percent(value: float) -> str:
    return _signed(f"{value:.2%}".replace("%", " %")) if math.isfinite(value) else plain(value)


def bits(value: float) -> str:
    return _digits(value, 4)


def memory(value: float) -> str:
    """Bits as bytes."""
    return short(value / 8, "B")


def seconds(value: float) -> str:
    if not 60 <= value < math.inf:
        return short(value, "s") if value >= 1 or value == 0 else f"{_digits(value * 1e3)} ms"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def difference(first: float, second: float) -> str:
    """From the first to the second as a share of the first; as it is, where the first is 0."""
    change = second - first
    if not math.isfinite(change):
        return ""
    if first == 0 or change == 0:
        return _plus(plain(change), change)
    share = change / abs(first)
    return (
        f"{TIMES}{_digits(second / first)}"
        if share >= 1
        else _plus(_signed(f"{share:.1%}").replace("%", " %"), share)
    )


def points(first: float, second: float) -> str:
    """From one share to another in points of a hundred."""
    change = 100 * (second - first)
    return _plus(f"{_signed(f'{change:.2f}')} points", change) if math.isfinite(change) else ""


def _digits(value: float, digits: int = 3) -> str:
    if not math.isfinite(value) or value == 0:
        return plain(value)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits - 1}e}" if places > 8 or abs(value) >= 1e6 else f"{value:,.{places}f}"
    return _signed(text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text)


def _plus(text: str, value: float) -> str:
    return f"+{text}" if value > 0 else text


def _signed(text: str) -> str:
    return text.replace("-", MINUS)
