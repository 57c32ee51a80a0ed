"""Statistics of tensors that come in parts, and profiles of models made of them.

All but `record`, and those told to be `precise`, keep a state of bounded size.
"""

from chop.passes.graph.analysis.statistics.abs_mean import AbsMean
from chop.passes.graph.analysis.statistics.base import (
    STATISTICS,
    Reduction,
    Statistic,
    make_statistic,
    register_statistic,
)
from chop.passes.graph.analysis.statistics.histogram import Histogram
from chop.passes.graph.analysis.statistics.profile import Collection, Place, Profile
from chop.passes.graph.analysis.statistics.quantiles import Quantiles
from chop.passes.graph.analysis.statistics.range_min_max import RangeMinMax
from chop.passes.graph.analysis.statistics.range_n_sigma import RangeNSigma
from chop.passes.graph.analysis.statistics.range_quantile import RangeQuantile
from chop.passes.graph.analysis.statistics.record import Record
from chop.passes.graph.analysis.statistics.summary import Summary
from chop.passes.graph.analysis.statistics.variance import VarianceOnline, VariancePrecise

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
