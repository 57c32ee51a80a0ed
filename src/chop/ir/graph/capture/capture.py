"""The choice between torch.fx and torch.export."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from chop.display.launcher import option_name
from chop.ir.graph.capture.errors import CaptureError, DependsOnValuesError, ModelFailsError, is_library
from chop.ir.graph.capture.export import export
from chop.ir.graph.capture.signature import named_inputs
from chop.ir.graph.capture.trace import check_names, trace
from chop.ir.graph.model_state import unchanged
from chop.ir.graph.training_mode import CONSTANT
from chop.registry import closest

logger = logging.getLogger(__name__)

MAX_MODULES_NAMED = 3
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
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(f"'{name}' of {type(model).__name__} has no shape yet: run the model on a batch first")
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
        except ModelFailsError:
            raise  # no other way of capture helps
        except DependsOnValuesError as error:
            reasons = [str(error)]  # nor can torch.fx trace it
        except CaptureError as error:
            reasons.append(str(error))
        else:
            check_names(graph, type(model).__name__)
            _warn_of_own_modes(model)
            for node in graph.nodes:
                if CONSTANT in node.meta:
                    setattr(model, str(node.target), node.meta.pop(CONSTANT))
            return graph, way
    fixing = f"An argument of forward that the code depends on can be fixed with {option_name('cf_args')}"
    advice = (fixing, _MODULE_LEVEL_ADVICE) if inputs else (_EXPORT_ADVICE, _TRACING_ADVICE)
    raise CaptureError(". ".join((*dict.fromkeys(reasons), *((_TRACING_ADVICE,) if capture == "fx" else advice))))


def _warn_of_own_modes(model: nn.Module) -> None:
    """Warn if a model's own `train`, which its graph does not call, keeps modules in evaluation mode."""
    codes = (getattr(type(module).train, "__code__", None) for module in model.modules())
    if all(code is not None and is_library(code.co_filename) for code in codes):
        return
    with unchanged(model):
        model.train()
        kept = [path for path, module in model.named_modules() if not module.training]
    if kept:
        logger.warning(
            "%s keeps %s in evaluation mode when it is trained, which its graph does not: set the mode again after "
            "graph.model.train()",
            *(type(model).__name__, " and ".join(f"'{path}'" for path in kept[:MAX_MODULES_NAMED])),
        )


def _constants(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are fixed: those without tensors, and the defaults of those not given."""
    if not inputs:
        return {}
    parameters = inspect.signature(model.forward).parameters
    defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    values = {name: value for name, value in {**defaults, **inputs}.items() if name in parameters}
    return {
        name: value
        for name, value in values.items()
        if not any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
    }
