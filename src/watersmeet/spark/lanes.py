"""Routes the rows of two streams on a band: by lanes of values, since nobody knows yet which
values will come.

A lane is a few times as wide as the band, and its instance is a hash of its number. One side is
the *owner*: each of its rows goes to the instance of its lane. A row of the other side is copied
to the instances of all lanes in which it can have a partner: mostly one, at times two.

Spark computes it all in doubles. Conversion to double and division never turn the order of two
numbers around, so a partner's lane lies between those of the ends of a row's reach, if the ends
are moved outwards by more than rounding can move them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.band_codecs import FloatBand, IntegerBand
from watersmeet.rows.output import Schemas
from watersmeet.rows.predicates import ValuesInBand
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.placing import BandPlacing, placing_of
from watersmeet.spark.routing import (
    check_owner,
    hash_of,
    instance_by,
    owner_of,
    simple_columns,
)
from watersmeet.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A row of the other side reaches two lanes with a chance of one in this number.
_BANDS_A_LANE = 4
_FAR = 2**65
_ROUNDING = {False: 2.0**-49, True: 2.0**-20}
"""How far rounding may move a value, over its size: in 64 bits, and in 32."""


@dataclass(frozen=True)
class LaneRouter:
    instances: int
    owner: Side
    names: tuple[str, str]
    band: ValuesInBand
    others: Schemas
    """The columns by which rows that can have no partner are spread."""

    @classmethod
    def of(cls, join: JoinSchema, band: ValuesInBand, *, instances: int) -> LaneRouter:
        left, right = (
            schema.names[place] for schema, place in zip(join.inputs, band.columns, strict=True)
        )
        others = (simple_columns(join.left), simple_columns(join.right))
        return cls(instances, owner_of(join.how) or Side.LEFT, (left, right), band, others)

    @property
    def rule(self) -> str | None:
        return f"{self.owner.name.lower()} rows by lanes of {_BANDS_A_LANE} bands"

    def is_copied(self, input: int) -> bool:
        return input != self.owner

    def column(self, input: int, dataframe: DataFrame) -> Column:
        from pyspark.sql import functions as sf

        side = Side(input)
        value = self._value(dataframe[quoted(self.names[side])])
        anywhere = instance_by(hash_of(dataframe, self.others[side]), self.instances)
        infinite = sf.abs(value) == float("inf")
        # Of numbers that are not finite, no difference lies in a band with two ends.
        lost = value.isNull() | sf.isnan(value) | infinite
        if side is self.owner:
            return sf.when(lost, anywhere).otherwise(self._instance(self._lane(value)))
        first, last = self._reach(side, value)
        near = sf.array_distinct(sf.array(self._instance(first), self._instance(last)))
        everywhere = sf.array(*(sf.lit(number) for number in range(self.instances)))
        # More than two lanes: values so large that rounding moves them further than that. A
        # difference that is NaN, of infinite numbers of lanes, is above 1 to Spark.
        return sf.when(lost, sf.array(anywhere)).when(last - first <= 1, near).otherwise(everywhere)

    def _reach(self, side: Side, value: Column) -> tuple[Column, Column]:
        """The first and the last lane in which the owner's rows can be partners."""
        from pyspark.sql import functions as sf

        low, high = self._ends
        if side is Side.LEFT:
            low, high = -high, -low
        rounding = _ROUNDING[isinstance(self.band.codec, FloatBand) and self.band.codec.narrow]
        apart = (sf.abs(value) + max(abs(low), abs(high))) * rounding
        return self._lane(value + low - apart), self._lane(value + high + apart)

    def _lane(self, value: Column) -> Column:
        from pyspark.sql import functions as sf

        # Zero is added because -0.0 has another hash than 0.0.
        return sf.rint(value / self._wide) + sf.lit(0.0)

    def _instance(self, lane: Column) -> Column:
        from pyspark.sql import functions as sf

        return instance_by(sf.xxhash64(lane), self.instances)

    @property
    def _ends(self) -> tuple[float, float]:
        """Both ends of the band in the units of `_value`."""
        codec = self.band.codec
        assert codec.low is not None
        assert codec.high is not None
        # Whole numbers of 64 bits differ by less than this, and it can be a double.
        low, high = (max(min(end, _FAR), -_FAR) for end in (codec.low, codec.high))
        if not isinstance(codec, IntegerBand):
            return codec.low, codec.high
        each = 10**codec.kind.scale if pt.is_decimal(codec.kind) else 1
        if pt.is_duration(codec.kind):
            each = 10**6
        return low / each, high / each

    @property
    def _wide(self) -> float:
        """The width of a lane."""
        low, high = self._ends
        # Of a band that is a single number, any width is right.
        return _BANDS_A_LANE * ((high - low) or max(abs(high), 1.0))

    def _value(self, column: Column) -> Column:
        """A value as a double."""
        from pyspark.sql import functions as sf
        from pyspark.sql.pandas.types import from_arrow_type

        codec = self.band.codec
        if not isinstance(codec, IntegerBand):
            return column.cast("double")
        kind = codec.kind
        if pt.is_date(kind):
            return sf.unix_date(column).cast("double")
        if pt.is_timestamp(kind) and kind.tz is not None:
            return sf.unix_micros(column).cast("double")
        if pt.is_timestamp(kind):
            epoch = sf.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'")
            moment = column.cast(from_arrow_type(kind))
            return sf.timestamp_diff("MICROSECOND", epoch, moment).cast("double")
        if pt.is_duration(kind):
            column = column.cast("interval second").cast("decimal(20, 6)")
        return column.cast("double")


@dataclass(frozen=True)
class OneInstance:
    """All rows to the only instance."""

    rule: str = "one instance"

    def is_copied(self, input: int) -> bool:
        return False

    def column(self, input: int, dataframe: DataFrame) -> Column:
        from pyspark.sql import functions as sf

        return sf.lit(0)


def lanes_of(join: JoinSchema, *, instances: int) -> LaneRouter | OneInstance:
    """The router of two streams without equal keys; refuses what cannot be divided so."""
    if instances == 1:
        return OneInstance()
    check_owner(join.how, instances)
    remedy = "give instances=1, which all rows go to."
    placing = placing_of(join)
    if not isinstance(placing, BandPlacing):
        raise InvalidArgument(
            f"{', '.join(join.bands)} is about intervals, which may be of any length, so that a "
            f"row could have partners in all of the {instances} instances.",
            remedy=f"Add a pair of equal columns or a band, or {remedy}",
        )
    band = placing.band
    if band.codec.low is None or band.codec.high is None:
        raise InvalidArgument(
            f"{band.words} has one end only, so that a row could have partners in all of the "
            f"{instances} instances.",
            remedy=f"Add a pair of equal columns or the other end of the band, or {remedy}",
        )
    kind = getattr(band.codec, "kind", None)
    if kind is not None and pt.is_time(kind):
        raise SchemaError(
            f"Streams are not divided by values of type {kind}.",
            remedy=f"Make them numbers of microseconds before the join, or {remedy}",
        )
    return LaneRouter.of(join, band, instances=instances)
