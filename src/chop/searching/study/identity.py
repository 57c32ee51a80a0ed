"""The identity of a search: what must be equal for a study to be resumed, or for a machine to join it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from chop.display.launcher import launcher
from chop.runs import Experiment
from chop.runs.folder import run_prefix
from chop.searching.spec import SearchSpec
from chop.searching.study.study import Study
from chop.toml import to_toml_value

IDENTITY = "identity"
"""The note of a study that holds its identity."""
DIFFERENCES = {
    "data": "it was run on different data",
    "weights": "its model has different weights",
    "cf_args": "its model has other values of cf_args",
    "space": "its search space differs",
    "metrics": "its metrics differ",
    "strategy": "its strategy differs",
    "held_back": "only one of the two holds back validation rows, for max_drop",
}
VERSION_KEY, VERSION = "version", 2
"""How the digests below are computed; studies of another version cannot be compared."""


def identity(spec: SearchSpec, experiment: Experiment) -> dict[str, Any]:
    """Return what must be equal for a search to be resumed, or for a machine to join it."""
    weights = hashlib.sha256()
    for key, tensor in experiment.model.state_dict().items():
        weights.update(key.encode())
        weights.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        VERSION_KEY: VERSION,
        "model and data set": run_prefix(spec.config).strip("_"),
        "seed": spec.config.seed,
        "data": experiment.data.splits.sha256,
        "weights": weights.hexdigest(),
        "space": _digest(to_toml_value(spec.config.search.search_space)),
        "metrics": _digest((spec.objectives, spec.evaluation, spec.training, spec.cost_runners)),
        # Limits may differ between machines, or when a search is resumed.
        "strategy": _digest(replace(spec.strategy, n_trials=1, n_jobs=1, timeout=None, save_every_n_trials=0)),
        **({"held_back": True} if spec.holds_rows_back else {}),
        **({"cf_args": _digest(spec.config.cf_args)} if spec.config.cf_args else {}),
    }


def check_identity(study: Study, own_identity: Mapping[str, Any]) -> None:
    """Raise ValueError if the study is a different search; a study without an identity yet passes."""
    stored = study.read_note(IDENTITY)
    if stored is not None and stored.get(VERSION_KEY) != VERSION:
        raise ValueError(
            f"study '{study.name}' was stored by an earlier version of chop and cannot be resumed; start a new one"
        )
    for key in {} if stored is None else stored | own_identity:
        theirs, ours = stored.get(key), own_identity.get(key)
        if theirs != ours:
            difference = DIFFERENCES.get(key, f"its {key} is {theirs!r}, not {ours!r}")
            raise ValueError(
                f"study '{study.name}' is a different search: {difference}; resume it with its own options "
                f"({launcher()} search --config RUN/run.toml --resume), or start a new one"
            )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: object) -> object:
    """Return options by name, so that their order does not matter; other objects as text."""
    if is_dataclass(value):
        return {type(value).__name__: {field.name: getattr(value, field.name) for field in fields(value)}}
    return str(value)
