"""Statistics of values that arrive in several tensors, and profiles of models.

All statistics have a state of bounded size, except `record` and those with `precise = true`.
"""

from chop.statistics.base import (
    STATISTICS,
    Reduction,
    Statistic,
    make_statistic,
    register_statistic,
)
from chop.statistics.distribution_statistics import Histogram, Quantiles, Summary
from chop.statistics.moments import AbsMean, VarianceOnline, VariancePrecise
from chop.statistics.profile import Collection, Profile, TensorKey
from chop.statistics.profile import TensorKey as Place  # its earlier name
from chop.statistics.ranges import RangeMinMax, RangeNSigma, RangeQuantile
from chop.statistics.record import Record

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
    "TensorKey",
    "VarianceOnline",
    "VariancePrecise",
    "make_statistic",
    "register_statistic",
]
