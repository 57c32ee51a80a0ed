"""The circuit of a model for the page, from the manifest that `ch emit` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AREA = ("lut", "ff", "dsp")


def describe_circuit(manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return timing and area of the circuit and of its parts; None without a circuit."""
    if manifest is None:
        return None
    try:
        return _described(manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the manifest of the circuit is corrupt: {type(error).__name__}: {error}") from error


def _described(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "latency": int(manifest["latency"]),
        "interval": int(manifest["interval"]),
        **{name: int(manifest["estimate"][name]) for name in AREA},
        "units": [
            {
                "node": " + ".join(map(str, unit["nodes"])),
                "strategy": str(unit["strategy"]),
                **{name: int(unit["estimate"][name]) for name in AREA},
                **{name: int(unit[name]) for name in ("start", "latency", "interval")},
            }
            for unit in manifest["units"]
        ],
    }
