"""Fingerprints of nodes with large parameters, of which a checksum covers samples only."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from chop.statistics.fingerprint import NUM_PARTS, PART_SIZE, fingerprints


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(601, 599)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y


def test_every_step_of_a_training_changes_the_checksum_of_a_large_weight() -> None:
    model = Net()
    assert model.fc.weight.numel() > 4 * NUM_PARTS * PART_SIZE
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(2, 601)}})
    before = fingerprints(graph.annotated_metas())["fc"]
    assert fingerprints(graph.annotated_metas())["fc"] == before
    model(torch.randn(2, 601)).square().mean().backward()
    torch.optim.SGD([model.fc.weight], lr=1e-4).step()
    after = fingerprints(graph.annotated_metas())["fc"]
    assert after.kind == before.kind == "linear, weight [599, 601], bias [599]"
    assert after.weights != before.weights
