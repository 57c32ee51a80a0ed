"""What a user sees at the end of a search."""

from __future__ import annotations

from collections.abc import Mapping

from tabulate import tabulate

from chop.display.terminal import launcher
from chop.runs import RunFolder
from chop.searching.results.results import Baseline, Results
from chop.searching.study.study import Record

MOST_ROWS, MOST_CHOICES = 20, 8
COLUMNS = {
    "accuracy": ("accuracy", ".4f"),
    "average_bitwidth": ("bits", ".2f"),
    "bitops": ("BitOPs", ",.0f"),
    "weight_bits": ("memory", ",.0f"),
}
"""Metrics that are always shown, each with its title and its format; memory is that of all weights, in bits."""


def show_results(results: Results, max_drop: float | None, folder: RunFolder) -> None:
    """Prints the front with the uniform choice of like cost beside each, what matters, and the best trial."""
    if not results.complete:
        print("\nno trial was measured to the end")
        return
    _show_front(results, folder)
    print(f"\nas it was: {_text(results, results.plain)}")
    if results.unbeaten:
        told = (f"{each.label} (accuracy {each.metrics['accuracy']:.4f})" for each in results.unbeaten)
        print(f"uniform choices that no other trial equals or beats: {'; '.join(told)}")
    elif results.baselines:
        print("every uniform choice is equalled or beaten by another trial")
    _show_importances(results)
    _show_best(results, max_drop, folder)


def _show_front(results: Results, folder: RunFolder) -> None:
    columns = _columns(results)
    rows = [
        (record.number, *_numbers(columns, record.metrics), *_beside(results, record.metrics))
        for record in results.front[:MOST_ROWS]
    ]
    beside = ("uniform of like cost", "its accuracy", f"its {columns.get(results.cost.name, ('cost',))[0]}")
    headers = ("trial", *(title for title, _ in columns.values()), *beside)
    align = ("right",) * (1 + len(columns)) + ("left", "right", "right")
    print(f"\nfront: {len(results.front)} of {len(results.complete)} trials, which no other beats")
    print(tabulate(rows, headers, disable_numparse=True, colalign=align))
    if len(results.front) > MOST_ROWS:
        print(f"... and {len(results.front) - MOST_ROWS} more, in {folder.front_table}")


def _columns(results: Results) -> dict[str, tuple[str, str]]:
    """The metrics that are always shown, and those that the search looks at."""
    others = {each.name: (each.name, ".6g") for each in results.objectives.each if each.name not in COLUMNS}
    return {**COLUMNS, **others}


def _beside(results: Results, metrics: Mapping[str, float]) -> tuple[str, str, str]:
    uniform: Baseline | None = results.beside(metrics)
    if uniform is None:
        return "", "", ""
    name = results.cost.name
    cost = format(uniform.metrics[name], COLUMNS.get(name, ("", ".6g"))[1])
    return uniform.label, format(uniform.metrics["accuracy"], ".4f"), cost


def _show_importances(results: Results) -> None:
    found = {name: results.importances(name) for name in ("accuracy", results.cost.name)}
    for why in found.values():
        if isinstance(why, str):
            print(f"\n{why}")
            return
    shares = [each for each in found.values() if isinstance(each, dict)]
    choices = sorted(shares[0], key=lambda choice: -sum(each[choice] for each in shares))
    rows = [(choice, *(f"{each[choice]:.0%}" for each in shares)) for choice in choices[:MOST_CHOICES]]
    print("\nchoices that matter most, and their share in what sets the best apart")
    print(tabulate(rows, ("choice", *found), disable_numparse=True, colalign=("left", *("right",) * len(found))))


def _show_best(results: Results, max_drop: float | None, folder: RunFolder) -> None:
    best = results.best(max_drop)
    if best is not None:
        print(f"\nbest: trial {best.number}, {_text(results, best.metrics)}")
        print(f"      {results.rule(max_drop)}; {_how_to_use(best, folder)}")


def _how_to_use(best: Record, folder: RunFolder) -> str:
    if "epochs" in best.metrics:  # its weights were trained, which ch transform does not do
        return f"{launcher()} search --config {folder.config} --apply {best.number} trains it again"
    return f"ready for ch transform: {folder.best_config}"


def _numbers(columns: Mapping[str, tuple[str, str]], metrics: Mapping[str, float]) -> list[str]:
    return [format(metrics[name], how) for name, (_, how) in columns.items()]


def _text(results: Results, metrics: Mapping[str, float]) -> str:
    columns = _columns(results)
    numbers = zip((title for title, _ in columns.values()), _numbers(columns, metrics), strict=True)
    return ", ".join(f"{title} {number}" for title, number in numbers)
