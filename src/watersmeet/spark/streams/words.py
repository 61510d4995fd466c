"""Where rows that are no data go: ends of streams, and marker rows of promises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from watersmeet.model import Side
from watersmeet.promises.kinds import Equality, Punctuated
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.wire import TAG
from watersmeet.spark.sql import quoted
from watersmeet.spark.streams.ends import Marks
from watersmeet.spark.streams.plan import StreamPlan
from watersmeet.spark.streams.promises import Marker


@dataclass(frozen=True)
class Words:
    """How Spark tells rows of the streams that are no data."""

    ends: Marks
    """For each input a condition that is true for its last row."""
    markers: tuple[Marker, ...] = ()

    def of(self, input: int) -> list[tuple[int, Marker]]:
        """The marker rows of one input, with the numbers of their promises."""
        return [each for each in enumerate(self.markers) if each[1].promise.side == input]


def tags_of(input: int, stream: DataFrame, words: Words, plan: StreamPlan) -> Column:
    """The tags of a stream's rows: one for each instance that a row goes to."""
    tags, router = plan.wire.tags, plan.router
    instance, copied = router.column(input, stream), router.is_copied(input)
    end, markers = words.ends[input], words.of(input)
    if end is None and not markers and not copied:
        return tags.column(instance, input)
    if copied:
        where = sf.transform(instance, lambda each: tags.column(each, input))
    else:
        where = sf.array(tags.column(instance, input))
    if markers:
        told = [
            sf.when(marker.condition, _reached(number, marker.promise, instance, stream, plan))
            for number, marker in markers
        ]
        # A row may be a marker of several promises.
        spread = sf.flatten(sf.array(*(each.otherwise(_nowhere()) for each in told)))
        is_marker = reduce(or_, (marker.condition for _, marker in markers))
        where = sf.when(is_marker, spread).otherwise(where)
    if end is not None:
        ended = sf.coalesce(sf.expr(end) if isinstance(end, str) else end, sf.lit(False))
        where = sf.when(ended, _everywhere(tags.end(input), plan)).otherwise(where)
    return sf.explode(where).alias(TAG)


def _reached(
    number: int, promise: Punctuated, instance: Column, stream: DataFrame, plan: StreamPlan
) -> Column:
    """The instances that a marker row concerns: one if it fixes the whole key, else all of them."""
    kind = plan.wire.tags.marker(number)
    everywhere = _everywhere(kind, plan)
    if not fixes_key(promise, plan.join):
        return everywhere
    keys = [stream[quoted(key.of(promise.side))] for key in plan.join.keys]
    fixed = reduce(and_, (key.isNotNull() for key in keys))
    here = sf.array(plan.wire.tags.column(instance, kind))
    return sf.when(fixed, here).otherwise(everywhere)


def fixes_key(promise: Punctuated, join: JoinSchema) -> bool:
    """Whether the pattern asks for the marker's own value in each column of the key."""
    equal = {name for name, how in promise.pattern or () if isinstance(how, Equality)}
    return {key.of(Side(promise.side)) for key in join.keys} <= equal


def everywhere(kind: int, plan: StreamPlan) -> Column:
    """Tags that bring a row of a kind to all instances."""
    return sf.explode(_everywhere(kind, plan)).alias(TAG)


def _everywhere(kind: int, plan: StreamPlan) -> Column:
    tags = plan.wire.tags
    return sf.array(*(tags.column(sf.lit(number), kind) for number in range(plan.instances)))


def _nowhere() -> Column:
    return sf.array().cast("array<int>")
