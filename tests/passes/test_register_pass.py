"""What the decorator `register_pass` adds to a function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from chop.info import describe
from chop.ir import MaseGraph
from chop.ir.graph.graph_module import MaseGraphModule
from chop.passes import ANALYSIS_PASSES, PASSES, TRANSFORM_PASSES, PassResult, register_pass
from chop.passes.base import read_arguments
from samples import tiny_graph


@dataclass(frozen=True)
class Args:
    factor: int = 2
    original: MaseGraph | None = None


@pytest.fixture(autouse=True)
def remove_registered() -> Iterator[None]:
    """Remove the passes that a test registers."""
    registries = (PASSES, ANALYSIS_PASSES, TRANSFORM_PASSES)
    before = [dict(registry) for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry._entries = entries


def test_declarations_can_be_queried() -> None:
    @register_pass("sample", kind="analysis", compare=True)
    def sample_analysis_pass(graph: MaseGraph, args: Args) -> PassResult:
        """Do nothing."""
        return graph, {"factor": args.factor}

    registered = PASSES["sample"]
    assert registered is sample_analysis_pass is ANALYSIS_PASSES["sample"]
    assert (registered.kind, registered.compare, registered.args_class) == ("analysis", True, Args)
    assert (registered.__name__, registered.__doc__) == ("sample_analysis_pass", "Do nothing.")
    assert registered.args_class is Args
    assert not PASSES["quantize"].compare


def test_arguments_are_read_once_and_mistakes_are_found_without_a_run() -> None:
    @register_pass("sample", kind="analysis")
    def sample_analysis_pass(graph: MaseGraph, args: Args) -> PassResult:
        return graph, {"factor": args.factor}

    graph = tiny_graph()
    for given in (None, {"factor": 2}, Args()):
        assert sample_analysis_pass(graph, given)[1] == {"factor": 2}
    assert read_arguments(sample_analysis_pass, {"factor": 3}) == Args(3)
    with pytest.raises(ValueError, match="sample_analysis_pass: unknown key 'facter'; did you mean 'factor'"):
        read_arguments(sample_analysis_pass, {"facter": 3})


def test_a_pass_over_two_graphs_takes_both_or_one_with_an_argument() -> None:
    @register_pass("sample", kind="analysis", two_graphs=True)
    def sample_analysis_pass(graph: MaseGraph, args: Args) -> PassResult:
        return graph, {"factor": args.factor, "original": args.original}

    before, after = tiny_graph(), tiny_graph()
    expected = (after, {"factor": 3, "original": before})
    assert sample_analysis_pass(before, after, 3) == expected
    assert sample_analysis_pass(before, after, factor=3) == expected
    assert sample_analysis_pass(original=before, graph=after, factor=3) == expected
    assert sample_analysis_pass(after, {"original": before, "factor": 3}) == expected
    assert sample_analysis_pass(graph=after, pass_args={"original": before, "factor": 3}) == expected
    assert sample_analysis_pass(after, Args(3, before)) == expected
    assert sample_analysis_pass(after)[1]["original"] is None


def test_code_is_regenerated_after_a_transform() -> None:
    @register_pass("sample", kind="transform")
    def sample_transform_pass(graph: MaseGraph, args: Args) -> PassResult:
        graph.fx_graph.erase_node(next(node for node in graph.fx_graph.nodes if node.name == "unused"))
        return graph, {}

    graph = tiny_graph()
    (x,) = (node for node in graph.fx_graph.nodes if node.op == "placeholder")
    with graph.fx_graph.inserting_after(x):
        graph.fx_graph.call_method("abs", (x,)).name = "unused"
    graph.model.recompile()
    assert "unused" in graph.model.code
    sample_transform_pass(graph)
    assert "unused" not in graph.model.code


def test_code_is_regenerated_only_if_nodes_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    @register_pass("sample", kind="transform")
    def sample_transform_pass(graph: MaseGraph, args: Args) -> PassResult:
        return graph, {}

    graph, num_generated = tiny_graph(), []
    monkeypatch.setattr(MaseGraphModule, "recompile", lambda self: num_generated.append(1))
    PASSES["quantize"](graph, {"by": "type", "linear": {"config": {"name": "integer"}}})
    assert not num_generated
    node = next(node for node in graph.fx_graph.nodes if node.op == "call_module")
    node.args = (*node.args,)
    sample_transform_pass(graph)  # also changes that were made before the pass
    assert num_generated


def test_a_name_can_be_registered_once() -> None:
    with pytest.raises(ValueError, match="pass 'quantize' is already registered"):

        @register_pass("quantize", kind="analysis")
        def quantize_analysis_pass(graph: MaseGraph, args: Args) -> PassResult:
            return graph, {}


def test_another_signature_is_reported() -> None:
    def mine(graph: MaseGraph, limit: int):  # type: ignore[no-untyped-def]
        return graph, {}

    with pytest.raises(ValueError, match=r"pass 'mine': a pass takes a graph and its arguments") as caught:
        register_pass("mine", kind="analysis")(mine)
    assert str(caught.value).endswith("this one takes (graph, limit)")
    assert "mine" not in PASSES


@pytest.mark.parametrize(("result", "shown"), [(None, "NoneType"), ((1, {}), "(int, dict)"), ({}, "dict")])
def test_another_result_is_reported(result: object, shown: str) -> None:
    def sample_analysis_pass(graph: MaseGraph, args: Args) -> PassResult:
        return cast(PassResult, result)

    run = register_pass("sample", kind="analysis")(sample_analysis_pass)
    with pytest.raises(ValueError, match=r"sample_analysis_pass: a pass returns \(graph, info\)") as caught:
        run(tiny_graph())
    assert str(caught.value).endswith(f", got {shown}")


def test_a_pass_in_the_style_of_the_course_notes_gets_a_copy_of_the_dict() -> None:
    @register_pass("sample", kind="analysis")
    def my_pass(graph, pass_args={}):  # type: ignore[no-untyped-def]  # noqa: B006
        pass_args["seen"] = True
        return graph, dict(pass_args)

    given = {"limit": 3, "linear": {"width": 4}}
    assert my_pass(tiny_graph(), given)[1] == {**given, "seen": True}
    assert given == {"limit": 3, "linear": {"width": 4}}
    assert my_pass(tiny_graph())[1] == {"seen": True}
    with pytest.raises(ValueError, match="my_pass: must be a dict of arguments, got int"):
        my_pass(tiny_graph(), 3)
    assert "Any keys" in describe("passes", "sample")


def test_a_path_instead_of_a_graph_is_answered_with_the_right_call() -> None:
    for name, first in (("load_mase_graph", "None"), ("save_mase_graph", "graph")):
        with pytest.raises(ValueError, match=rf"{name}_interface_pass\({first}, 'folder'\)$"):
            PASSES[name]("folder")
