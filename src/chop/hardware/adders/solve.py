"""The adder graph of a matrix: from the cache on disk, from alkaid, or from canonical signed digits."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path

import numpy as np

from chop.files import CorruptFileError, read_json, write_json
from chop.hardware.adders import alkaid_solver
from chop.hardware.adders.adder_graph import AdderGraph, Range
from chop.hardware.adders.csd import solve_csd
from chop.hardware.program.signal import IntArray

logger = logging.getLogger(__name__)
MAX_EXACT = 2**24
"""Integers above this lose digits in the float32 matrix that alkaid takes."""


def solve(matrix: IntArray, ranges: list[Range], use_alkaid: bool = True) -> AdderGraph:
    """Return adders for a matrix [outputs, inputs] whose inputs have these ranges."""
    if not use_alkaid or not alkaid_solver.is_installed() or abs(matrix).max(initial=0) >= MAX_EXACT:
        return solve_csd(matrix)
    matrix = np.where([low == high == 0 for low, high in ranges], 0, matrix)  # the solver expects inputs that vary
    ranges = [(min(low, 0), max(high, 0)) for low, high in ranges]
    key = json.dumps(["alkaid", alkaid_solver.solver_version(), matrix.tolist(), ranges])
    path = _cache() / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    if path.is_file():
        try:
            return AdderGraph.from_json(read_json(path))
        except (CorruptFileError, KeyError, TypeError) as error:
            logger.warning("%s is corrupt and will be replaced: %s", path, error)
    graph = alkaid_solver.solve_alkaid(matrix, ranges)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, graph.to_json())
    return graph


def _cache() -> Path:
    """Return the folder of solutions."""
    root = os.environ.get("CHOP_CACHE") or Path.home() / ".cache" / "chop"
    return Path(root) / "adders"
