"""Counters of operations on the same models, and why their numbers differ."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.models import ResNet18
from benchmarks.results import Result
from chop.cost import operations
from chop.ir import MaseGraph
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass

UNIT = "x MACs by hand"


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layers(x))


class GroupedConvolutions(nn.Module):
    """A depthwise convolution, and a convolution with four groups."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.grouped = nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.grouped(self.depthwise(x)))


class FunctionalAttention(nn.Module):
    """Four heads of width 8, with `F.scaled_dot_product_attention` between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.projections = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.projections(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        return cast(Tensor, self.out(mixed.transpose(1, 2).flatten(2)))


class LayerAttention(nn.Module):
    """The same as a single layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.attention(x, x, x, need_weights=False)[0])


@dataclass(frozen=True)
class Case:
    """A model, an input, and its MACs counted by hand: those of layers, and those of attention."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    layers: int
    attention: int = 0

    @property
    def macs(self) -> int:
        return self.layers + self.attention


# Two sequences of 10 rows: four projections of 32 x 32 a row; 2 x 4 heads x 10 x 10 scores, each of 8 products
# with a key, and then 8 products with a value.
_PROJECTIONS, _ATTENTION = 20 * 4 * 32 * 32, 800 * (8 + 8)
CASES = (
    Case("plain MLP", Mlp, (7, 16), 7 * (16 * 64 + 64 * 64 + 64 * 10)),
    # 2 x 8 results a position of 9 x 9, of 9 products; 2 x 12 results of 5 x 5, of two channels x 9.
    Case("grouped convolutions", GroupedConvolutions, (2, 8, 9, 9), 2 * 8 * 81 * 9 + 2 * 12 * 25 * 18),
    Case("attention as a function", FunctionalAttention, (2, 10, 32), _PROJECTIONS, _ATTENTION),
    Case("nn.MultiheadAttention", LayerAttention, (2, 10, 32), _PROJECTIONS, _ATTENTION),
    Case(
        "ResNet-18",
        ResNet18,
        (1, 3, 224, 224),
        # The stem; four layers of 56 x 56; in each further stage one layer from half of the channels, three of all
        # channels and the projection of the shortcut; the head.
        112**2 * 64 * 3 * 49
        + 4 * 56**2 * 64 * 64 * 9
        + sum(s**2 * c * (c // 2 * 9 + 3 * c * 9 + c // 2) for s, c in ((28, 128), (14, 256), (7, 512)))
        + 512 * 1000,
    ),
)


def run(quick: bool = False) -> list[Result]:
    """Run every installed counter on every model; `quick` leaves the large model out."""
    return compare_counters(CASES[:-1] if quick else CASES)


def compare_counters(cases: tuple[Case, ...] = CASES) -> list[Result]:
    """Return the count of each counter for each model, relative to the MACs by hand, with the reason."""
    results = []
    for case in cases:
        model, x = case.make().eval(), torch.randn(case.shape)
        for name, (needed, count) in COUNTERS.items():
            if all(find_spec(package) for package in needed):
                with _silence():
                    counted = count(model, x)
                what = f"{case.name}: {name} counts {counted:,}"
                results.append(Result(what, counted / case.macs, math.inf, UNIT, why(counted, case, model)))
    return results


def why(counted: int, case: Case, model: nn.Module) -> str:
    """Return the reason for a count: its unit, whether it includes attention, and what it adds to the MACs."""
    if counted == 0:
        return "nothing: the operations inside the layer are not seen"
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if case.attention and counted == case.shape[0] * parameters:
        return "parameters x batch: the length of sequences is ignored, attention omitted"
    unit = 2 if counted > 1.5 * case.macs else 1
    inside = counted >= unit * case.macs
    said = [f"{('one', 'two')[unit - 1]} per MAC"]
    if case.attention:
        said.append("attention included" if inside else "attention omitted")
    left = counted - unit * (case.macs if inside else case.layers)
    if left:
        said.append(f"{left:,} more for biases, activations, norms or pools")
    return ", ".join(said)


def count_ours(model: nn.Module, x: Tensor) -> int:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}})
    found = [operations(meta, "macs") for meta in graph.annotated_metas()]
    assert None not in found, "an op of these models is unknown"
    return sum(each or 0 for each in found)


def count_fvcore(model: nn.Module, x: Tensor) -> int:
    return int(import_module("fvcore.nn").FlopCountAnalysis(model, x).total())


def count_torch(model: nn.Module, x: Tensor) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(x)
    return int(counter.get_total_flops())


def count_ptflops(model: nn.Module, x: Tensor) -> int:
    macs, _ = import_module("ptflops").get_model_complexity_info(
        model,
        tuple(x.shape),
        input_constructor=lambda _: {"x": x},
        as_strings=False,
        print_per_layer_stat=False,
        backend="pytorch",
    )
    return int(macs)


def count_torchinfo(model: nn.Module, x: Tensor) -> int:
    return int(import_module("torchinfo").summary(model, input_data=x, verbose=0).total_mult_adds)


def count_calflops(model: nn.Module, x: Tensor) -> int:
    operations, _, _ = import_module("calflops").calculate_flops(
        model, kwargs={"x": x}, include_backPropagation=False, print_results=False, output_as_string=False
    )
    return int(operations)


COUNTERS: dict[str, tuple[tuple[str, ...], Callable[[nn.Module, Tensor], int]]] = {
    "ours": ((), count_ours),
    "fvcore": (("fvcore",), count_fvcore),
    "torch's FlopCounterMode": ((), count_torch),
    "ptflops": (("ptflops",), count_ptflops),
    "torchinfo": (("torchinfo",), count_torchinfo),
    "calflops": (("calflops", "transformers", "accelerate"), count_calflops),
}
"""For each counter: the packages that it needs, and a function that counts."""


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress what counters print, log and warn about."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _versions() -> str:
    packages = dict.fromkeys(package for needed, _ in COUNTERS.values() for package in needed)
    return ", ".join(f"{package} {version(package)}" for package in packages if find_spec(package))


SUMMARY = (
    "The count of each counter for one forward run in evaluation mode, relative to the MACs counted by hand: "
    "products of an activation and a weight, or of two activations in attention. Ours is the total of `macs`; "
    "docs/cost.md has conventions that count more. The reasons are derived from the numbers: the unit, whether the "
    "products of attention are included, and the remainder. calflops also needs transformers and accelerate. "
    f"Versions: {_versions()}."
)
