"""A format in one short file works everywhere: TOML, command line, every op, cost, docs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from command_server import CommandServer

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

EVERYWHERE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from samples import annotated, samples
from chop.plugins import load_plugin
load_plugin(Path(sys.argv[1]))
from chop.info.formats import format_table
from chop.ops import OPS
from chop.passes.graph import (
    count_bitops_analysis_pass, quantize_transform_pass, verify_quantization_analysis_pass
)
for name, op in OPS.items():
    if not op.quantizable:
        continue
    for sample in samples()[name]:
        graph = annotated(sample.model(), **sample.arguments())
        config = {"name": "parts", "weight_parts": 4}
        graph, info = quantize_transform_pass(graph, {"by": "type", name: {"config": config}})
        graph.model(**sample.arguments())
        verify_quantization_analysis_pass(graph)
        bits = [t.format.bits for m in graph.metas() if m.quantized for t in m.args.values()]
        assert 6.0 in bits, (name, bits)
        assert count_bitops_analysis_pass(graph)[1]["not_counted"] == []
(row,) = [row for row in format_table().rows if row[0] == "parts"]
assert row[3] == "Multiples of a unit fraction, such as 1/4.", row
print("everywhere")
"""

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


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "parts.py"
    path.write_text(TEN_LINES)
    return path


@pytest.mark.slow
def test_new_format_works_in_every_op_in_cost_and_in_the_docs_table(
    plugin: Path, tmp_path: Path, command_server: CommandServer
) -> None:
    done = command_server.run_python(EVERYWHERE, tmp_path, str(plugin), str(Path(__file__).parent))
    assert done.stdout == "everywhere\n", done.stderr


@pytest.mark.slow
def test_new_format_works_in_toml_and_on_the_command_line(
    plugin: Path, tmp_path: Path, command_server: CommandServer
) -> None:
    ch = str(command_server.write_command(tmp_path / "ch", "-m", "chop"))

    def run(*arguments: str) -> str:
        return subprocess.run([ch, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    (tmp_path / "parts.toml").write_text(TOML)
    printed = run("transform", "--config", "parts.toml", "--trust", "parts.py")
    assert "LinearParts" in printed
    page = run("info", "formats", "parts", "--plugin", str(plugin))
    assert "denominator of the fraction" in page
