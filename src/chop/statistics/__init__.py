"""Statistics of tensors that come in parts, and profiles of models made of them.

All but `record`, and those told to be `precise`, keep a state of bounded size.
"""

from chop.statistics.abs_mean import AbsMean
from chop.statistics.base import (
    STATISTICS,
    Reduction,
    Statistic,
    make_statistic,
    register_statistic,
)
from chop.statistics.histogram import Histogram
from chop.statistics.keep_values import Record
from chop.statistics.profile import Collection, Place, Profile
from chop.statistics.quantiles import Quantiles
from chop.statistics.range_min_max import RangeMinMax
from chop.statistics.range_n_sigma import RangeNSigma
from chop.statistics.range_quantile import RangeQuantile
from chop.statistics.summary import Summary
from chop.statistics.variance import VarianceOnline, VariancePrecise

__all__ = [
    "STATISTICS",
    "AbsMean",
    "Collection",
    "Histogram",
    "Place",
    "Profile",
    "Quantiles",
    "RangeMinMax",
    "RangeNSigma",
    "RangeQuantile",
    "Record",
    "Reduction",
    "Statistic",
    "Summary",
    "VarianceOnline",
    "VariancePrecise",
    "make_statistic",
    "register_statistic",
]
