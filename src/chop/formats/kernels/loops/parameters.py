"""The names of the float32 parameters of a loop, in their order: the element's, then the scale's."""

import math
from typing import NamedTuple


class ElementParameters(NamedTuple):
    """Parameters of the functions in `elements.ELEMENTS`, each of which reads some of them."""

    low: float = 0.0
    high: float = 0.0
    """The largest integer, or the largest magnitude of a grid."""
    smallest: float = 0.0
    """The smallest normal number of a grid."""
    magic: float = 0.0
    """Times a power of two, it is the number whose last bit is worth one step in the binade of that power."""
    step: float = 0.0
    """The step of a grid in the binade of 1."""
    ties_to_odd: float = 0.0
    """1 if ties between powers of two go to the odd exponent."""


class ScaleParameters(NamedTuple):
    """Parameters of the functions in `blocks.SCALES`, each of which reads some of them."""

    low: float = 0.0
    high: float = 0.0
    top: float = 1.0
    """The element that the maximum is mapped to."""
    limit: float = math.inf
    factor: float = 1.0
    unit: float = 1.0
    above: float = math.inf
    inclusive: float = 0.0
    tensor_largest: float = 0.0
    """The largest magnitude of the tensor."""
    tensor_top: float = 1.0
    """The product of element and block scale that it is mapped to."""


NUM_ELEMENT_PARAMETERS = len(ElementParameters._fields)
NUM_PARAMETERS = NUM_ELEMENT_PARAMETERS + len(ScaleParameters._fields)
