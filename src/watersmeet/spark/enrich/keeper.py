"""Keeps the versions of a master table: lays down the first, and newer ones when it has changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from watersmeet.errors import InputChanged, SchemaError, StateError
from watersmeet.model import Side
from watersmeet.operators.enriching import check_new_version
from watersmeet.spark.enrich.laying import Effort, lay_down_version
from watersmeet.spark.enrich.masters import MasterRecord, Masters
from watersmeet.spark.enrich.plan import EnrichPlan
from watersmeet.spark.enrich.sources import Look, MasterSource
from watersmeet.spark.microbatches.arguments import arrow_schema
from watersmeet.spark.microbatches.identity import columns_of
from watersmeet.spark.sql import quoted

# A table that changes while it is laid down is laid down again so often.
_TRIES = 3
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


class MasterKeeper:
    """The master table of one query, from the driver's side."""

    def __init__(self, source: MasterSource, first: DataFrame, plan: EnrichPlan) -> None:
        """`first` has the columns that every version must have."""
        self._source = source
        self._first = first
        self.plan = plan
        self.masters = Masters(plan.state)

    def begin(self, effort: Effort) -> MasterRecord:
        """Have a version to begin with, or to go on with."""
        self.masters.forgive()
        if self.plan.state.owner() is None:
            # No query has begun, so whatever is there was laid down for none.
            self.masters.remove_all()
            return self._lay(self._first, 0, effort)
        newest = self.masters.newest()
        if newest is None:
            raise StateError(
                f"The state {self.plan.state.uri} has no version of a master table.",
                remedy="Bring it back from a copy, or begin anew with an empty state and a new "
                "checkpoint.",
            )
        look = Look.at(self._first)
        if not self._source.changes and list(look.roots) != newest.roots:
            raise StateError(
                f"The state was made with a master read from {_listed(newest.roots)}, and this one "
                f"is read from {_listed(look.roots)}.",
                remedy="Go on with the same master; begin anew with an empty state and a new "
                "checkpoint; or give a function that returns the master, whose place may change.",
            )
        if look.summary in (None, newest.look):
            return newest
        return self._lay(self._first, newest.number + 1, effort)

    def look_again(self, effort: Effort) -> MasterRecord | None:
        """Lay the table down if it has changed; the new version, or None."""
        self.clean()
        frame = self._source.frame()
        newest = self.masters.newest()
        assert newest is not None
        if frame is None:
            return None
        summary = Look.at(frame).summary
        if summary is not None and summary == newest.look:
            return None
        return self._lay(frame, newest.number + 1, effort)

    def clean(self) -> None:
        """Remove versions that no state needs any more."""
        state, needed = self.plan.state, list[int]()
        for number in range(self.plan.instances):
            instance = state.instance(number)
            manifests = [instance.read(version) for version in instance.versions()]
            if not manifests:
                return
            needed += [n for each in manifests if each for n in each["masters"].values()]
        if needed:
            self.masters.remove_before(min(needed))

    def _lay(self, frame: DataFrame, number: int, effort: Effort) -> MasterRecord:
        for _ in range(_TRIES):
            frame = self._fitting(frame)
            look = Look.at(frame)
            version = datetime.now(UTC).isoformat(timespec="microseconds")
            if look.is_true():
                files = lay_down_version(
                    frame,
                    self.plan,
                    folder=self.masters.prepare(number),
                    version=version,
                    effort=effort,
                )
                # Asked before and after: columns that a file no longer has would be read as nulls.
                if look.is_true():
                    columns = columns_of(self.plan.schemas[Side.RIGHT])
                    roots = list(look.roots)
                    record = MasterRecord(number, version, columns, files, roots, look.summary)
                    self.masters.publish(record)
                    return record
            if not self._source.changes:
                raise InputChanged(
                    "Files of the master table have changed since the DataFrame was made.",
                    remedy="Read the table again with spark.read; or give its path, or a function "
                    "that reads it.",
                )
            frame = self._source.frame() or frame
        raise InputChanged(
            f"The master table changed while it was laid down, {_TRIES} times.",
            remedy="Write a new version to another place, and give a function that returns the "
            "newest one; or use a table format with snapshots.",
        )

    def _fitting(self, frame: DataFrame) -> DataFrame:
        """The columns that were asked for, if they are those of the first version."""
        if frame is self._first:
            return frame
        names = self._first.columns
        asked = frame.select(*(sf.col(quoted(name)) for name in names if name in frame.columns))
        columns = arrow_schema(self._first, "master")
        check_new_version(columns, arrow_schema(asked, "master"), "the master table")
        for old, new in zip(self._first.schema, asked.schema, strict=True):
            before, now = _described(old), _described(new)
            if before != now:
                raise SchemaError(
                    f"The new version of the master table has other columns than the first: "
                    f"{old.name!r} is {now} instead of {before}.",
                    remedy="All rows that had come were answered from the version before. Give "
                    "every version the same columns, or begin anew with the new ones.",
                )
        return asked


def _described(field: Any) -> str:
    kind = field.metadata.get(_CHAR) or field.dataType.simpleString()
    return str(kind) if field.nullable else f"{kind} not null"


def _listed(roots: Any) -> str:
    return ", ".join(roots) or "no files"
