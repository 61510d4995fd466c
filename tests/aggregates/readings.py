"""What tests look at inside a run."""

from __future__ import annotations

from watersmeet.aggregates.block_reading import AnyReading, BothSides, OneSide
from watersmeet.aggregates.run import AggregateRun


def blocks_of(run: AggregateRun) -> AnyReading:
    """The reading of a run whose inputs are read in blocks."""
    reading = run._reading
    assert isinstance(reading, OneSide | BothSides)
    return reading
