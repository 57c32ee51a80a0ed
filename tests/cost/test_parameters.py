"""Parameters and their bits, against the model's own and computed by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import Storage, in_formats, parameter_storage, parameters, weight_bits
from chop.formats.block_fp import BlockFP
from chop.formats.integer import Integer
from samples import annotated


class Everything(nn.Module):
    """Parameters of layers, known and unknown, of the model itself, shared, transposed, and one that is unused."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.position = nn.Parameter(torch.randn(3, 4))
        self.recurrent = nn.GRU(4, 4, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.randn(5, 4))
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.unused = nn.Linear(7, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.recurrent(self.embedding(x) + self.position)[0])
        x = F.linear(x, self.weight) @ self.weight
        return self.head(x)  # type: ignore[no-any-return]


def test_every_parameter_that_is_used_counts_once() -> None:
    model = Everything()
    metas = annotated(model, x=torch.tensor([[1, 2, 3]])).annotated_metas()
    used = sum(parameter.numel() for parameter in model.parameters()) - (7 * 7 + 7)
    assert parameter_storage(metas) == Storage(used, 32 * used)
    by_node = {meta.node.name: parameters(meta) for meta in metas if parameters(meta)}
    gru = 3 * 4 * 4 * 2 + 3 * 4 * 2
    expected = {"embedding": 40, "add": 12, "recurrent": gru, "norm": 8, "linear": 20, "matmul": 20, "head": 40}
    assert by_node == expected


def test_bits_are_those_of_the_formats_that_nodes_read_in() -> None:
    metas = annotated(nn.Sequential(nn.Linear(8, 3)), input=torch.randn(2, 8)).annotated_metas()
    in_blocks = BlockFP(width=8, exponent_width=8, block_size=16)
    layer = in_formats(metas[1], {"weight": in_blocks, "bias": Integer(16, 8)})
    assert weight_bits(layer) == 24 * 8 + 3 * 8 + 3 * 16  # each row is a block of 8, with its own exponent
    assert isinstance(weight_bits(layer), int)
    assert parameter_storage([metas[0], layer, metas[2]]) == Storage(27, 264)


def test_a_parameter_in_two_formats_takes_the_bits_of_both() -> None:
    metas = annotated(Everything(), x=torch.tensor([[1, 2, 3]])).annotated_metas()
    changed = [
        in_formats(meta, {"weight": Integer(8, 4)}) if meta.node.name == "linear" else meta for meta in metas
    ]
    before, after = parameter_storage(metas), parameter_storage(changed)
    assert after == Storage(before.elements, before.bits + 20 * 8)
