"""Every example of CONTRIBUTING.md passes the contract tests of its kind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

TESTS = Path(__file__).parent
GUIDE = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REGISTERED = re.compile(r'(?:@register_\w+|\bOp)\(\s*"([^"]+)"')


def examples() -> dict[str, dict[str, str]]:
    """Return the code blocks of each section that registers something, by its registered name.

    A `python` block is a module of the package; a `py` block is added to `tests/samples.py`.
    """
    found = {}
    for section in GUIDE.split("\n### ")[1:]:
        blocks = dict(BLOCK.findall(section))
        name = REGISTERED.search(blocks.get("python", ""))
        if name is not None:
            found[name[1]] = blocks
    return found


def write_plugin(folder: Path) -> None:
    """Write a pytest plugin that registers all examples before the contract tests are collected."""
    lines = ["import samples"]
    for number, blocks in enumerate(examples().values()):
        (folder / f"example_{number}.py").write_text(blocks["python"], encoding="utf-8")
        lines.append(f"import example_{number}")
        if "py" in blocks:
            lines.append(f"exec({blocks['py']!r}, vars(samples))")
    (folder / "contributing_examples.py").write_text("\n".join(lines), encoding="utf-8")


def test_the_guide_has_an_example_of_each_kind() -> None:
    assert {"nibble", "cross_map_norm", "count_zeros", "one-layer", "two_rings"} <= set(examples())


@pytest.mark.slow
def test_every_example_passes_the_contract_tests(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "contributing_examples", str(TESTS / "contracts")]
    chosen = " or ".join([*examples(), "for_all_numbers", "add_up"])  # tests of all formats or cost runners at once
    command += ["-k", chosen, "-p", "no:cacheprovider", f"--junitxml={report}"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(TESTS)])}
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    tests = [case.attrib["name"] for case in ElementTree.parse(report).iter("testcase")]
    for name in examples():
        assert any(name in test for test in tests), f"no contract test ran for '{name}'"
