"""Plots name their data, and are drawn for few and for many epochs and classes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from chop.dataset import DatasetInfo
from chop.display import plots
from chop.tasks import Evaluation
from chop.training.loop import EpochMetrics
from chop.training.plots import curves_figure, plot_confusion, plot_curves, plot_grid

SAVE = Figure.savefig
TITLE = "toy, data: jsc (generated look-alike)"

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _drawn(monkeypatch: pytest.MonkeyPatch, one_thread_and_no_drawing: None) -> None:
    """Draw plots, unlike in other tests."""
    monkeypatch.setattr(Figure, "savefig", SAVE)
    monkeypatch.setattr(plots, "DPI", 40)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect all text of the plots that are saved."""
    found: list[str] = []

    def collecting(self: Figure, *arguments: object, **options: object) -> None:
        SAVE(self, *arguments, **options)  # type: ignore[arg-type]
        found.extend(str(text.get_text()) for text in self.findobj(lambda each: hasattr(each, "get_text")))  # type: ignore[attr-defined]

    monkeypatch.setattr(Figure, "savefig", collecting)
    return found


def epoch(number: int) -> EpochMetrics:
    return EpochMetrics(number, 10 * number, 0.1, 1 / number, 0.5, 2 / number, 0.6)


@pytest.mark.parametrize("count", [1, 5, 200])
def test_curves(tmp_path: Path, texts: list[str], count: int) -> None:
    history = [epoch(number) for number in range(1, count + 1)]
    plot_curves(history, history[-1], TITLE, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {TITLE, "loss", "accuracy", "training", "validation", f"best epoch ({count})"} <= set(texts)


def test_a_figure_is_shown_in_notebooks_without_pyplot() -> None:
    figure = curves_figure([epoch(1)], 1, TITLE)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("count", [2, 10, 100])
def test_confusion(tmp_path: Path, texts: list[str], count: int) -> None:
    info = DatasetInfo("jsc", 4, count)
    result = Evaluation({"loss": 0.5, "accuracy": 0.25}, torch.eye(count, dtype=torch.int64) * 1234)
    plot_confusion(result, info, TITLE, tmp_path / "confusion.png")
    assert f"{TITLE}\ntest accuracy 25.00%" in texts
    assert ("100%\n1,234" in texts) == (count <= 12)
    assert [file.name for file in tmp_path.iterdir()] == ["confusion.png"]


@pytest.mark.parametrize("count", [30, 1000])
def test_the_size_of_the_confusion_plot_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    sizes: list[float] = []

    def measuring(self: Figure, path: Path, **_: object) -> None:
        sizes.extend(self.get_size_inches())
        path.touch()

    monkeypatch.setattr(Figure, "savefig", measuring)
    names = tuple("x" * 1000 + str(number) for number in range(count))
    result = Evaluation({"loss": 0.5, "accuracy": 0.25}, torch.eye(count, dtype=torch.int64))
    plot_confusion(result, DatasetInfo("ids", 4, count, class_names=names), TITLE, tmp_path / "confusion.png")
    assert 0 < max(sizes) < 15


def test_there_is_no_confusion_plot_without_a_matrix(tmp_path: Path) -> None:
    plot_confusion(
        Evaluation({"loss": 0.5, "accuracy": 0.25}), DatasetInfo("ids", 4, 5000), TITLE, tmp_path / "confusion.png"
    )
    assert not list(tmp_path.iterdir())


def test_a_grid(tmp_path: Path, texts: list[str]) -> None:
    plot_grid([("64", [0.5, 0.6], [0.7, 0.8]), ("128", [0.4], [0.5])], "batch_size", TITLE, tmp_path / "grid.png")
    assert {TITLE, "batch_size", "64", "128"} <= set(texts)


def test_the_rows_of_a_grid_over_epochs_are_labelled(tmp_path: Path, texts: list[str]) -> None:
    plot_grid([("5", [0.5], [0.7]), ("80", [0.4], [0.5])], "epoch", TITLE, tmp_path / "grid.png")
    assert {"epoch", "5", "80"} <= set(texts)
    assert "1" not in texts  # the position of the second row
