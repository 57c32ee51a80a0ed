"""A format in one short file works everywhere: TOML, command line, every op, cost, docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from chop import cli
from chop.formats import FORMATS
from chop.info.formats import format_table
from chop.ops import OPS
from chop.passes.graph import (
    count_bitops_analysis_pass,
    quantize_transform_pass,
    verify_quantization_analysis_pass,
)
from chop.plugins import load_plugin
from samples import annotated, samples

TEN_LINES = '''
from dataclasses import dataclass
from chop.formats import Format, param, register_format

@register_format("parts")
@dataclass(frozen=True)
class Parts(Format):
    """Multiples of a unit fraction, such as 1/4."""
    width: int = param(6, help="bits per element")
    parts: int = param(2, search=(2, 4), help="denominator of the fraction")
    def quantize(self, x):
        return (x * self.parts).round() / self.parts
'''

TOML = """
model = "jsc-tiny"
dataset = "jsc"
plugins = ["parts.py"]
[data]
num_rows = 500
[passes.quantize]
by = "type"
[passes.quantize.default.config]
name = "NA"
[passes.quantize.linear.config]
name = "parts"
weight_parts = 4
[transform]
evaluate = false
"""


pytestmark = pytest.mark.slow


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the format, which is forgotten after the test."""
    monkeypatch.setattr(FORMATS, "_entries", dict(FORMATS.items()))
    monkeypatch.setattr("chop.plugins._loaded", {})
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "parts.py"
    path.write_text(TEN_LINES)
    return path


def test_new_format_works_in_every_op_in_cost_and_in_the_docs_table(plugin: Path) -> None:
    load_plugin(plugin)
    config = {"name": "parts", "weight_parts": 4}
    for name, op in OPS.items():
        for sample in samples()[name] if op.quantizable else ():
            graph = annotated(sample.model(), **sample.arguments())
            graph, _ = quantize_transform_pass(graph, {"by": "type", name: {"config": config}})
            graph.model(**sample.arguments())
            verify_quantization_analysis_pass(graph)
            bits = [tensor.format.bits for meta in graph.metas() if meta.quantized for tensor in meta.args.values()]
            assert 6.0 in bits, (name, bits)
            assert count_bitops_analysis_pass(graph)[1]["not_counted"] == []
    (row,) = [row for row in format_table().rows if row[0] == "parts"]
    assert row[3] == "Multiples of a unit fraction, such as 1/4."


def test_new_format_works_in_toml_and_on_the_command_line(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("parts.toml").write_text(TOML)
    assert cli.main(["transform", "--config", "parts.toml", "--trust", "parts.py"]) == 0
    assert "LinearParts" in capsys.readouterr().out
    assert cli.main(["info", "formats", "parts", "--plugin", str(plugin)]) == 0
    assert "denominator of the fraction" in capsys.readouterr().out
