"""The table, the plot and the best setting of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from chop.config import SweepConfig, TransformConfig, common_options
from chop.display.numbers import memory, table_number
from chop.display.tables import write_table
from chop.files import write_text
from chop.runs import RunFolder
from chop.runs.folder import NOT_KEPT, with_absolute_paths
from chop.sweeping.settings import Setting
from chop.toml import to_table, write_toml
from chop.transforming.pipeline import Passes

HEADERS = ("format", "bits", "accuracy", "loss", "BitOPs", "weight memory")
FLOAT_BITS = 32.0


@dataclass(frozen=True)
class Row:
    """What was measured in one setting; without one, of the model as it is."""

    setting: Setting | None
    accuracy: float
    loss: float
    bitops: float
    """Bit operations per sample."""
    weight_bits: float

    @property
    def label(self) -> str:
        return "unchanged" if self.setting is None else self.setting.label

    @property
    def bits(self) -> float:
        """Bits per element, with its share of what a block has in common."""
        return FLOAT_BITS if self.setting is None else self.setting.number_format.bits

    def cells(self) -> list[str]:
        """Return the row of the printed table."""
        return [*self._first_cells(), table_number(round(self.bitops)), memory(self.weight_bits)]

    def exact_cells(self) -> list[str]:
        """Return the row of the table in files, with the weight memory in bits."""
        return [*self._first_cells(), f"{self.bitops:g}", f"{self.weight_bits:.0f}"]

    def _first_cells(self) -> list[str]:
        bits = "" if self.setting is None else f"{self.bits:g}"
        return [self.label, bits, f"{self.accuracy:.4f}", f"{self.loss:.4f}"]


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
        return min(good, key=lambda row: (row.bitops, row.weight_bits, -row.accuracy), default=None)


def write_results(
    results: SweepResults, config: SweepConfig, passes: Callable[[Setting], Passes], folder: RunFolder
) -> None:
    """Print the table, and write it with the plot and the best setting."""
    rows = [results.baseline, *results.rows]
    cells = [row.cells() for row in rows]
    align = ("left", *("right",) * (len(HEADERS) - 1))
    print(f"\n{results.title}, test split")
    print(tabulate(cells, HEADERS, disable_numparse=True, colalign=align))
    headers = [*HEADERS[:-1], f"{HEADERS[-1]} in bits"]
    write_table(folder.sweep_table, headers, [row.exact_cells() for row in rows])
    plot(results, folder)
    best = results.best(config.max_drop)
    if best is None or best.setting is None:
        print(f"\nno setting loses at most {config.max_drop or 0:g} percentage points of accuracy")
        return
    print(
        f"\nfewest bit operations with a loss of at most {config.max_drop or 0:g} percentage points: "
        f"{best.label}, {best.bits:g} bits (accuracy {best.accuracy:.4f}): {folder.sweep_config}"
    )
    options = common_options(with_absolute_paths(config)) | {"name": None}
    table = to_table(TransformConfig(**options, passes=passes(best.setting)))
    kept = {key: value for key, value in table.items() if key not in NOT_KEPT and value != {}}
    write_text(folder.sweep_config, write_toml(kept))


def plot(results: SweepResults, folder: RunFolder) -> None:
    """Plot accuracy over bits per element, with a line per format through its most accurate settings."""
    from matplotlib.figure import Figure  # here, because importing Matplotlib takes long

    from chop.display.plots import BLUE, MORE_COLOURS, VERMILION, label_axes, save_figure, wrap_title

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    colours = (BLUE, VERMILION, *MORE_COLOURS)
    by_format: dict[str, list[Row]] = {}
    for row in results.rows:
        if row.setting is not None:
            by_format.setdefault(row.setting.format, []).append(row)
    for number, (name, rows) in enumerate(by_format.items()):
        colour = colours[number % len(colours)]
        best = {bits: max(r.accuracy for r in rows if r.bits == bits) for bits in sorted({r.bits for r in rows})}
        axes.plot(list(best), list(best.values()), "o-", color=colour, label=name)
        axes.plot([row.bits for row in rows], [row.accuracy for row in rows], "o", color=colour)
    axes.axhline(results.baseline.accuracy, color="grey", linestyle="--", label="unchanged")
    label_axes(axes, "bits per element", "test accuracy", integer_x=True)
    axes.legend(frameon=False)
    figure.suptitle(wrap_title(results.title), fontsize=10)
    save_figure(figure, folder.sweep_plot)
