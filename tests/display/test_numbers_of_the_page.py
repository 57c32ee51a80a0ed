"""The report page writes numbers as Python does: page/assets/numbers.js against display/numbers.py."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

import chop
from chop.display import numbers
from chop.display.figures import KeyFigure, Kind

NODE = shutil.which("node")
NUMBERS_JS = Path(chop.__file__).parent / "page" / "assets" / "numbers.js"
SPECIAL = (
    *(0.0, 1.0, 2.0, 60.0, 61.2, 90.5, 999.4, 999.5, 3599.7, 7384.0, 1234567.0, 203636736.0, 1e15),
    *(0.125, 1.125, 2.5, 0.0625, 9.995, 9.996, 99.96, 0.30375, 0.5, 0.92314, 0.25, 31.44, 59.9996),  # also ties
    *(1e-9, 1.5e-7, 9.9999e-5, 1e-4, 0.00123, 1 / 3, 12345.6, 335875.25, 999999.4, 999999.7, 1234567.5, 5e-324),
    *(math.inf, math.nan),
)
Formatter = Callable[[float], str]
FORMATTERS: dict[str, Formatter] = {
    "exact": numbers.exact,
    **{kind: KeyFigure("any", "any", kind=kind).text for kind in get_args(Kind)},
}

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no JavaScript engine: apt-get install nodejs")


def values() -> list[float]:
    """Return numbers of every size, negative ones too; many of them end in a tie between two roundings."""
    draw = random.Random(0)
    scaled = [draw.uniform(1, 10) * 10.0 ** draw.randint(-12, 14) for _ in range(2000)]
    ties = [draw.randint(1, 10**6) / 2 ** draw.randint(1, 12) for _ in range(2000)]
    found = [*SPECIAL, *scaled, *ties, *(float(draw.randint(0, 10**7)) for _ in range(500))]
    return found + [-value for value in found]


def on_the_page(given: list[float]) -> dict[str, list[str]]:
    """Return what the page shows for each of the numbers, by kind."""
    code = f"""{NUMBERS_JS.read_text(encoding="utf-8")}
        const special = {{ inf: Infinity, "-inf": -Infinity, nan: NaN }};
        const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const values = given.map((each) => (each in special ? special[each] : Number(each)));
        const texts = Object.keys(SHOWN).map((kind) => [kind, values.map((value) => shown(value, kind))]);
        console.log(JSON.stringify(Object.fromEntries(texts)));"""
    sent = json.dumps([repr(value) for value in given])
    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", code], input=sent, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_the_page_writes_numbers_of_every_kind_as_python_does() -> None:
    given = values()
    found = on_the_page(given)
    assert found.keys() == FORMATTERS.keys()
    differences = [
        (kind, value, text, FORMATTERS[kind](value))
        for kind, texts in found.items()
        for value, text in zip(given, texts, strict=True)
        if text != FORMATTERS[kind](value)
    ]
    assert differences == []
