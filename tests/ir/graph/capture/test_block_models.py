"""Models that repeat a block: with state, shared weights and layers, hooks, and functions that follow the mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from chop.ir import MaseGraph
from real_models_base import SIZES

pytestmark = pytest.mark.slow


NUM_BLOCKS = 5


class Block(nn.Module):
    """A layer, functions, a branch on a shape, and an index that `forward` does not read."""

    shift: Tensor

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x) if x.shape[1] > 1 else x
        y = F.dropout(F.relu(self.linear(y)), 0.5, self.training) + self.shift
        return x + y.reshape(x.shape[0], -1).reshape(x.shape)


class InPlace(Block):
    """A block that overwrites its input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mul_(2)).add_(1)


class Storing(Block):
    """A block that stores a result, which the model reads."""

    stored: Tensor

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.stored = y.abs()
        return y


class Net(nn.Module):
    """Blocks one after the other, with an output head."""

    def __init__(self, block: type[Block] = Block, call: Callable[[Any, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 4)
        self.blocks = nn.ModuleList(block(i) for i in range(NUM_BLOCKS))
        self.head = nn.Linear(4, 3)
        self.call = call

    def forward(self, input_ids: Tensor) -> Tensor:
        if input_ids.shape[-1] == 0:  # torch.fx cannot trace it
            raise ValueError("no tokens")
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x) if self.call is None else self.call(block, x)
        y: Tensor = self.head(x)
        return y


def tokens(length: int = 6, rows: int = 2) -> dict[str, Tensor]:
    return {"input_ids": torch.arange(rows * length).reshape(rows, length) % 16}


def captured(model: nn.Module, batch: dict[str, Any]) -> MaseGraph:
    return MaseGraph(model.eval(), example_inputs=batch, capture="export")


def check(model: nn.Module) -> MaseGraph:
    """Return the graph; check that the model is left as it was."""
    classes = [type(module) for module in model.modules()]
    graph = captured(model, tokens())
    assert [type(module) for module in model.modules()] == classes
    assert not any("forward" in vars(module) for module in model.modules())
    return graph


def check_results(graph: MaseGraph, model: nn.Module) -> None:
    """Check that graph and model compute the same for all sizes."""
    for length, rows in ((6, 2), (9, 2), (3, 5), (2, 1)):
        with torch.no_grad():
            assert graph.model(**tokens(length, rows)).equal(model(**tokens(length, rows)))


def test_functions_in_all_blocks_follow_the_mode() -> None:
    model = Net()
    graph = check(model)
    for training in (True, False):
        model.train(training)
        graph.model.train(training)
        torch.manual_seed(0)
        expected = model(**tokens())
        torch.manual_seed(0)
        assert graph.model(**tokens()).equal(expected)


def test_blocks_that_store_what_the_model_reads() -> None:
    model = Net(Storing, call=lambda block, x: block(x) + block.stored)
    graph = check(model)
    check_results(graph, model)


def test_blocks_that_overwrite_their_inputs() -> None:
    model = Net(InPlace)
    check_results(check(model), model)


def test_blocks_that_share_weights() -> None:
    model = Net()
    blocks: Any = model.blocks
    for block in blocks[::2]:
        block.linear.weight = blocks[0].linear.weight
    graph = check(model)
    check_results(graph, model)


def test_blocks_that_share_a_module_call_their_layers_at_their_own_paths() -> None:
    model, activation = Net(call=lambda block, x: block.activation(block(x))), nn.GELU()
    for block in model.blocks:
        block.activation = activation
    graph = check(model)
    called = [str(node.target) for node in graph.fx_graph.nodes if node.op == "call_module"]
    assert [name for name in called if name.endswith("linear")] == [f"blocks.{i}.linear" for i in range(NUM_BLOCKS)]
    check_results(graph, model)


def test_hooks_inside_blocks_run() -> None:
    seen: list[Tensor] = []
    model = Net(call=lambda block, x: block(x) + (seen.pop() if seen else 0))
    blocks: Any = model.blocks
    for block in blocks:
        block.linear.register_forward_hook(lambda _, args, output: seen.append(output.abs()))
    graph = check(model)
    check_results(graph, model)


def test_outputs_of_all_blocks_that_transformers_collects_with_hooks() -> None:
    """It adds the hooks while the model runs."""
    config = transformers.BertConfig(
        **(SIZES | {"num_hidden_layers": NUM_BLOCKS}), attn_implementation="eager", output_hidden_states=True
    )
    config.output_attentions = True
    model = transformers.BertModel(config).eval()
    graph = captured(copy.deepcopy(model), tokens())
    with torch.no_grad():
        expected, found = model(**tokens()), graph.model(**tokens())
    for name in ("attentions", "hidden_states"):
        assert len(found[name]) == len(expected[name]) >= NUM_BLOCKS
        assert all(map(torch.equal, found[name], expected[name]))
