"""`ch info`."""

from __future__ import annotations

from chop.config import InfoConfig
from chop.info import describe
from chop.info.formats import plot_format


def info(config: InfoConfig) -> None:
    """Print the table of a kind, or the page of one of its members, and plot a format if asked to."""
    print(describe(config.kind, config.name))
    if config.png is not None and config.name is not None:
        plot_format(config.name, config.png)
