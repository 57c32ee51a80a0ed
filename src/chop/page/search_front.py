"""What a search found, as its log tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chop.options import read_options


@dataclass(frozen=True)
class Metric:
    direction: Literal["maximize", "minimize"]


@dataclass(frozen=True)
class Trial:
    """One configuration that was tried."""

    number: int
    state: str
    metrics: Mapping[str, float]
    front: bool = False
    """Whether no other trial is better in everything."""
    baseline: str | None = None
    """The name of a uniform choice, which was no proposal of the search."""
    toml: str | None = None


def search_of(log: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The study, its metrics, those of the model without formats, and the trials that ended well."""
    if log is None:
        return None
    for key, kind in (("study", str), ("metrics", Mapping), ("trials", list)):
        if not isinstance(log.get(key), kind):
            raise ValueError(f"the log of the search is damaged: it has no '{key}'")
    metrics = {name: asdict(_read(Metric, given, f"metric '{name}'")) for name, given in log["metrics"].items()}
    trials = [_read(Trial, given, f"trial {number}") for number, given in enumerate(log["trials"])]
    complete = [asdict(trial) for trial in trials if trial.state == "complete"]
    plain = log.get("plain") if isinstance(log.get("plain"), Mapping) else {}
    return {"study": log["study"], "metrics": metrics, "plain": plain, "trials": complete}


def _read(kind: Any, given: Any, where: str) -> Any:
    if not isinstance(given, Mapping):
        raise ValueError(f"the log of the search is damaged: {where} is no table")
    known = {key: given[key] for key in kind.__dataclass_fields__ if key in given}
    return read_options(kind, known, f"the log of the search is damaged: {where}")
