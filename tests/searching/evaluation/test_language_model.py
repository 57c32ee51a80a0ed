"""A search on a language model counts tokens, and needs no captured graph of transformers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from chop.searching.evaluation.evaluator import Evaluator


class Bigrams(nn.Module):
    """Scores of the next token from the present one."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Embedding(4, 4)
        with torch.no_grad():
            self.scores.weight.copy_(math.log(3) * torch.eye(4))  # probability 1/2 of the same token, 1/6 of others

    def forward(self, input_ids: Tensor) -> Tensor:
        scores: Tensor = self.scores(input_ids)
        return scores


def test_loss_and_accuracy_are_per_scored_token() -> None:
    rows = Rows(torch.tensor([[0, 0, 1], [2, 3, 3]]), torch.tensor([[0, 1, -100], [3, 3, -100]]))
    graph, _ = init_metadata_analysis_pass(MaseGraph(Bigrams()))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input_ids": rows.features}})
    for num_batches in (1, 2):
        found = Evaluator(graph, "input_ids", rows, num_batches=num_batches).evaluate({})
        assert found.loss == pytest.approx((2 * math.log(2) + 2 * math.log(6)) / 4)
        assert (found.accuracy, found.num_rows) == (0.5, 2)
