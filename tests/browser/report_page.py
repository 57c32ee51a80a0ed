"""What tests do on a page of a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


class Block(nn.Module):
    """A linear layer beside a shortcut, and a function that no layer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.fc(x))) + x


def opened(page: Page, path: Path) -> Page:
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    return page


def choose(page: Page, name: str) -> None:
    page.fill("#search", name)
    page.press("#search", "Enter")
    page.wait_for_selector("#panel:not([hidden])")


def number(place: Locator) -> float:
    """The exact value of a number on the page."""
    return float((place.get_attribute("value") or "").replace("Infinity", "inf"))


def names(page: Page) -> list[str]:
    """The rows of the table that are seen, in order."""
    return [row.get_attribute("data-node") or "" for row in page.locator("#table tbody tr:visible").all()]
