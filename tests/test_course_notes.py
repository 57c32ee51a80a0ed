"""The code of the course notes runs unchanged, wherever it uses the system and does not list its source."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

NOTES = Path(__file__).parents[2] / "shared" / "seeds"
pytestmark = pytest.mark.skipif(not NOTES.is_dir(), reason="the course notes are not on this machine")


def snippet(note: str, begins: str) -> str:
    """Return the Python block of a note that starts with a line."""
    (path,) = NOTES.glob(f"{note}_*.txt")
    blocks = re.findall(r"^[ ]*```python\n(.*?)^[ ]*```", path.read_text(), re.DOTALL | re.MULTILINE)
    found = [block for block in blocks if textwrap.dedent(block).lstrip().startswith(begins)]
    assert found, f"note {note} has no block that starts with {begins!r}"
    # The notes indent comments differently from code, which would confuse dedent.
    code = [line for line in found[0].splitlines() if not line.lstrip().startswith("#")]
    return textwrap.dedent("\n".join(code))


@pytest.fixture
def names() -> dict[str, Any]:
    """The names that earlier cells of the notebook define."""
    namespace: dict[str, Any] = {}
    exec(SETUP, namespace)
    return namespace


SETUP = """
import torch
from torch import nn
from chop.dataset import MaseDataModule
from chop.ir import MaseGraph
from chop.models import get_model, get_model_info
from chop.passes.graph import *
from chop.passes.graph.transforms import quantize_transform_pass
from chop.passes.graph.utils import get_mase_op
from chop.tools.checkpoint_load import load_model

torch.manual_seed(0)
data_module = MaseDataModule(name="jsc", batch_size=8, model_name="jsc-tiny", num_workers=0)
data_module.prepare_data()
data_module.setup()
model = get_model("jsc-tiny", task="cls", dataset_info=data_module.dataset_info, pretrained=False)
dummy_in = {"x": next(iter(data_module.train_dataloader()))[0]}

def make():
    mg, _ = init_metadata_analysis_pass(MaseGraph(model=model), None)
    return add_common_metadata_analysis_pass(mg, {"dummy_in": dummy_in})[0]

ori_mg, mg = make(), make()
"""


def quantize(names: dict[str, Any], note: str) -> None:
    exec(snippet(note, "pass_args"), names)
    exec("mg, _ = quantize_transform_pass(mg, pass_args)", names)


@pytest.mark.slow
def test_note_000_walks_both_graphs(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    quantize(names, "000")
    exec(snippet("000", "from chop.passes.graph.transforms.quantize.summary"), names)
    exec("my_traversion(ori_mg, mg)", names)
    printed = re.sub(r"\s+", "", capsys.readouterr().out)
    (path,) = NOTES.glob("000_*.txt")
    rows = [re.sub(r"[\s\\]+", "", line) for line in path.read_text().splitlines() if re.match(r"\|\s+\d", line)]
    assert len(rows) == 6
    for row in rows:
        assert row in printed


@pytest.mark.slow
def test_note_001_prints_everything_and_the_precisions(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    quantize(names, "001")
    exec(snippet("001", "for node in mg.fx_graph.nodes:\n    print(node)"), names)
    assert "'type': 'integer', 'precision': [8, 4]" in capsys.readouterr().out
    exec(snippet("001", "for node in mg.fx_graph.nodes:\n    if get_mase_op"), names)
    assert capsys.readouterr().out == "the weights torch type [8, 4]\nthe bias torch type [8, 4]\n"


@pytest.mark.slow
def test_note_001_loads_the_toy_network(names: dict[str, Any], tmp_path: Path) -> None:
    block = snippet("001", "batch_size = 8")
    (path,) = re.findall(r'CHECKPOINT_PATH = "(.*)"', block)
    toy = names["get_model"](
        "jsc-toy", task="cls", dataset_info=names["data_module"].dataset_info, pretrained=False
    )
    checkpoint = tmp_path / "best.ckpt"
    torch.save({"state_dict": {f"model.{k}": v for k, v in toy.state_dict().items()}}, checkpoint)
    exec(block.replace(path, str(checkpoint)), names)  # a path in the student's home folder
    assert sum(p.numel() for p in names["model"].parameters()) == 327


@pytest.mark.slow
@pytest.mark.parametrize(("note", "parameters"), [("001", 11_015), ("004", 1_407)])
def test_networks_of_students_have_the_noted_size(note: str, parameters: int, names: dict[str, Any]) -> None:
    exec(snippet(note, "class Test" if note == "001" else "### test lab1"), names)
    exec(
        "from chop.models import register_model\nregister_model(NAME)(get_test)", {**names, "NAME": f"test-{note}"}
    )
    model = names["get_model"](f"test-{note}", task="cls", dataset_info=names["data_module"].dataset_info)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.slow
def test_note_004_shows_the_linear_node_and_the_outputs(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    quantize(names, "000")
    exec(snippet("004", "### traverse mg"), names)
    begins = "{'mase_type': 'module_related_func', 'mase_op': 'linear', 'args': {'data_in_0': {'shape': [8, 16], "
    printed = capsys.readouterr().out
    assert begins + "'torch_dtype': torch.float32, 'type': 'integer', 'precision': [8, 4], 'value': " in printed
    assert begins + "'torch_dtype': torch.float32, 'type': 'float', 'precision': [32], 'value': " in printed
    exec(snippet("004", "### load same data"), names)
    assert capsys.readouterr().out.count("grad_fn=<ReluBackward0>") == 2


def test_note_004_counts(names: dict[str, Any]) -> None:
    quantize(names, "000")
    exec(snippet("004", "from chop.passes.graph.analysis.flop_estimator.calculator"), names)
    exec(snippet("004", "'''\ncount the number of Bitops"), names)
    for expression, expected in (
        ("count_flops(ori_mg)", 1320),
        ("count_flops(mg)", 680),
        ("count_bitops(ori_mg)", 1205504),
        ("count_bitops(mg)", 575744),
    ):
        assert eval(expression, names)[1] == {"total_flops": expected}
