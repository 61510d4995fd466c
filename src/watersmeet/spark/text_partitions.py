"""Partitions of CSV files that our tasks read, and Spark where a line is not plain.

A partition that has such lines is worked on twice. The first time ends at the first of them: only
the whole of a partition has a result. All its lines that are not plain are copied into files of the
storage, Spark parses these with the options of the user's DataFrame, and its rows are files of the
storage, too. The second time these come behind the rows that are read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from watersmeet.spark.jobs import MANY, Partitions, Record, run_over, run_tasks
from watersmeet.spark.scans.relation import StagedRows
from watersmeet.spark.scans.text import TextRange, TextScan
from watersmeet.store.exchange import ExchangeDir, Sections

Result = TypeVar("Result")
Work = Callable[[Iterator[pa.RecordBatch], int], Result]
Parsed = Mapping[TextRange, Sequence[Sections]]
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Place:
    """Where partitions are worked on."""

    spark: SparkSession
    query: str
    at_once: int
    """Tasks that Spark runs at a time."""
    storage: Callable[[], ExchangeDir]
    """Is asked for when it is needed."""


@dataclass(frozen=True)
class _Copy:
    """Where the lines of a range are that are not plain."""

    part: TextRange
    name: str
    lines: int
    reason: str


@dataclass(frozen=True)
class _Outcome(Generic[Result]):
    """Of a partition: what came of it, unless it has lines that are not plain."""

    number: int
    results: tuple[Result, ...]


class _NotAllPlain(Exception):
    """A partition has a line that is not plain."""


class TextPartitions(Generic[Result]):
    """Is asked for as `Partitions` are."""

    is_deterministic = True
    is_shuffled = False

    def __init__(self, scan: TextScan, work: Work[Result], place: Place, *, many: int) -> None:
        """`work` is given a partition's rows and number. There are about `many` of them."""
        self._scan = scan
        self._work = work
        self._place = place
        self._ranges = scan.cut(many)
        self.count = len(self._ranges)

    def run(
        self, partitions: Sequence[int], *, what: str, told: Mapping[str, str] | None = None
    ) -> list[Result]:
        """The results of these partitions, in any order. `told` are properties that tasks see."""
        scan, work, ranges = self._scan, self._work, self._ranges

        def attempt(number: int) -> _Outcome[Result]:
            try:
                return _Outcome(number, (work(_plain(scan, ranges[number]), number),))
            except _NotAllPlain:
                return _Outcome(number, ())

        outcomes = self._tasks(list(partitions), attempt, what=what, told=told)
        found = [result for outcome in outcomes for result in outcome.results]
        refused = [outcome.number for outcome in outcomes if not outcome.results]
        return found + self._again(refused, what=what, told=told) if refused else found

    def _again(
        self, partitions: Sequence[int], *, what: str, told: Mapping[str, str] | None
    ) -> list[Result]:
        """The results of partitions that have lines that are not plain."""
        scan, work, ranges = self._scan, self._work, self._ranges
        storage = self._place.storage()
        parts = list(chain.from_iterable(ranges[number] for number in partitions))
        copies = [
            copy
            for copy in self._tasks(parts, partial(_copied, scan, storage), what=what)
            if copy is not None
        ]
        self._note(copies)
        try:
            parsed = self._parsed(copies, storage, what=what)
        finally:
            for copy in copies:
                storage.delete(copy.name)

        def complete(task: tuple[int, Parsed]) -> Result:
            number, files = task
            return work(_with_parsed(scan, ranges[number], files, storage), number)

        tasks = [
            (number, {part: parsed[part] for part in ranges[number] if part in parsed})
            for number in partitions
        ]
        try:
            return self._tasks(tasks, complete, what=what, told=told)
        finally:
            for file in chain.from_iterable(parsed.values()):
                storage.delete(file.name)

    def _note(self, copies: Sequence[_Copy]) -> None:
        tally = self._scan.tally
        for copy in copies:
            tally.lines[copy.part] = copy.lines
            tally.reason = tally.reason or copy.reason

    def _parsed(self, copies: Sequence[_Copy], storage: ExchangeDir, *, what: str) -> Parsed:
        """What Spark reads in copies, in one job."""
        raw = self._scan.raw
        frame = self._read(storage, copies)
        records = run_over(
            frame,
            lambda batches: _stored(batches, raw, storage),
            query=self._place.query,
            what=f"{what}, lines that are not plain",
        )
        parts = {copy.name: copy.part for copy in copies}
        found: dict[TextRange, list[Sections]] = defaultdict(list)
        for record in sorted(records, key=lambda record: str(record["name"])):
            found[parts[record["copy"]]].append(Sections.from_description(record))
        return found

    def _read(self, storage: ExchangeDir, copies: Sequence[_Copy]) -> DataFrame:
        reader = self._place.spark.read.options(
            # A session may be set to ignore files that are missing or damaged.
            ignoreMissingFiles=False,
            ignoreCorruptFiles=False,
            **dict(self._scan.reader.options),
        )
        schema = StructType.fromJson(json.loads(self._scan.reader.schema))
        paths = [storage.path_of(copy.name) for copy in copies]
        rows = reader.schema(schema).csv(paths)
        return rows.select(
            *(sf.col(name) for name in self._scan.raw.names),
            sf.col("_metadata.file_name").alias("copy"),
        )

    def _tasks(
        self,
        tasks: Sequence[Any],
        work: Callable[[Any], Any],
        *,
        what: str,
        told: Mapping[str, str] | None = None,
    ) -> list[Any]:
        place = self._place
        return run_tasks(
            place.spark,
            tasks,
            work,
            at_once=place.at_once,
            query=place.query,
            what=what,
            told=told,
        )


