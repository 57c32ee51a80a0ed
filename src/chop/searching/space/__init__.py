"""The search space: units, dimensions and choices."""

from chop.searching.space.choices import Choices
from chop.searching.space.dimension import Dimension, Label, Params, Suggest
from chop.searching.space.space import Configs, OptionChoices, Space, Unit, read_space

__all__ = [
    "Choices",
    "Configs",
    "Dimension",
    "Label",
    "OptionChoices",
    "Params",
    "Space",
    "Suggest",
    "Unit",
    "read_space",
]
