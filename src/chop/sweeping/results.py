"""The table, the plot and the best setting of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chop.config import SweepConfig, TransformConfig, common_options
from chop.display.figures import figure
from chop.display.html import shown_in_notebook
from chop.display.numbers import counted, memory, percentage_points, table_number
from chop.display.tables import plain_table, write_table
from chop.files import write_text
from chop.runs import RunFolder
from chop.runs.folder import NOT_KEPT, with_absolute_paths
from chop.sweeping.settings import Setting
from chop.toml import to_table, write_toml
from chop.transforming.pipeline import Passes

FLOAT_BITS = 32.0
SCALES_NOTE = (
    "Bits per weight and per activation include shared scales; rows shorter than a block have more of them."
)
COSTS = ("quantized_weight_bits", "quantized_activation_bits")


@dataclass(frozen=True)
class Row:
    """What was measured in one setting; without one, of the model as it is."""

    setting: Setting | None
    metrics: Mapping[str, float]
    """What the task measures, the most important first: accuracy and loss, or perplexity, loss and accuracy."""
    costs: Mapping[str, float]
    """By the name of a key figure, with bit operations per sample."""

    @property
    def accuracy(self) -> float:
        return self.metrics["accuracy"]

    @property
    def label(self) -> str:
        return "unchanged" if self.setting is None else self.setting.label

    @property
    def bits(self) -> float:
        """Bits per element, with its share of what a block has in common."""
        return FLOAT_BITS if self.setting is None else self.setting.number_format.bits

    def cells(self, *, exact: bool = False) -> dict[str, str]:
        """Return the row of the table by the title of the column; with `exact`, as it is written to files."""
        cells = {"format": self.label, "bits": "" if self.setting is None else f"{self.bits:g}"}
        shown = [*list(self.metrics.items())[:2], *((name, self.costs[name]) for name in COSTS)]
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
        """Return the setting with the fewest bit operations that loses at most `max_drop` percentage points."""
        lowest = self.baseline.accuracy - (max_drop or 0.0) / 100
        good = [row for row in self.rows if row.accuracy >= lowest]
        return min(
            good, key=lambda row: (row.costs["bitops"], row.costs["weight_bits"], -row.accuracy), default=None
        )


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
    if any(row.costs[name] > row.bits + 0.005 for row in results.rows for name in COSTS):
        print(f"\n{SCALES_NOTE}")
    exact = [row.cells(exact=True) for row in rows]
    write_table(folder.sweep_table, list(exact[0]), [list(row.values()) for row in exact])
    plot(results, folder)
    best, allowed = results.best(config.max_drop), percentage_points(config.max_drop or 0)
    if best is None or best.setting is None:
        print(f"\nno setting loses at most {allowed} of accuracy")
        return
    print(
        f"\nfewest bit operations with a loss of at most {allowed}: "
        f"{best.label}, {counted(best.bits, 'bit')} (accuracy {best.accuracy:.4f}): {folder.sweep_config}"
    )
    options = common_options(with_absolute_paths(config)) | {"name": None}
    table = to_table(TransformConfig(**options, passes=passes(best.setting)))
    kept = {key: value for key, value in table.items() if key not in NOT_KEPT and value != {}}
    write_text(folder.sweep_config, write_toml(kept))


def plot(results: SweepResults, folder: RunFolder) -> None:
    """Plot accuracy over bits per element."""
    from chop.display.plots import save_figure  # here, because importing Matplotlib takes long
    from chop.sweeping.plot import sweep_figure

    points = [(row.setting.format, row.bits, row.accuracy) for row in results.rows if row.setting is not None]
    save_figure(sweep_figure(points, results.baseline.accuracy, results.title), folder.sweep_plot)
