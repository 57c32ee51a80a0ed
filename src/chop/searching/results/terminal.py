"""What a search shows in the terminal: its progress, and the results at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from chop.display.figures import KeyFigure
from chop.display.html import shown_in_notebook
from chop.display.numbers import counted, percentage_points
from chop.display.progress import SECONDS_PER_REDRAW, StatusLine, bar, clock
from chop.display.tables import plain_table, wrapped_text
from chop.runs import RunFolder
from chop.searching.evaluation import COST_RUNNERS
from chop.searching.evaluation.objectives import Objectives, known_metrics, measured, pareto_front, quality_figure
from chop.searching.evaluation.transform_config import command_of_best
from chop.searching.results.results import Results
from chop.searching.study.study import Study

MAX_ROWS_SHOWN, MAX_CHOICES_SHOWN = 20, 8
INDENT = len("best: ")
"""Characters before the lines of a sentence after its first one."""
MIN_PAUSE_RATIO = 50
"""The polling interval of the study is at least this many times as long as reading its trials takes."""
NUM_LOG_LINES = 10
"""Lines for the complete search if there is no terminal; more if a line would be older than `MAX_LINE_SECONDS`."""
MAX_LINE_SECONDS = 60.0


class SearchProgress:
    """The status line of a search: its finished trials, the rate, the remaining time and the best so far."""

    def __init__(self, study: Study, objectives: Objectives, every: int, save: Callable[[], object]) -> None:
        """Call `save` each time `every` more trials are finished; 0: never."""
        self._study, self._objectives, self._every, self._save = study, objectives, every, save
        self._line = StatusLine()
        self._front: list[Mapping[str, float]] = []
        self._seen: set[int] = set()
        self._next_poll = 0.0
        self._num_lines, self._last_line_time = 0, time.monotonic()
        self._poll()
        self._num_saved = self._num_at_start = len(self._seen)
        self._start: float | None = None
        self._line.draw(self._text())  # the first trial may take long

    def tick(self) -> None:
        """Update the display, unless that was done a moment ago."""
        now = time.monotonic()
        if now < self._next_poll:
            return
        before = len(self._seen)
        self._poll()
        duration = time.monotonic() - now
        self._next_poll = now + max(SECONDS_PER_REDRAW, MIN_PAUSE_RATIO * duration)
        if self._start is None and len(self._seen) > before:
            self._start, self._num_at_start = now, len(self._seen)
        self._show()
        if self._every and len(self._seen) - self._num_saved >= self._every:
            self._num_saved = len(self._seen)
            self._save()

    def close(self) -> None:
        """Print the final state."""
        before = len(self._seen)
        self._poll()
        if self._line.is_terminal or len(self._seen) > before or self._num_lines < NUM_LOG_LINES:
            self._line.print(self._text())
        self._line.close()

    def _poll(self) -> None:
        finished = [each for each in self._study.records() if each.state in ("complete", "pruned", "failed")]
        new = [each for each in finished if each.number not in self._seen]
        self._seen.update(each.number for each in new)
        complete = [each.metrics for each in new if each.state == "complete"]
        if complete:
            self._front = pareto_front([*self._front, *complete], self._objectives.gains)
        self._num_planned = self._study.num_planned or 0

    def _show(self) -> None:
        if self._line.is_terminal:
            self._line.draw(self._text())
            return
        num_lines = NUM_LOG_LINES * len(self._seen) // max(1, self._num_planned)
        if num_lines > self._num_lines or time.monotonic() - self._last_line_time > MAX_LINE_SECONDS:
            self._num_lines, self._last_line_time = num_lines, time.monotonic()
            self._line.print(self._text())

    def _text(self) -> str:
        done, planned = len(self._seen), self._num_planned
        parts = [f"trials {done}/{planned} {bar(done / max(1, planned))}", self._rate(), self._best()]
        return "  ".join(part for part in parts if part)

    def _best(self) -> str:
        if not self._front:
            return ""
        if self._objectives.sum_direction is not None:
            pick = max if self._objectives.sum_direction == "maximize" else min
            return f"best {pick(self._objectives.values(each)[0] for each in self._front):.4g}"
        first = self._objectives.items[0]
        best = max(self._front, key=first.gain)[first.name]
        return f"best {first.name} {best:.4g}, front {len(self._front)}"

    def _rate(self) -> str:
        num_new = len(self._seen) - self._num_at_start
        if self._start is None or not num_new:
            return ""
        rate = num_new / max(1e-9, time.monotonic() - self._start)
        left = (self._num_planned - len(self._seen)) / rate
        return f"{rate:.3g} trials/s" + (f", {clock(left)} left" if left > 0 else "")


def show_results(
    results: Results, max_drop: float | None, folder: RunFolder, rows: str = "", original: str = "original model"
) -> None:
    """Print the front with the nearest uniform baselines, the importance of choices, and the best trial.

    `rows` says what accuracy was measured on, and `original` what trials are compared with.
    """
    if not results.complete:
        print("\nno trial was completed")
        return
    _show_front(results, max_drop, folder)
    if rows:
        print(f"accuracy and loss are those of {rows}")
    print(wrapped_text(f"\n{original}: {_summary(results, results.original)}", INDENT))
    if baselines := results.pareto_optimal_baselines:
        quality = quality_figure(results.task)
        texts = (f"{each.label} ({quality.column_title} {_cell(quality, each.metrics)})" for each in baselines)
        print(wrapped_text(f"Pareto-optimal uniform baselines: {'; '.join(texts)}", INDENT))
    elif results.baselines:
        print("no uniform baseline is Pareto-optimal: other trials equal or dominate all of them")
    _show_importances(results)
    best, rule = results.best(max_drop)
    if best is not None:
        command = command_of_best(folder, best.number, best.metrics)
        use = (
            f"to train it again: {command}"
            if "epochs" in best.metrics
            else f"ready for ch transform: {folder.best_config}"
        )
        print(wrapped_text(f"\nbest: trial {best.number}, {_summary(results, best.metrics)}", INDENT))
        print(wrapped_text(f"{' ' * INDENT}{rule}; {use}", INDENT))
    if results.choice is not None:
        print(f"\n{results.choice.text}")


def _show_front(results: Results, max_drop: float | None, folder: RunFolder) -> None:
    columns, within, baselines = _columns(results), results.within(max_drop), results.baselines_outside_the_space
    if within and max_drop is not None:  # the others are folded away
        baselines = [each for each in baselines if results.keeps(each.metrics, max_drop)]
    within = within or results.front
    rows = [
        (
            record.number,
            *(record.params.get(f"{part}/{name}", "") for part, name in results.options),
            *(_cell(each, record.metrics) for each in columns),
            *_nearest_baseline(results, record.metrics),
        )
        for record in within[:MAX_ROWS_SHOWN]
    ]
    rows += [
        (
            "-",
            *(baseline.configuration.get(part, {}).get(name, "") for part, name in results.options),
            *(_cell(each, baseline.metrics) for each in columns),
            *(baseline.label, "", ""),
        )
        for baseline in baselines
    ]
    cost_title = known_metrics()[results.cost.name].column_title
    quality = quality_figure(results.task).column_title
    options = [name for _, name in results.options]
    titles = [each.column_title for each in columns]
    headers = ("trial", *options, *titles, "nearest uniform", quality, cost_title)
    align = ("right",) * (1 + len(options) + len(columns)) + ("left", "right", "right")
    print(f"\nPareto front: {len(results.front)} of {counted(len(results.complete), 'trial')}")
    if not shown_in_notebook(headers, rows):
        print(plain_table(headers, rows, align))
    if baselines:
        print("-: Pareto-optimal uniform baselines that are not in the search space")
    num_others = len(results.front) - len(within)
    if len(within) > MAX_ROWS_SHOWN:
        print(f"... and {len(within) - MAX_ROWS_SHOWN} more in {folder.front_table}")
    if num_others and max_drop is not None:
        loss = f"a loss of more than {percentage_points(max_drop)}"
        print(f"not shown: {counted(num_others, 'trial')} of the front with {loss}, in {folder.front_table}")


def _columns(results: Results) -> list[KeyFigure]:
    """Return the metrics to show: the first ones of each runner, and the objectives of the search."""
    runners = [runner for runner in COST_RUNNERS.values() if runner.is_default]
    costs = [cost for runner in runners for cost in runner.metrics[: runner.num_shown]]
    objectives = [known_metrics()[each.name] for each in results.objectives.items]
    quality = quality_figure(results.task)
    shown = (quality if each.name == "accuracy" else each for each in (quality, *costs, *objectives))
    return list(dict.fromkeys(shown))


def _cell(figure: KeyFigure, metrics: Mapping[str, float]) -> str:
    """Return a metric as text; empty for a trial of an earlier version, which did not measure it."""
    value = measured(figure, metrics)
    return "" if value is None else figure.column_text(value)


def _nearest_baseline(results: Results, metrics: Mapping[str, float]) -> tuple[str, str, str]:
    baseline = results.nearest_baseline(metrics)
    if baseline is None:
        return "", "", ""
    figures = (quality_figure(results.task), known_metrics()[results.cost.name])
    quality, cost = (_cell(each, baseline.metrics) for each in figures)
    return baseline.label, quality, cost


def _show_importances(results: Results) -> None:
    found = results.importances_of_shown_metrics()
    for reason in found.values():
        if isinstance(reason, str):
            print(wrapped_text(f"\n{reason}"))
            return
    shares = [each for each in found.values() if isinstance(each, dict)]
    choices = sorted(shares[0], key=lambda choice: -sum(each[choice] for each in shares))
    rows = [(choice, *(f"{each[choice]:.0%}" for each in shares)) for choice in choices[:MAX_CHOICES_SHOWN]]
    title = "most important choices, by their contribution to the difference between the best trials and the others"
    print("\n" + wrapped_text(title))
    print(plain_table(("choice", *found), rows, ("left", *("right",) * len(found))))


def _summary(results: Results, metrics: Mapping[str, float]) -> str:
    texts = ((each.column_title, _cell(each, metrics)) for each in _columns(results))
    return ", ".join(f"{title} {text}" for title, text in texts if text)
