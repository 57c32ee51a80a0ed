"""The table, the plot and the best setting of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chop.config import SweepConfig, TransformConfig, common_options
from chop.config.settings import write_options
from chop.display.figures import figure
from chop.display.html import shown_in_notebook
from chop.display.numbers import counted, memory, percentage_points, table_number
from chop.display.tables import plain_table, write_table
from chop.files import write_text
from chop.runs import RunFolder
from chop.runs.folder import with_absolute_paths
from chop.sweeping.settings import Setting
from chop.transforming.pipeline import Passes

FLOAT_BITS = 32.0
SCALES_NOTE = (
    "Bits per weight and per activation include shared scales; rows shorter than a block have more of them."
)
QUANTIZED_NOTE = (
    "The model was quantised before the sweep: what the sweep does not quantise keeps those formats in all rows."
)
COSTS = ("quantized_weight_bits", "quantized_activation_bits")


@dataclass(frozen=True)
class Row:
    """What was measured in one setting; without one, of the model as it is."""

    setting: Setting | None
    metrics: Mapping[str, float]
    """What the task measures on test rows, the most important first: accuracy and loss, or perplexity, ..."""
    costs: Mapping[str, float]
    """By the name of a key figure, with bit operations per sample."""
    choice: Mapping[str, float]
    """The accuracy on the rows by which the best setting is chosen; those are not test rows."""
    is_quantized: bool = False
    """Whether the model had number formats before."""

    @property
    def accuracy(self) -> float:
        """The accuracy on test rows."""
        return self.metrics["accuracy"]

    @property
    def label(self) -> str:
        unchanged = "unchanged (quantised)" if self.is_quantized else "unchanged"
        return unchanged if self.setting is None else self.setting.label

    @property
    def bits(self) -> float:
        """Bits per element, with its share of what a block has in common; of a quantised model, per weight."""
        if self.setting is None:
            return self.costs["quantized_weight_bits"] if self.is_quantized else FLOAT_BITS
        return self.setting.number_format.bits

    def cells(self, *, exact: bool = False) -> dict[str, str]:
        """Return the row of the table by the title of the column; with `exact`, as it is written to files."""
        cells = {"format": self.label, "bits": "" if self.setting is None else f"{self.bits:g}"}
        measured = [*self.choice.items(), *list(self.metrics.items())[:2]]
        shown = [*measured, *((name, self.costs[name]) for name in COSTS)]
        cells |= {figure(name).column_title: figure(name).column_text(value) for name, value in shown}
        bitops, weight_bits = self.costs["bitops"], self.costs["weight_bits"]
        if exact:
            return cells | {"BitOPs": f"{bitops:.12g}", "weight memory in bits": f"{weight_bits:.0f}"}
        return cells | {"BitOPs": table_number(round(bitops)), "weight memory": memory(weight_bits)}


@dataclass(frozen=True)
class SweepResults:
    """All settings of a sweep, and the model as it is."""

    baseline: Row
    rows: Sequence[Row]
    title: str

    def best(self, max_drop: float | None) -> Row | None:
        """Return the setting with the fewest bit operations that loses at most `max_drop` percentage points.

        Accuracy is that on validation rows, so that the accuracy on test rows stays an unbiased estimate.
        """
        lowest = self._accuracy(self.baseline) - (max_drop or 0.0) / 100
        good = [row for row in self.rows if self._accuracy(row) >= lowest]
        return min(
            good,
            key=lambda row: (row.costs["bitops"], row.costs["weight_bits"], -self._accuracy(row)),
            default=None,
        )

    @property
    def chosen_by(self) -> str:
        """The key figure by which the best setting is chosen."""
        return next(iter(self.baseline.choice))

    def _accuracy(self, row: Row) -> float:
        return row.choice[self.chosen_by]


def write_results(
    results: SweepResults, config: SweepConfig, passes: Callable[[Setting], Passes], folder: RunFolder
) -> None:
    """Print the table, and write it with the plot and the best setting."""
    rows = [results.baseline, *results.rows]
    headers, cells = list(rows[0].cells()), [list(row.cells().values()) for row in rows]
    align = ("left", *("right",) * (len(headers) - 1))
    print(f"\n{results.title}, test split")
    if not shown_in_notebook(headers, cells):
        print(plain_table(headers, cells, align))
    if results.baseline.is_quantized:
        print(f"\n{QUANTIZED_NOTE}")
    elif any(FLOAT_BITS > row.costs[name] > row.bits + 0.005 for row in results.rows for name in COSTS):
        print(f"\n{SCALES_NOTE}")
    exact = [row.cells(exact=True) for row in rows]
    write_table(folder.sweep_table, list(exact[0]), [list(row.values()) for row in exact])
    plot(results, folder)
    best, allowed = results.best(config.max_drop), percentage_points(config.max_drop or 0)
    chosen_by = figure(results.chosen_by).title
    if best is None or best.setting is None:
        print(f"\nno setting loses at most {allowed} of {chosen_by}")
        return
    print(
        f"\nfewest bit operations with a loss of at most {allowed} of {chosen_by}: {best.label}, "
        f"{counted(best.bits, 'bit')} (test accuracy {best.accuracy:.4f}): {folder.sweep_config}"
    )
    options = common_options(with_absolute_paths(config)) | {"name": None}
    best_config = TransformConfig(**options, passes=passes(best.setting))
    write_text(folder.sweep_config, write_options(best_config))


def plot(results: SweepResults, folder: RunFolder) -> None:
    """Plot accuracy over bits per element."""
    from chop.display.plots import save_figure  # here, because importing Matplotlib takes long
    from chop.sweeping.plot import sweep_figure

    points = [(row.setting.format, row.bits, row.accuracy) for row in results.rows if row.setting is not None]
    baseline = results.baseline
    save_figure(sweep_figure(points, baseline.accuracy, results.title, baseline.label), folder.sweep_plot)
