"""The strategies of `chop.searching.strategies`, under the import path that earlier documentation used."""

from chop.searching.strategies import STRATEGIES, Strategy, register_strategy

__all__ = ["STRATEGIES", "Strategy", "register_strategy"]
