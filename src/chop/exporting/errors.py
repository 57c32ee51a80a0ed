"""Errors about what a target cannot express."""

from __future__ import annotations

from chop.formats import Format


class CannotExportError(ValueError):
    """A node, or a number format of a node, that the target of an export does not have."""

    def __init__(self, node: str, target: str, reason: str) -> None:
        super().__init__(f"node '{node}' cannot be exported to {target}: {reason}")


def refuse_format(node: str, operand: str, number_format: Format, target: str, reason: str) -> CannotExportError:
    """Return the error for the number format of an operand."""
    return CannotExportError(node, target, f"{operand} has the format {number_format}, {reason}")
