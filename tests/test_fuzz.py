"""The fuzzer: a short share of every area, and how failures are reported."""

from __future__ import annotations

import faulthandler
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fuzz import __main__ as command
from fuzz import frame
from fuzz.frame import area_names, check_case, draw_case, error_of, run_area

from chop.formats import FORMATS, Format
from chop.formats.mixed_integer import MixedInteger

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("area", area_names())
def test_a_short_share_of_every_area_holds(area: str) -> None:
    end = time.monotonic() + 10
    for number in range(25):
        error = error_of(area, draw_case(area, 1, number))
        assert error is None, f"case {number} of seed 1 fails: {error}"
        if time.monotonic() > end:
            break


@pytest.mark.parametrize("area", area_names())
def test_cases_are_plain_data_and_depend_on_seed_and_number_only(area: str) -> None:
    cases = [draw_case(area, 3, number) for number in range(20)]
    again = [draw_case(area, 3, number) for number in range(20)]
    assert [repr(case) for case in cases] == [repr(case) for case in again]
    assert len({repr(case) for case in cases}) > 1
    for case in cases:
        assert repr(eval(repr(case), {"nan": math.nan, "inf": math.inf})) == repr(case)


@pytest.mark.slow
def test_every_format_that_rounds_is_drawn() -> None:
    drawn = {draw_case("formats", 1, number)["format"] for number in range(400)}
    assert drawn == {name for name in FORMATS if FORMATS[name].rounds}


def test_a_mixed_integer_with_other_widths_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element is compared with `integer` of its width."""
    number_format = {"widths": (8, 3), "frac_widths": (4, 1), "shape": (2, 1)}
    case: dict[str, Any] = {
        "format": "mixed_integer",
        "parameters": number_format,
        "dtype": "float32",
        "shape": (2, 40),
    }
    case |= {"layout": "contiguous", "kind": "integers", "special": "none", "seed": 1}
    case |= {"transform": "vjp", "flush_denormal": False}
    check_case("formats", case, tmp_path)
    quantize = MixedInteger.quantize
    monkeypatch.setattr(MixedInteger, "quantize", lambda self, x: quantize(self, x).clamp(max=1.0))
    monkeypatch.setattr(MixedInteger, "integers", Format.integers)
    with pytest.raises(AssertionError, match=r"not rounded as . bits with . fraction bits"):
        check_case("formats", case, tmp_path)


@pytest.fixture
def broken_area(monkeypatch: pytest.MonkeyPatch) -> None:
    """An area `broken`, in which cases above 4 fail and case 9 hangs."""

    def check(case: dict[str, Any], folder: Path) -> None:
        (folder / "left.txt").write_text("x")
        while case["number"] == 9:
            time.sleep(0.01)
        assert case["number"] <= 4, "above 4"

    area = SimpleNamespace(
        draw=lambda random: {"number": random.randrange(10), "x": math.inf}, check=check, TIME_LIMIT=0.2
    )
    monkeypatch.setattr(frame, "_load", lambda name: area)
    monkeypatch.setattr(frame, "area_names", lambda: ["broken"])
    monkeypatch.setattr(command, "area_names", lambda: ["broken"])
    monkeypatch.setattr(command, "_limit_memory", lambda: None)


@pytest.mark.slow
@pytest.mark.usefixtures("broken_area")
def test_a_failing_case_becomes_a_test_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = command.main(["--seed", "1", "--seconds", "60", "--cases", "10", "--failures", str(tmp_path), "broken"])
    out = capsys.readouterr().out
    assert code == 1
    assert out.startswith("seed 1\nbroken: 10 cases, ")
    files = sorted(tmp_path.glob("test_broken_1_*.py"))
    assert files
    expected = [number for number in range(10) if draw_case("broken", 1, number)["number"] > 4]
    assert [int(file.stem.rpartition("_")[2]) for file in files] == expected
    source: dict[str, Any] = {}
    exec(files[0].read_text(), source)
    (tmp_path / "empty").mkdir()
    with pytest.raises((AssertionError, frame.HangError)):
        source[f"test_broken_1_{expected[0]}"](tmp_path / "empty")


@pytest.mark.usefixtures("broken_area")
def test_a_hang_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(frame.HangError, match=r"longer than 0\.2 s"):
        check_case("broken", {"number": 9}, tmp_path)


@pytest.mark.slow
def test_crashes_and_hangs_of_compiled_code_are_failures_and_the_other_cases_still_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(case: int, folder: Path) -> None:
        if case == 2:
            faulthandler._sigsegv()  # type: ignore[attr-defined]
        if case == 3:  # as in compiled code, no signal handler of Python runs
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(60)
        assert case != 5, "a plain failure"

    area = SimpleNamespace(draw=lambda random: int(random.text), check=check, TIME_LIMIT=0.2)
    monkeypatch.setattr(frame, "_load", lambda name: area)
    monkeypatch.setattr(frame, "Random", lambda text: SimpleNamespace(text=text.split()[-1]))
    result = run_area("crashing", seed=1, seconds=60, max_cases=7)
    assert result.num_cases == 7
    assert [(each.number, each.case) for each in result.failures] == [(2, 2), (3, 3), (5, 5)]
    crash, hang, plain = (each.error for each in result.failures)
    assert "Segmentation fault" in crash
    assert crash.endswith("the process ended with signal SIGSEGV")
    assert "Timeout" in hang
    assert "in check" in hang
    assert "AssertionError: a plain failure" in plain


@pytest.mark.slow  # a second process
def test_an_unknown_area_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "fuzz", "no_area"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown area 'no_area'; known: " in done.stderr