def _plain(scan: TextScan, ranges: Sequence[TextRange]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, up to the first line that is not plain."""

    def refused(text: pa.Buffer, reason: str) -> None:
        raise _NotAllPlain(reason)

    for part in ranges:
        yield from scan.read(part, refused)


def _with_parsed(
    scan: TextScan, ranges: Sequence[TextRange], parsed: Parsed, storage: ExchangeDir
) -> Iterator[pa.RecordBatch]:
    """All rows of a partition."""

    def refused(text: pa.Buffer, reason: str) -> None:
        """Its rows are among those that Spark has parsed."""

    for part in ranges:
        yield from scan.read(part, refused)
        yield from scan.parsed(part, storage.read_sections(parsed.get(part, ()), scan.raw))


def _copied(scan: TextScan, storage: ExchangeDir, part: TextRange) -> _Copy | None:
    """The lines of a range that are not plain, as a file for Spark; None if there are none."""
    name = storage.new_name("lines", "csv")
    out: pa.NativeFile | None = None
    lines, first = 0, ""

    def copy(text: pa.Buffer, reason: str) -> None:
        nonlocal out, lines, first
        piece = text.to_pybytes()
        ended = piece if piece.endswith(b"\n") else piece + b"\n"
        if out is None:
            out, first = storage.open_output(name), reason
            # A mark of UTF-8 is none where a file does not begin with it. Empty lines are no rows.
            if part.start or not ended.startswith(_MARK):
                ended = b"\n" + ended
        lines += ended.count(b"\n")
        with storage.writing():
            out.write(ended)

    for _ in scan.read(part, copy):
        pass
    if out is None:
        return None
    with storage.writing():
        out.close()
    return _Copy(part, name, lines, first)


def _stored(
    batches: Iterator[pa.RecordBatch], raw: pa.Schema, storage: ExchangeDir
) -> Iterator[Record]:
    """Write what Spark has parsed, for each copy a file."""

    def pieces() -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in batches:
            # Spark reads one file after the other.
            ends = pc.run_end_encode(batch.column("copy"))
            start = 0
            for name, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
                columns = [batch.column(each.name).cast(each.type) for each in raw]
                piece = pa.RecordBatch.from_arrays(columns, schema=raw)
                yield name, piece.slice(start, end - start)
                start = end

    for name, group in groupby(pieces(), key=lambda piece: piece[0]):
        written = storage.write_sections("parsed", ((0, rows) for _, rows in group))
        yield written.describe() | {"copy": name}


def open_partitions(
    relation: TextScan | StagedRows, work: Work[Result], place: Place, *, what: str, many: int
) -> Partitions[Result] | TextPartitions[Result]:
    """About `many` partitions of a relation, for `work` on the rows of some of them at a time."""
    if isinstance(relation, TextScan):
        return TextPartitions(relation, work, place, many=many)
    return Partitions(relation.dataframe, work, query=place.query, what=what, many=many)


def run_over_all(
    relation: TextScan | StagedRows,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[Result]],
    place: Place,
    *,
    what: str,
) -> list[Result]:
    """Do `work` on the rows of each partition of a relation; returns all results, in any order."""
    if isinstance(relation, StagedRows):
        return run_over(relation.dataframe, work, query=place.query, what=what)
    partitions = TextPartitions(relation, lambda rows, _: list(work(rows)), place, many=MANY)
    return list(chain.from_iterable(partitions.run(range(partitions.count), what=what)))
