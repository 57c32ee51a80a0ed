"""What is searched."""

from chop.actions.search.space.dimension import Dimension, Label, Params, Suggest
from chop.actions.search.space.seed import Seed
from chop.actions.search.space.space import Space, Unit, read_seeds

__all__ = ["Dimension", "Label", "Params", "Seed", "Space", "Suggest", "Unit", "read_seeds"]
