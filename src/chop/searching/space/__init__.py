"""The search space: units, dimensions and choices."""

from chop.searching.space.choices import Choices
from chop.searching.space.dimension import Dimension, Label, Params, Suggest
from chop.searching.space.space import Configuration, OptionChoices, Space, Unit, read_space

__all__ = [
    "Choices",
    "Configuration",
    "Dimension",
    "Label",
    "OptionChoices",
    "Params",
    "Space",
    "Suggest",
    "Unit",
    "read_space",
]
