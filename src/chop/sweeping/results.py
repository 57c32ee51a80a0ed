"""The results of a sweep: the rows of its table, the plot and the best setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chop.config import SweepConfig
from chop.config.settings import write_options
from chop.display.figures import figure
from chop.display.html import shown_in_notebook
from chop.display.numbers import counted, percentage_points
from chop.display.tables import plain_table, write_table
from chop.files import write_text
from chop.runs import RunFolder
from chop.sweeping.settings import Setting
from chop.sweeping.table import ACCURACY_ERROR, BITS_WITH_SCALES, FLOAT_BITS, cells_of, exact_cells_of
from chop.training.budget import Choice
from chop.transforming.pipeline import Passes, as_transform

SCALES_NOTE = (
    "Bits per weight and per activation include shared scales; rows shorter than a block have more of them."
)
QUANTIZED_NOTE = (
    "The model was quantised before the sweep: what the sweep does not quantise keeps those formats in all rows."
)


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
    num_test_rows: int = 0

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

    @property
    def table_row(self) -> dict[str, Any]:
        """The row as it is in the summary of the run."""
        error = {}
        if self.num_test_rows and next(iter(self.metrics)) == "accuracy":  # of rows; tokens depend on each other
            share = self.metrics["accuracy"]
            error[ACCURACY_ERROR] = math.sqrt(share * (1 - share) / self.num_test_rows)
        return {"format": self.label, "bits": self.bits, **self.choice, **self.metrics, **error, **self.costs}

    def cells(self, *, exact: bool = False) -> dict[str, str]:
        """Return the row of the table by the title of the column; with `exact`, as it is written to files."""
        first = {"format": self.label, "bits": "" if self.setting is None else f"{self.bits:g}"}
        return first | (exact_cells_of if exact else cells_of)(self.table_row)


@dataclass(frozen=True)
class SweepResults:
    """All settings of a sweep, and the model as it is."""

    baseline: Row
    rows: Sequence[Row]
    title: str

    choice: Choice[Row] | None = None
    """The setting that keeps the budget; None if none does, or none was chosen yet."""

    def candidates(self, max_drop: float) -> list[Row]:
        """Return the settings that lose at most `max_drop` percentage points, from the fewest bit operations on.

        Accuracy is that on validation rows, so that the accuracy on test rows stays an unbiased estimate.
        """
        lowest = self._accuracy(self.baseline) - max_drop / 100 - 1e-12  # of rounding
        good = [row for row in self.rows if self._accuracy(row) >= lowest]
        return sorted(good, key=lambda row: (row.costs["bitops"], row.costs["weight_bits"], -self._accuracy(row)))

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
    elif any(FLOAT_BITS > row.costs[name] > row.bits + 0.005 for row in results.rows for name in BITS_WITH_SCALES):
        print(f"\n{SCALES_NOTE}")
    exact = [row.cells(exact=True) for row in rows]
    write_table(folder.sweep_table, list(exact[0]), [list(row.values()) for row in exact])
    from chop.display.plots import save_figure  # here, because importing Matplotlib takes long
    from chop.sweeping.plot import sweep_figure

    save_figure(sweep_figure([row.table_row for row in rows], results.title), folder.sweep_plot)
    choice, allowed = results.choice, percentage_points(config.max_drop or 0)
    chosen_by = figure(results.chosen_by).title
    if choice is None:
        print(f"\nno setting loses at most {allowed} of {chosen_by}, and of accuracy on rows held back")
        return
    best = choice.candidate
    assert best.setting is not None, "candidates are settings"
    rule = "fewest bit operations" if choice.is_sure else "surest"
    print(
        f"\n{rule} with a loss of at most {allowed} of {chosen_by}: {best.label}, "
        f"{counted(best.bits, 'bit')} (test accuracy {best.metrics['accuracy']:.4f}): {folder.sweep_config}"
    )
    print(f"\n{choice.text}")
    write_text(folder.sweep_config, write_options(as_transform(config, passes(best.setting))))
