"""Actions of tests on a report page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import report_html_analysis_pass
from samples import annotated

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


class Block(nn.Module):
    """A linear layer with a shortcut, and functions outside of any layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.fc(x))) + x


def trial(number: int, accuracy: float, bits: float, **rest: Any) -> dict[str, Any]:
    metrics = {"accuracy": accuracy, "bits": bits}
    return {"number": number, "state": "complete", "metrics": metrics, "front": False, "baseline": None} | rest


METRICS = {"accuracy": {"direction": "maximize"}, "bits": {"direction": "minimize"}}


def written(path: Path, graph: MaseGraph | None = None, **args: Any) -> Path:
    """Write a small report."""
    graph = graph or annotated(nn.Sequential(nn.Linear(8, 4)).eval(), input=torch.randn(1, 8))
    report_html_analysis_pass(graph, {"path": path, **args})
    return path


def opened(page: Page, path: Path) -> Page:
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    return page


def choose(page: Page, name: str) -> None:
    page.fill("#search", name)
    page.press("#search", "Enter")
    page.wait_for_selector("#panel:not([hidden])")


def number(element: Locator) -> float:
    """Return the exact value of a number on the page."""
    return float((element.get_attribute("value") or "").replace("Infinity", "inf"))


def names(page: Page) -> list[str]:
    """Return the nodes of the visible table rows, in order."""
    return [row.get_attribute("data-node") or "" for row in page.locator("#table tbody tr:visible").all()]
