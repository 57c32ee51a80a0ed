"""What is searched."""

from chop.searching.space.choices import Seed
from chop.searching.space.dimension import Dimension, Label, Params, Suggest
from chop.searching.space.space import Space, Unit, read_seeds

__all__ = ["Dimension", "Label", "Params", "Seed", "Space", "Suggest", "Unit", "read_seeds"]
