"""From a sample of a join to totals, and from totals to cells with intervals to believe."""

from watersmeet.estimators.cells import Cells, cells
from watersmeet.estimators.cluster import ClusterSample
from watersmeet.estimators.evidence import Evidence
from watersmeet.estimators.quantities import Kind, Quantity
from watersmeet.estimators.ripple import RippleSample
from watersmeet.estimators.tails import TailSketch
from watersmeet.estimators.totals import Reading, Totals, take_all
from watersmeet.estimators.trust import Layout

__all__ = [
    "Cells",
    "ClusterSample",
    "Evidence",
    "Kind",
    "Layout",
    "Quantity",
    "Reading",
    "RippleSample",
    "TailSketch",
    "Totals",
    "cells",
    "take_all",
]
