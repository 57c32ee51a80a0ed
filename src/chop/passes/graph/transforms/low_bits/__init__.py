"""Methods that keep the accuracy of a model at low bit widths, without training."""

# mypy: implicit-reexport

from typing import TYPE_CHECKING

from chop.passes.graph.transforms.low_bits.adaround import *
from chop.passes.graph.transforms.low_bits.clip import *
from chop.passes.graph.transforms.low_bits.correct_bias import *
from chop.passes.graph.transforms.low_bits.equalize import *
from chop.passes.graph.transforms.low_bits.gptq import *
from chop.passes.graph.transforms.low_bits.recover_accuracy import *
from chop.passes.graph.transforms.low_bits.rotate import *
from chop.passes.graph.transforms.low_bits.smooth import *

if not TYPE_CHECKING:  # type checkers take the names from the imports
    __all__ = [name for name in dir() if name.endswith("_transform_pass")]
