"""Which instances the rows of a join of streams go to."""

from __future__ import annotations

from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.hypercube import Cube, HypercubeRouter
from watersmeet.spark.lanes import lanes_of
from watersmeet.spark.routing import HashRouter, StreamRouter


def stream_router(join: JoinSchema, *, instances: int, cube: Cube | None) -> StreamRouter:
    """The router of a join of two streams, or of many, which have a cube."""
    if cube is not None:
        return HypercubeRouter.of(join, cube)
    if join.keys:
        return HashRouter.of(join, instances=instances)
    return lanes_of(join, instances=instances)
