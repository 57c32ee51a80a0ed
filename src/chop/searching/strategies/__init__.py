"""Search strategies, one per file."""

from chop.searching.strategies import ilp, learned, optuna, sensitivity  # noqa: F401  (they register themselves)
from chop.searching.strategies.base import STRATEGIES, Strategy, register_strategy

__all__ = ["STRATEGIES", "Strategy", "register_strategy"]
