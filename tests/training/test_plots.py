"""Pictures carry the title of their data, and are drawn for few and for many classes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from chop.dataset import DatasetInfo
from chop.training import plots as pictures
from chop.training.epoch import Epoch
from chop.training.metrics import Evaluation
from chop.training.plots import draw_confusion, draw_curves, draw_grid

draw = pictures.save_figure
TITLE = "toy, data: jsc (generated look-alike)"

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _drawn(monkeypatch: pytest.MonkeyPatch, _quick: None) -> None:
    """Unlike in other tests, pictures are drawn."""
    monkeypatch.setattr(pictures, "save_figure", draw)
    monkeypatch.setattr(pictures, "DPI", 40)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All text of the pictures that are saved."""
    found: list[str] = []
    save = Figure.savefig

    def noting(self: Figure, *arguments: object, **options: object) -> None:
        save(self, *arguments, **options)  # type: ignore[arg-type]
        found.extend(str(text.get_text()) for text in self.findobj(lambda each: hasattr(each, "get_text")))  # type: ignore[attr-defined]

    monkeypatch.setattr(Figure, "savefig", noting)
    return found


def epoch(number: int) -> Epoch:
    return Epoch(number, 10 * number, 0.1, 1 / number, 0.5, 2 / number, 0.6)


@pytest.mark.parametrize("count", [1, 5, 200])
def test_curves(tmp_path: Path, texts: list[str], count: int) -> None:
    history = [epoch(number) for number in range(1, count + 1)]
    draw_curves(history, history[-1], TITLE, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert {TITLE, "loss", "accuracy", "training", "validation", f"best epoch ({count})"} <= set(texts)


@pytest.mark.parametrize("count", [2, 10, 100])
def test_confusion(tmp_path: Path, texts: list[str], count: int) -> None:
    info = DatasetInfo("jsc", 4, count)
    result = Evaluation(0.5, 0.25, torch.eye(count, dtype=torch.int64) * 1234)
    draw_confusion(result, info, TITLE, tmp_path / "confusion.png")
    assert f"{TITLE}\ntest accuracy 25.00%" in texts
    assert ("100%\n1,234" in texts) == (count <= 12)
    assert [file.name for file in tmp_path.iterdir()] == ["confusion.png"]


def test_a_grid(tmp_path: Path, texts: list[str]) -> None:
    draw_grid([("64", [0.5, 0.6], [0.7, 0.8]), ("128", [0.4], [0.5])], "batch_size", TITLE, tmp_path / "grid.png")
    assert {TITLE, "batch_size", "64", "128"} <= set(texts)
