"""Which layers and functions of PyTorch are in the op table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import get_overridable_functions

from chop.info.page import Listing
from chop.ops import op_of_function, op_of_module

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict, nn.DataParallel)
_BASES = (nn.Module, nn.Container, nn.RNNBase, nn.RNNCellBase)


class Coverage(NamedTuple):
    """How many of a kind are in the op table."""

    known: int
    unknown: list[str]

    @property
    def total(self) -> int:
        return self.known + len(self.unknown)


def layer_coverage() -> Coverage:
    """Return the coverage of the layers of `torch.nn`, without containers, base classes and lazy layers."""
    classes = [each for each in vars(nn).values() if isinstance(each, type) and issubclass(each, nn.Module)]
    layers = [each for each in classes if not issubclass(each, _CONTAINERS) and each not in _BASES]
    plain = [layer for layer in layers if not issubclass(layer, nn.modules.lazy.LazyModuleMixin)]
    return _coverage({layer.__name__: op_of_module(layer) is not None for layer in plain})


def function_coverage() -> Coverage:
    """Return the coverage of the functions of `torch.nn.functional` that torch.fx can trace."""
    functions = get_overridable_functions()[F]
    return _coverage({function.__name__: op_of_function(function) is not None for function in functions})


def operator_coverage() -> Coverage:
    """Return the coverage of core ATen, the operators that torch defines all others by, without gradients."""
    found: dict[str, bool] = {}
    for name, overload in _core_overloads():
        found[name] = found.get(name, False) or op_of_function(overload) is not None
    return _coverage(found)


def _core_overloads() -> Iterable[tuple[str, Any]]:
    every = [name.split("::") for name in torch._C._dispatch_get_all_op_names()]
    for name in sorted({operator.partition(".")[0] for namespace, operator in every if namespace == "aten"}):
        packet = getattr(torch.ops.aten, name, None)
        for overload in () if packet is None or name.endswith("_backward") else packet.overloads():
            function = getattr(packet, overload)
            if torch.Tag.core in function.tags:
                yield name, function


def _coverage(is_known: dict[str, bool]) -> Coverage:
    return Coverage(sum(is_known.values()), sorted(name for name, known in is_known.items() if not known))


def coverage_table() -> Listing:
    """Return the share of the layers and functions of PyTorch that the op table has."""
    rows = [
        (kind, f"{found.known} of {found.total}", f"{found.known / found.total:.0%}", found.unknown)
        for kind, found in (
            ("layers of `torch.nn`", layer_coverage()),
            ("functions of `torch.nn.functional`", function_coverage()),
            ("operators of core ATen", operator_coverage()),
        )
    ]
    return Listing(("kind", "known", "share", "unknown"), rows)
