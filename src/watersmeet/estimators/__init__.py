"""From a sample of a join to totals, and from totals to cells with intervals to believe.

Sampling designs (`ClusterSample`, `StratifiedSample`, `RippleSample`,
`PartitionedSample`) collect statistics that add up in any order and hand over
`Totals`; `cells` turns those, with the `Evidence` beside them, into values, intervals and trust.
"""

from watersmeet.estimators.cells import Cells, cells
from watersmeet.estimators.cluster import ClusterSample
from watersmeet.estimators.evidence import Evidence
from watersmeet.estimators.forecast import Forecast
from watersmeet.estimators.partitions import PartitionedSample
from watersmeet.estimators.quantities import Kind, Quantity
from watersmeet.estimators.ripple import RippleSample
from watersmeet.estimators.stratified import StratifiedSample
from watersmeet.estimators.tails import TailSketch
from watersmeet.estimators.totals import Reading, Totals, take_all
from watersmeet.estimators.trust import OrderCheck
from watersmeet.estimators.unread import Unread
from watersmeet.estimators.unseen import Unseen, unseen_groups

__all__ = [
    "Cells",
    "ClusterSample",
    "Evidence",
    "Forecast",
    "Kind",
    "OrderCheck",
    "PartitionedSample",
    "Quantity",
    "Reading",
    "RippleSample",
    "StratifiedSample",
    "TailSketch",
    "Totals",
    "Unread",
    "Unseen",
    "cells",
    "take_all",
    "unseen_groups",
]
