"""`STRATEGIES` under the import path that earlier documentation gave."""

from chop.searching.strategies import STRATEGIES, Strategy, register_strategy

__all__ = ["STRATEGIES", "Strategy", "register_strategy"]
