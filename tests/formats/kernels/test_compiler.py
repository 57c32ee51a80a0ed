"""Compiled loops on disk: corrupt files, folders that cannot be written, several processes, start-up time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chop.formats.kernels import compiler

pytestmark = pytest.mark.skipif(not compiler.is_available(), reason="needs the package numba")

QUANTISE = """
import sys, time, torch
from chop.formats.fp8 import FP8
FP8().quantize(torch.randn(10))
assert not {"numba", "llvmlite"} & set(sys.modules), "a small tensor loads them"
x = torch.randn(2**16)
begin = time.process_time()
FP8().quantize(x)
print(time.process_time() - begin, "llvmlite" in sys.modules, "numba" in sys.modules)
"""


def start(cache: Path, **environment: str) -> subprocess.Popen[str]:
    variables = {"CHOP_CACHE": str(cache), "PATH": "", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, "-c", QUANTISE], env=variables, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.split()


@pytest.mark.slow  # four processes
def test_processes_that_start_together_share_what_they_compile(tmp_path: Path) -> None:
    for process in [start(tmp_path), start(tmp_path)]:
        assert finish(process)[1:] == ["True", "True"]
    assert len(list((tmp_path / "kernels").iterdir())) == 1
    seconds, has_llvmlite, has_numba = finish(start(tmp_path))
    assert (has_llvmlite, has_numba) == ("True", "False")
    assert float(seconds) < 0.3
    assert finish(start(tmp_path, CHOP_KERNELS="0"))[1:] == ["False", "False"]


@pytest.mark.slow
def test_a_corrupt_file_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))
    load = compiler.load_loop.__wrapped__
    assert load("maximum", "magnitude") is not None
    (file,) = (tmp_path / "kernels").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert load("maximum", "magnitude") is not None
    assert compiler._read(file) is not None


def test_nothing_is_compiled_where_it_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOP_CACHE", "/proc/chop")
    assert compiler.load_loop.__wrapped__("maximum", "magnitude") is None


@pytest.mark.slow
def test_a_loop_has_no_references_to_other_code() -> None:
    for name, *choices in (
        ("fixed_point", "floor"),
        ("columns", "power", "grid_by_sum/nearest_even"),
        ("mean_signs", "ternary"),
    ):
        code = compiler._compile(name, tuple(choices))
        assert code is not None
        assert b"NRT_" not in code
        assert b"NumbaEnv" not in code


@pytest.mark.slow
def test_a_loop_that_needs_other_code_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "_remove_unused", lambda module: None)
    assert compiler.load_loop.__wrapped__("maximum", "magnitude") is None
    (message,) = caplog.messages
    assert message.startswith("maximum is slow on this processor: its compiled loop needs ")
    assert list((tmp_path / "kernels").iterdir()) == []
