"""`chop.compare` and `chop.layers`: tables of quantised copies beside the original."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import chop
from chop.display.tables import Measured, Table, value_of
from quantizing.models import Decides, SkipCNN, mlp, rows


class Chooses(nn.Module):
    """Two classes by two inputs; the second weight is lost in INT4, because its step is 7 / 7."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2, bias=False)
        self.layer.weight.data = torch.tensor([[7.0, 0.4], [7.0, 0.0]])

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x)
        return scores


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows by the name of the column, without what is not known."""
    named = (zip(table.columns, row, strict=True) for row in table.rows)
    return [{name: value for name, value in row if value is not None} for row in named]


def test_a_table_has_accuracy_loss_error_and_bits_worked_out_by_hand() -> None:
    batch = (torch.tensor([[0.0, 1.0], [0.0, -1.0]]), torch.tensor([0, 1]))
    table = chop.compare(Chooses(), ["w4a16", "w8a16"], [batch])
    unchanged, int4, int8 = rows_of(table)
    # scores (0.4, 0) for class 0, (-0.4, 0) for class 1; in INT4 all are 0, and the first class wins
    assert unchanged["format"] == "unchanged"
    assert unchanged["accuracy"] == Measured(1.0, 0.0)
    assert unchanged["loss"] == pytest.approx(math.log(1 + math.exp(-0.4)))
    assert unchanged["quantized_weight_bits"] == 32.0
    assert (int4["format"], int4["accuracy_change"]) == ("w4a16", -0.5)
    assert int4["accuracy"] == Measured(0.5, math.sqrt(0.25 / 2))
    assert int4["loss"] == pytest.approx(math.log(2))
    assert int4["output_sqnr_db"] == pytest.approx(0.0)  # the error is as large as the signal
    assert int4["quantized_weight_bits"] == 4 + 32 / 2  # a float scale for two weights
    step = 7 / 127
    error = abs(round(0.4 / step) * step - 0.4)
    assert int8["output_sqnr_db"] == pytest.approx(20 * math.log10(0.4 / error), rel=1e-4)


def test_a_table_prints_itself_in_terminals_and_notebooks() -> None:
    table = chop.compare(mlp(), ["int8", "nvfp4(block_size=8)"], rows())
    header, _, *lines = str(table).splitlines()
    assert [line.split()[1] for line in lines] == ["unchanged", "int8", "nvfp4(block_size=8)"]
    assert "<td>nvfp4(block_size=8)</td>" in table._repr_html_()
    for title in ("Accuracy (%)", "Change in accuracy", "Output SQNR (dB)", "Bits per weight"):
        assert title in header


def test_without_labels_a_table_has_the_error_of_the_output_only() -> None:
    unchanged, int8 = rows_of(chop.compare(mlp(), "int8", [x for x, _ in rows()]))
    assert list(int8) == ["format", "output_sqnr_db", "quantized_weight_bits"]
    assert list(unchanged) == ["format", "quantized_weight_bits"]


def test_both_styles_have_the_same_rows() -> None:
    model = SkipCNN().eval()
    images = [(torch.randn(4, 1, 6, 6), torch.tensor([0, 1, 2, 3])) for _ in range(2)]
    by_graph = rows_of(chop.compare(model, ["int8", "mxfp4"], images))
    original = model.forward
    model.forward = lambda images: original(images) if images.sum() < math.inf else images  # type: ignore
    by_layer = rows_of(chop.compare(model, ["int8", "mxfp4"], images))
    for one, other in zip(by_graph, by_layer, strict=True):
        assert one.keys() == other.keys()
        assert all(value_of(one[key]) == pytest.approx(value_of(other[key])) for key in one if key != "format")


def test_accuracy_of_a_language_model_is_that_of_the_next_token() -> None:
    class Repeats(nn.Module):
        """Always predicts the token it sees."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 4)
            self.table.weight.data = 50 * torch.eye(4)
            self.head = nn.Linear(4, 4, bias=False)
            self.head.weight.data = torch.eye(4)

        def forward(self, input_ids: Tensor) -> Tensor:
            scores: Tensor = self.head(self.table(input_ids))
            return scores

    tokens = torch.tensor([[1, 1, 2, 2, -100]])  # three pairs are scored, two are repetitions
    batch = {"input_ids": tokens.clamp(min=0), "labels": tokens}
    unchanged, int8 = rows_of(chop.compare(Repeats(), ["int8"], batch))
    assert unchanged["accuracy"] == int8["accuracy"] == pytest.approx(2 / 3)
    assert unchanged["perplexity"] == pytest.approx(math.exp(unchanged["loss"]))


def test_layers_lists_the_error_of_each_quantised_layer_and_of_the_output() -> None:
    class TwoLayers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)
            self.a.weight.data = torch.tensor([[7.0, 0.4], [0.0, 7.0]])  # 0.4 becomes 0
            self.b.weight.data = torch.tensor([[1.0, 1.0]])

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.b(self.a(x).relu()).exp()
            return y

    model, x = TwoLayers(), torch.tensor([[0.0, 1.0]])
    found = rows_of(chop.layers(chop.quantize(model, "w4a16", x), model, x))
    assert [row["node"] for row in found] == ["a", "b", "exp"]
    assert found[0]["weight"] == "integer(4, scale=float, granularity=channel)"
    assert found[0]["max_error"] == pytest.approx(0.4)
    assert found[0]["sqnr_db"] == pytest.approx(10 * math.log10((0.4**2 + 49) / 0.4**2))
    assert found[2]["max_error"] == pytest.approx(math.exp(7.4) - math.exp(7.0))


def test_layers_of_a_model_without_a_graph_are_measured_by_path() -> None:
    model, data = Decides(), rows(2, 4)
    quantized = chop.quantize(model, "int8", data, style="module")
    table = chop.layers(quantized, model, data)
    assert table.column("layer") == ["a", "b"]
    assert all(30 < sqnr_db < 70 for sqnr_db in table.column("sqnr_db"))
    assert not any(module._forward_hooks for module in (*model.modules(), *quantized.modules()))
