"""Lengths of sequences in graphs that torch.export captured, and errors for lengths that a graph does not take."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    calibrate_transform_pass,
    init_metadata_analysis_pass,
    load_mase_graph_interface_pass,
    profile_statistics_analysis_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from samples import LAB_CONFIG as INTEGER

pytestmark = pytest.mark.slow

CAPTURED_LENGTH, NUM_POSITIONS = 5, 8


class Tokens(nn.Module):
    """Embeddings of tokens and of at most 8 positions, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.linear = nn.Embedding(16, 4), nn.Linear(4, 4)
        self.positions = nn.Parameter(torch.randn(NUM_POSITIONS, 4))

    def forward(self, input_ids: Tensor) -> Tensor:
        rows, length = input_ids.shape
        if length > NUM_POSITIONS:
            raise ValueError("too long")
        y: Tensor = self.linear(self.tokens(input_ids) + self.positions[:length])
        return y.reshape(rows, length * 4)


class LongOrShort(Tokens):
    """Computes something else for lengths of 4 or less."""

    def forward(self, input_ids: Tensor) -> Tensor:
        y = super().forward(input_ids)
        return y + 1 if input_ids.shape[1] > 4 else y


class OneOrMore(Tokens):
    """Computes something else for one token, as some models do while they generate text."""

    def forward(self, input_ids: Tensor) -> Tensor:
        y = super().forward(input_ids)
        return y + 1 if input_ids.shape[1] > 1 else y


class RowOrRows(Tokens):
    """Computes something else for one row."""

    def forward(self, input_ids: Tensor) -> Tensor:
        y = super().forward(input_ids)
        return y + 1 if input_ids.shape[0] > 1 else y


