"""The choice between torch.fx and torch.export."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from chop.display.launcher import option_name
from chop.ir.graph.capture.errors import CaptureError, ExportError, TraceError
from chop.ir.graph.capture.export import export
from chop.ir.graph.capture.signature import named_inputs
from chop.ir.graph.capture.trace import check_names, trace
from chop.registry import closest

Capture = Literal["auto", "fx", "export"]
CAPTURES: tuple[str, ...] = get_args(Capture)

_TRACING_ADVICE = (
    "Possible solutions: fix the argument that the code depends on with MaseGraph(model, cf_args={'name': value}), "
    "use torch.where, or do not trace into the module: MaseGraph(model, leaf_modules=(Class,))"
)
_EXPORT_ADVICE = "torch.export may capture it: give a batch as MaseGraph(model, example_inputs={'x': tensor})"
_MODULE_LEVEL_ADVICE = (
    "Its layers can be quantised without a graph: quantize_module_transform_pass(model, pass_args), or "
    'ch transform with style = "module" in [transform]'
)


def capture_model(
    model: nn.Module,
    cf_args: Mapping[str, Any] | None,
    leaf_modules: tuple[type[nn.Module], ...],
    example_inputs: Any,
    capture: Capture,
) -> tuple[fx.Graph, str]:
    """Return the graph of a model's forward, and whether it was captured with "fx" or "export".

    Constants of the graph are stored in `model`.
    """
    if capture not in CAPTURES:
        raise ValueError(
            f"capture must be one of {', '.join(CAPTURES)}, got '{capture}'; {closest(capture, CAPTURES)}"
        )
    inputs = {} if example_inputs is None else named_inputs(model, example_inputs)
    fixed = dict(cf_args or {})
    if capture == "export" and not inputs:
        raise ValueError("capture='export' runs the model: give a batch as example_inputs={'x': tensor}")
    ways: dict[str, Callable[[], fx.Graph]] = {}
    if capture != "export":
        ways["fx"] = lambda: trace(model, _constants(model, inputs) | fixed, leaf_modules)
    if capture != "fx" and inputs:
        ways["export"] = lambda: export(model, inputs | fixed, leaf_modules)
    reasons: list[str] = []
    for way, run in ways.items():
        try:
            graph = run()
        except (TraceError, ExportError) as error:
            reasons.append(str(error))
        else:
            check_names(graph, type(model).__name__)
            return graph, way
    with_inputs = f"{_fixing_advice()}. {_MODULE_LEVEL_ADVICE}"
    advice = with_inputs if inputs else f"{_EXPORT_ADVICE}. {_TRACING_ADVICE}"
    raise CaptureError(". ".join((*reasons, _TRACING_ADVICE if capture == "fx" else advice)))


def _fixing_advice() -> str:
    return f"An argument of forward that the code depends on can be fixed with {option_name('cf_args')}"


def _constants(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are fixed: those without tensors, and the defaults of those not given."""
    if not inputs:
        return {}
    parameters = inspect.signature(model.forward).parameters
    defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    values = {name: value for name, value in {**defaults, **inputs}.items() if name in parameters}
    return {name: value for name, value in values.items() if not _has_tensors(value)}


def _has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
