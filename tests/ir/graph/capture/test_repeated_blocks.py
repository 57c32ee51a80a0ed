"""Blocks that a model repeats: only two of each kind are traced, and the graph is that of tracing all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from chop.ir import MaseGraph
from chop.ir.graph.capture import repeated_blocks
from real_models_base import SIZES

pytestmark = pytest.mark.slow

NUM_BLOCKS = 5
traced: list[nn.Module] = []
"""The blocks whose forward torch.export has traced."""


class Block(nn.Module):
    """A layer, functions, a branch on a shape, and an index that `forward` does not read."""

    shift: Tensor

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        if get_proxy_mode() is not None:
            traced.append(self)
        y = self.norm(x) if x.shape[1] > 1 else x
        y = F.dropout(F.relu(self.linear(y)), 0.5, self.training) + self.shift
        return x + y.reshape(x.shape[0], -1).reshape(x.shape)


class Indexed(Block):
    """A block that depends on its index."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + self.index)


class Alternating(Block):
    """A block that depends on whether its index is even."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.even = index % 2 == 0

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if self.even else -y


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


def described(graph: MaseGraph) -> list[str]:
    """Return each node with all that the capture knows of it, but for the calls that led to it."""
    return [
        f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} "
        f"{[(key, str(value)) for key, value in node.meta.items() if key not in ('stack_trace', 'mase')]}"
        for node in graph.fx_graph.nodes
    ]


def captured(model: nn.Module, batch: dict[str, Any], *, whole: bool = False) -> MaseGraph:
    with pytest.MonkeyPatch.context() as patch:
        if whole:
            patch.setattr(repeated_blocks, "_repeated", lambda *_: ())
        return MaseGraph(model.eval(), example_inputs=batch, capture="export")


def check(model: nn.Module, batch: dict[str, Any] | None = None) -> MaseGraph:
    """Return the graph; check that it is that of tracing all blocks, and that the model is left as it was."""
    batch = tokens() if batch is None else batch
    expected = captured(copy.deepcopy(model), batch, whole=True)
    classes = [type(module) for module in model.modules()]
    traced.clear()
    graph = captured(model, batch)
    assert described(graph) == described(expected)
    assert [type(module) for module in model.modules()] == classes
    assert not any("forward" in vars(module) for module in model.modules())
    return graph


def check_results(graph: MaseGraph, model: nn.Module) -> None:
    """Check that graph and model compute the same for all sizes."""
    for length, rows in ((6, 2), (9, 2), (3, 5), (2, 1)):
        with torch.no_grad():
            assert graph.model(**tokens(length, rows)).equal(model(**tokens(length, rows)))


def test_two_blocks_are_traced() -> None:
    model = Net()
    graph = check(model)
    assert traced == [model.blocks[0], model.blocks[1]]
    check_results(graph, model)


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


@pytest.mark.parametrize(("block", "count"), [(Indexed, NUM_BLOCKS), (Alternating, 4)])
def test_blocks_that_depend_on_their_attributes_are_traced(block: type[Block], count: int) -> None:
    model = Net(block)
    graph = check(model)
    assert len(traced) == count
    check_results(graph, model)


def test_blocks_that_store_what_the_model_reads_are_traced() -> None:
    model = Net(Storing, call=lambda block, x: block(x) + block.stored)
    graph = check(model)
    assert len(traced) == NUM_BLOCKS
    check_results(graph, model)


def test_blocks_that_overwrite_their_inputs() -> None:
    model = Net(InPlace)
    check_results(check(model), model)


def test_blocks_whose_results_change_their_shape() -> None:
    def call(block: Block, x: Tensor) -> Tensor:
        y: Tensor = block(x)
        z = y * 2
        y.unsqueeze_(0)
        return z

    model = Net(call=call)
    check_results(check(model), model)


def test_blocks_that_read_what_another_module_stores() -> None:
    class Reading(Block):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + stored["x"]

    def call(block: Block, x: Tensor) -> Tensor:
        stored["x"] = x.abs()
        y: Tensor = block(x)
        return y

    stored: dict[str, Tensor] = {}
    model = Net(Reading, call)
    check_results(check(model), model)


def test_blocks_that_share_weights() -> None:
    model = Net()
    blocks: Any = model.blocks
    for block in blocks[::2]:
        block.linear.weight = blocks[0].linear.weight
    graph = check(model)
    assert len(traced) == 2
    check_results(graph, model)


def test_blocks_of_several_kinds_are_told_apart() -> None:
    model = Net(call=lambda block, x: block(x[:, :, :2].repeat(1, 1, 2) if block.linear.bias is None else x))
    blocks: Any = model.blocks
    blocks[1].linear.bias = blocks[3].linear.bias = None
    graph = check(model)
    check_results(graph, model)


def test_hooks_inside_blocks_run() -> None:
    seen: list[Tensor] = []
    model = Net(call=lambda block, x: block(x) + (seen.pop() if seen else 0))
    blocks: Any = model.blocks
    for block in blocks:
        block.linear.register_forward_hook(lambda _, args, output: seen.append(output.abs()))
    graph = check(model)
    assert len(traced) == NUM_BLOCKS
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


@pytest.mark.parametrize(
    ("model", "config"),
    [
        (transformers.LlamaForCausalLM, transformers.LlamaConfig(**SIZES, num_key_value_heads=2)),
        (transformers.BertModel, transformers.BertConfig(**SIZES)),
        pytest.param(
            transformers.Gemma3ForCausalLM,
            transformers.Gemma3TextConfig(**SIZES, num_key_value_heads=2, head_dim=8, sliding_window=4),
            marks=pytest.mark.slow,  # every sixth layer is of another kind
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_graphs_of_transformers_are_those_of_tracing_all_layers(model: type[nn.Module], config: Any) -> None:
    config.num_hidden_layers = NUM_BLOCKS
    if getattr(config, "layer_types", None):
        config.layer_types = ["sliding_attention", "full_attention"] * (NUM_BLOCKS // 2) + ["full_attention"]
    check(model(config).eval())
