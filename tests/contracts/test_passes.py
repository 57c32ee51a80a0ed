"""What holds for every registered pass."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from chop import passes
from chop.info.parameters import field_table
from chop.ir import MaseGraph
from chop.passes import ANALYSIS_PASSES, INTERFACE_PASSES, PASSES, TRANSFORM_PASSES
from chop.passes.base import Pass
from chop.passes.graph import quantize_transform_pass, save_mase_graph_interface_pass
from chop.passes.graph import save_node_meta_param_interface_pass as save_metadata
from chop.transforming.pipeline import numbers_in
from samples import LAB_CONFIG, LAB_PASS_ARGS, tiny_graph

SLOW = ("report_synthesis",)
"""Passes that wait for other programs."""
KINDS = {"analysis": ANALYSIS_PASSES, "transform": TRANSFORM_PASSES, "interface": INTERFACE_PASSES}
X, LABELS = torch.randn(8, 16), torch.randint(0, 5, (8,))
DATA = ("dummy_in", "labelled_batches", "input_generator")
"""Fields for data. The tests give the first one that a pass has, even if it has a default."""


@pytest.fixture(scope="module")
def graph() -> MaseGraph:
    """A graph that no test changes."""
    return quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)[0]


def arguments(run_pass: Pass, graph: MaseGraph, folder: Path) -> dict[str, Any]:
    """Return arguments for a pass: one entry per required field, data, and the original graph."""
    values: dict[str, Mapping[str, Any]] = {
        "by": {"by": "type", "linear": {"config": LAB_CONFIG}},
        "dummy_in": {"dummy_in": {"x": X}},
        "formats": {"config": LAB_CONFIG},
        "input_generator": {"input_generator": [{"x": X}]},
        "labelled_batches": {"labelled_batches": [({"x": X}, LABELS)]},
        "load_dir": {"load_dir": str(folder)},
        "node": {"node": "seq_blocks_2"},
        "original": {"original": tiny_graph()},
        "path": {"path": str(folder / "file")},
        "save_dir": {"save_dir": str(folder)},
    }
    own = {field.name: field for field in fields(run_pass.args_class) if field.init}
    data = next((name for name in DATA if name in own), None)
    wanted = [
        name
        for name, field in own.items()
        if name in (data, "original") or (field.default is MISSING and field.default_factory is MISSING)
    ]
    unknown = set(wanted) - set(values)
    assert not unknown, f"add a value of the required field {unknown} to `values`, in {__file__}"
    return {key: value for name in wanted for key, value in values[name].items()}


def state(graph: MaseGraph) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in graph.model.state_dict().items()}


def test_every_pass_of_the_package_is_imported_from_chop_passes_graph() -> None:
    ours = {run_pass.__name__ for run_pass in PASSES.values() if run_pass.__module__.startswith("chop.")}
    assert ours == {name for name in passes.graph.__all__ if name.endswith("_pass")}


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_named_by_its_kind_and_documented_with_each_of_its_arguments(name: str) -> None:
    run_pass = PASSES[name]
    assert run_pass.__name__ == f"{name}_{run_pass.kind}_pass"
    assert [kind for kind, registry in KINDS.items() if name in registry] == [run_pass.kind]
    assert (run_pass.__doc__ or "").partition("\n")[0].endswith((".", ":"))
    assert is_dataclass(run_pass.args_class)
    assert run_pass.args_class.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for field_name, *_, meaning, _ in field_table(run_pass.args_class).rows:
        assert meaning, f"argument '{field_name}' of pass '{name}' has no documentation"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PASSES]
)
def test_every_pass_keeps_names_and_parameters(name: str, graph: MaseGraph, tmp_path: Path) -> None:
    graph = copy.deepcopy(graph)
    save_mase_graph_interface_pass(graph, tmp_path)
    save_metadata(graph, tmp_path)
    given = arguments(PASSES[name], graph, tmp_path)
    keys, names, before = list(given), [node.name for node in graph.fx_graph.nodes], state(graph)
    mode = graph.model.training
    returned, info = PASSES[name](graph, given)
    assert isinstance(info, dict)
    assert list(given) == keys
    assert [node.name for node in returned.fx_graph.nodes] == names
    assert before.keys() <= state(returned).keys()
    if PASSES[name].kind == "analysis":
        assert returned is graph
        assert graph.model.training == mode
    if PASSES[name].keeps_weights:
        assert all(value.equal(before[key]) for key, value in state(graph).items())


@pytest.mark.parametrize("name", PASSES)
def test_a_misspelt_argument_is_reported_with_the_right_name(name: str, graph: MaseGraph, tmp_path: Path) -> None:
    given = arguments(PASSES[name], graph, tmp_path)
    known = [field.name for field in fields(PASSES[name].args_class)]
    key = next((key for key in given if key in known), known[0] if known else None)
    wrong = {**{k: v for k, v in given.items() if k != key}, f"{key}x": given.get(key or "", 1)}
    with pytest.raises((ValueError, LookupError), match=f"'{key}'" if key else "unknown key 'Nonex'"):
        PASSES[name](graph, wrong)


@pytest.mark.parametrize("name", [name for name, run_pass in PASSES.items() if run_pass.compare])
def test_passes_to_compare_have_numbers_before_and_after(name: str, graph: MaseGraph, tmp_path: Path) -> None:
    given = arguments(PASSES[name], graph, tmp_path)
    assert numbers_in(PASSES[name](copy.deepcopy(graph), given)[1])
