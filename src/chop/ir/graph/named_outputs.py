"""Outputs with names, for graphs that are loaded without the class of the model's outputs."""

from __future__ import annotations

from typing import Any


class NamedOutputs(dict[str, Any]):
    """The outputs of a model by name, also as attributes: `outputs["logits"]` or `outputs.logits`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the model has no output '{name}'; it has {', '.join(self)}") from None