class Pairs(nn.Module):
    """Takes an even number of vectors only."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(1, (-1, 2)).sum(2) if x.shape[1] % 2 == 0 else x


def ids(length: int, rows: int = 2) -> dict[str, Tensor]:
    return {"input_ids": torch.arange(rows * length).reshape(rows, length) % 16}


def annotated(model: nn.Module) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, example_inputs=ids(CAPTURED_LENGTH)))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": ids(CAPTURED_LENGTH)})
    return add_software_metadata_analysis_pass(graph, None)[0]


@pytest.mark.parametrize("length", [1, 2, 4, CAPTURED_LENGTH, NUM_POSITIONS])
def test_lengths_and_rows_other_than_those_of_the_example(length: int) -> None:
    model = Tokens().eval()
    graph = MaseGraph(model, example_inputs=ids(CAPTURED_LENGTH))
    assert graph.capture == "export"
    for rows in (1, 3):
        assert graph.model(**ids(length, rows)).equal(model(**ids(length, rows)))


def test_vectors_of_any_length() -> None:
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    graph = MaseGraph(model, example_inputs={"src": torch.randn(2, 5, 4)}, capture="export")
    src = torch.randn(3, 7, 4)
    with torch.no_grad():
        assert torch.allclose(graph.model(src), model(src), atol=1e-6)


ACTIVATIONS = {"target_activation_nodes": ["linear"], "activation_statistics": {"summary": {}}, "num_samples": 2}
PASSES_WITH_BATCHES: list[tuple[Any, Callable[[Any], dict[str, Any]]]] = [
    (add_common_metadata_analysis_pass, lambda batch: {"dummy_in": batch}),
    (calibrate_transform_pass, lambda batch: {"input_generator": [batch]}),
    (profile_statistics_analysis_pass, lambda batch: {**ACTIVATIONS, "input_generator": [batch]}),
]
TOO_LONG = (
    r"input 'input_ids' has the shape \[2, 9\].*captured with \[2, 5\].*"
    rf"length must be at least 1 and at most {NUM_POSITIONS}"
)


def test_a_length_out_of_range_is_an_error_in_calls_and_passes() -> None:
    graph, _ = quantize_transform_pass(annotated(Tokens().eval()), {"by": "type", "linear": {"config": INTEGER}})
    with pytest.raises(ValueError, match=TOO_LONG):
        graph.model(**ids(9))
    with pytest.raises(ValueError, match=TOO_LONG):
        graph.model(ids(9)["input_ids"])
    for run, arguments in PASSES_WITH_BATCHES:
        with pytest.raises(ValueError, match=TOO_LONG):
            run(graph, arguments(ids(9)))
        run(graph, arguments(ids(7)))


def test_saved_and_pickled_graphs_keep_their_lengths(tmp_path: Path) -> None:
    model = Tokens().eval()
    graph = annotated(model)
    save_mase_graph_interface_pass(graph, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(None, tmp_path)
    for each in (loaded, pickle.loads(pickle.dumps(graph))):
        assert each.model(**ids(7)).equal(model(**ids(7)))
        with pytest.raises(ValueError, match=TOO_LONG):
            each.model(**ids(9))


def test_a_model_that_depends_on_the_length_is_not_run_with_lengths_that_it_treats_differently() -> None:
    model = LongOrShort().eval()
    graph = MaseGraph(model, example_inputs=ids(CAPTURED_LENGTH))
    assert graph.model(**ids(7)).equal(model(**ids(7)))
    with pytest.raises(ValueError, match=r"\[2, 3\].*length must be at least 5 and at most 8"):
        graph.model(**ids(3))


def test_one_token_is_refused_if_the_model_treats_it_differently() -> None:
    graph = MaseGraph(OneOrMore().eval(), example_inputs=ids(CAPTURED_LENGTH, rows=1))
    assert graph.model(**ids(2)).shape == (2, 8)
    with pytest.raises(ValueError, match=r"\[2, 1\].*length must be at least 2 and at most 8"):
        graph.model(**ids(1))


def test_one_row_that_the_model_treats_differently_is_refused_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = RowOrRows().eval()
    with caplog.at_level("WARNING"):
        graph = MaseGraph(model, example_inputs=ids(CAPTURED_LENGTH))
    assert caplog.messages == ["the graph of RowOrRows computes something else than the model for a single row"]
    check_rows(graph, model, [2, 3, 4], [1], "at least 2")


class PerRow(Tokens):
    """A loop over the rows."""

    def forward(self, input_ids: Tensor) -> Tensor:
        return torch.cat([super(PerRow, self).forward(row[None]) for row in input_ids])


class FewOrMany(Tokens):
    """Computes something else for four rows or more."""

    def forward(self, input_ids: Tensor) -> Tensor:
        y = super().forward(input_ids)
        return y + 1 if input_ids.shape[0] > 3 else y


class EvenRows(Tokens):
    """Computes something else for an odd number of rows."""

    def forward(self, input_ids: Tensor) -> Tensor:
        y = super().forward(input_ids)
        return y + 1 if input_ids.shape[0] % 2 == 0 else y


def check_rows(graph: MaseGraph, model: nn.Module, taken: list[int], refused: list[int], allowed: str) -> None:
    """Check that the graph computes what the model does, or refuses the number of rows."""
    for rows in taken:
        assert graph.model(**ids(CAPTURED_LENGTH, rows)).equal(model(**ids(CAPTURED_LENGTH, rows)))
    for rows in refused:
        with pytest.raises(ValueError, match=rf"its first size must be {allowed}; "):
            graph.model(**ids(CAPTURED_LENGTH, rows))


@pytest.mark.parametrize("captured", [1, 2])
@pytest.mark.parametrize("model", [PerRow, EvenRows])
def test_a_model_for_a_fixed_number_of_rows_is_not_run_with_others(
    model: type[Tokens], captured: int, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    made = model().eval()
    with caplog.at_level("WARNING"):
        graph = MaseGraph(made, example_inputs=ids(CAPTURED_LENGTH, captured))
    assert re.search(r"is fixed to the (rows|shapes) of example_inputs", caplog.text)
    save_mase_graph_interface_pass(init_metadata_analysis_pass(graph)[0], tmp_path)
    for each in (graph, load_mase_graph_interface_pass(None, tmp_path)[0]):
        check_rows(each, made, [captured], [3 - captured, 3, 4], str(captured))


def test_a_model_that_depends_on_the_rows_is_not_run_with_rows_that_it_treats_differently() -> None:
    model = FewOrMany().eval()
    graph = MaseGraph(model, example_inputs=ids(CAPTURED_LENGTH))
    check_rows(graph, model, [1, 2, 3], [4, 5], "at least 1 and at most 3")


def test_conditions_that_are_always_true_leave_the_rows_free() -> None:
    """Of the view, torch.export has the condition that 5 * rows is a multiple of rows."""

    class Masked(Tokens):
        def forward(self, input_ids: Tensor, mask: Tensor | None = None) -> Tensor:
            y = super().forward(input_ids)
            return y if mask is None else y * mask.view(input_ids.shape[0], -1).sum(1, keepdim=True)

    model = Masked().eval()
    graph = MaseGraph(model, example_inputs={**ids(CAPTURED_LENGTH), "mask": torch.ones(2, CAPTURED_LENGTH)})
    for rows in (1, 3):
        given = {**ids(CAPTURED_LENGTH, rows), "mask": torch.rand(rows, CAPTURED_LENGTH)}
        assert graph.model(**given).equal(model(**given))


@pytest.mark.parametrize("loops", [True, False])
def test_a_fixed_number_of_rows_of_a_nested_input_is_a_warning(
    loops: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Nested(nn.Module):
        def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
            y = pair[0] + pair[1]
            return torch.stack([2 * y[i] for i in range(len(y))]) if loops else 2 * y

    pair = (torch.randn(2, 3), torch.randn(2, 3))
    with caplog.at_level("WARNING", "chop"):
        MaseGraph(Nested(), example_inputs={"pair": pair}, capture="export")
    messages = [record.message for record in caplog.records if record.name.startswith("chop")]
    assert messages == ["the graph of Nested is fixed to the rows of example_inputs"] * loops


def test_an_example_that_is_a_part_of_a_tensor_leaves_lengths_and_rows_free() -> None:
    model, part = Tokens().eval(), ids(CAPTURED_LENGTH + 1)["input_ids"][:, :CAPTURED_LENGTH]
    graph = MaseGraph(model, example_inputs=part)
    assert graph.model(**ids(3)).equal(model(**ids(3)))
    check_rows(graph, model, [1, 2, 3], [], "free")


def test_an_input_that_is_the_same_for_all_rows_leaves_their_number_free() -> None:
    class Positions(nn.Module):
        def forward(self, x: Tensor, positions: Tensor, matrix: Tensor) -> Tensor:
            if x.shape[1] != positions.shape[1]:
                raise ValueError("other lengths")
            return (x + positions[:, :, None]) @ matrix

    given = {"x": torch.randn(2, 5, 4), "positions": torch.arange(5)[None], "matrix": torch.randn(4, 4)}
    graph = MaseGraph(Positions(), example_inputs=given)
    for rows in (1, 3):
        x = torch.randn(rows, 5, 4)
        assert graph.model(**given | {"x": x}).equal(Positions()(**given | {"x": x}))


def test_conditions_that_are_not_ranges_fix_the_length() -> None:
    graph = MaseGraph(Pairs(), example_inputs={"x": torch.randn(2, 6, 3)}, capture="export")
    x = torch.randn(4, 6, 3)
    assert graph.model(x).equal(Pairs()(x))
    with pytest.raises(
        ValueError, match=r"'x' has the shape \[2, 7, 3\].*with \[2, 6, 3\], and only its first size"
    ):
        graph.model(torch.randn(2, 7, 3))


def test_an_error_with_an_allowed_length_is_that_of_the_model() -> None:
    graph, wrong = annotated(Tokens().eval()), {"input_ids": torch.full((2, 7), 99)}
    with pytest.raises(IndexError, match="out of range"):
        graph.model(**wrong)
    with pytest.raises(ValueError, match=r"node '\w+' does not run on the given inputs: .*out of range[^;]*$"):
        add_common_metadata_analysis_pass(graph, {"dummy_in": wrong})


def test_other_sizes_are_explained_when_a_run_fails() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    graph = MaseGraph(model, example_inputs={"input": torch.randn(2, 3, 2, 2)}, capture="export")
    larger = torch.randn(2, 3, 4, 4)
    with pytest.raises(ValueError, match=r"\[2, 3, 4, 4\].*captured with \[2, 3, 2, 2\]"):
        graph.model(larger)
    graph, _ = init_metadata_analysis_pass(graph)
    with pytest.raises(ValueError, match=r"node .* does not run.*captured with \[2, 3, 2, 2\]"):
        add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": larger}})


class AttentionOverRows(nn.Module):
    """Attention between the rows, whose memory torch.export knows only if 2 is not a multiple of their number."""

    def forward(self, x: Tensor) -> Tensor:
        y = (x * 1.0).view(1, -1, 2, 4).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(y, y, y).reshape(-1, 8)


def test_rows_are_free_from_the_number_on_for_which_a_divisor_makes_no_difference() -> None:
    model = AttentionOverRows()
    graph = MaseGraph(model, example_inputs=torch.randn(3, 8), capture="export")
    for rows in (3, 4, 9):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(graph.model(x), model(x))
    with pytest.raises(ValueError, match="its first size must be at least 3"):
        graph.model(torch.randn(2, 8))
