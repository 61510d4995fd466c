"""Partitions of text files that our tasks read, and Spark where a line is not plain; of unions that
have such files in a branch, too.

A partition that has such lines is worked on twice. The first time ends at the first of them: only
the whole of a partition has a result. All its lines that are not plain are copied into files of the
storage, Spark parses these with the options of the user's DataFrame, and its rows are files of the
storage, too. The second time these come behind the rows that are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from watersmeet.delimited.layout import Layout
from watersmeet.spark.jobs import MANY, Partitions, Record, run_over, run_tasks
from watersmeet.spark.scans.copies import FILE_NAME, read_copies
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.relation import StagedRows, TextRelation
from watersmeet.spark.scans.text import MARK, SparkReader, TextScan
from watersmeet.spark.scans.union import Piece, UnionScan
from watersmeet.store.exchange import ExchangeDir, Sections

Result = TypeVar("Result")
Work = Callable[[Iterator[pa.RecordBatch], int], Result]
Parsed = Mapping[Piece, Sequence[Sections]]
_HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """Where partitions are worked on."""

    spark: SparkSession
    query: str
    at_once: int
    """Tasks that Spark runs at a time."""
    storage: Callable[[], ExchangeDir]
    """Is asked for when it is needed."""
    claimed: ExchangeDir | None = None
    """The same, if it is there anyway."""


@dataclass(frozen=True)
class _Copy:
    """Where the lines of a piece of text are that are not plain."""

    piece: Piece
    name: str
    lines: int
    reason: str
    has_header: bool


@dataclass(frozen=True)
class _Outcome(Generic[Result]):
    """Of a partition: what came of it, unless it has lines that are not plain; of those that have,
    copies, if there was a storage."""

    number: int
    results: tuple[Result, ...] = ()
    copies: tuple[_Copy, ...] = ()


class _NotAllPlain(Exception):
    """A partition has a line that is not plain."""


class TextPartitions(Generic[Result]):
    """Is asked for as `Partitions` are."""

    is_deterministic = True
    is_shuffled = False

    def __init__(
        self, relation: TextRelation, work: Work[Result], place: Place, *, many: int
    ) -> None:
        """`work` is given a partition's rows and number. There are about `many` of them."""
        self._scan = UnionScan.of(relation)
        self._work = work
        self._place = place
        self._pieces = self._scan.cut(many)
        self._storage = place.claimed
        self.count = len(self._pieces)

    def run(
        self, partitions: Sequence[int], *, what: str, told: Mapping[str, str] | None = None
    ) -> list[Result]:
        """The results of these partitions, in any order. `told` are properties that tasks see."""
        scan, work, pieces, storage = self._scan, self._work, self._pieces, self._storage

        def attempt(number: int) -> _Outcome[Result]:
            try:
                return _Outcome(number, (work(_plain(scan, pieces[number]), number),))
            except _NotAllPlain:
                return _Outcome(number, (), _copied(scan, pieces[number], storage))

        outcomes = self._tasks(list(partitions), attempt, what=what, told=told)
        found = [result for outcome in outcomes for result in outcome.results]
        refused = [outcome for outcome in outcomes if not outcome.results]
        return found + self._again(refused, what=what, told=told) if refused else found

    def _again(
        self, refused: Sequence[_Outcome[Result]], *, what: str, told: Mapping[str, str] | None
    ) -> list[Result]:
        """The results of partitions that have lines that are not plain."""
        scan, work, pieces = self._scan, self._work, self._pieces
        partitions = [outcome.number for outcome in refused]
        copied = [outcome.copies for outcome in refused]
        if self._storage is None:
            claimed = self._storage = self._place.storage()
            copied = self._tasks(
                partitions, lambda number: _copied(scan, pieces[number], claimed), what=what
            )
        storage, copies = self._storage, list(chain.from_iterable(copied))
        self._note(copies)
        try:
            parsed = self._parsed(copies, storage, what=what)
        finally:
            for copy in copies:
                storage.delete(copy.name)

        def complete(task: tuple[int, Parsed]) -> Result:
            number, files = task
            return work(_with_parsed(scan, pieces[number], files, storage), number)

        tasks = [
            (number, {piece: parsed[piece] for piece in pieces[number] if piece in parsed})
            for number in partitions
        ]
        try:
            return self._tasks(tasks, complete, what=what, told=told)
        finally:
            for file in chain.from_iterable(parsed.values()):
                storage.delete(file.name)

    def _note(self, copies: Sequence[_Copy]) -> None:
        for copy in copies:
            scan, part = self._scan.text(copy.piece)
            scan.tally.lines[part] = copy.lines
            scan.tally.reason = scan.tally.reason or copy.reason

    def _parsed(self, copies: Sequence[_Copy], storage: ExchangeDir, *, what: str) -> Parsed:
        """What Spark reads in copies, in one job for all that are read alike."""
        alike: dict[tuple[SparkReader, Layout], list[_Copy]] = defaultdict(list)
        for copy in copies:
            scan, _ = self._scan.text(copy.piece)
            alike[scan.reader, scan.layout].append(copy)
        pieces = {copy.name: copy.piece for copy in copies}
        found: dict[Piece, list[Sections]] = defaultdict(list)
        for some in alike.values():
            for record in self._parsed_alike(some, storage, what=what):
                found[pieces[record[FILE_NAME]]].append(Sections.from_description(record))
        return found

    def _parsed_alike(
        self, copies: Sequence[_Copy], storage: ExchangeDir, *, what: str
    ) -> list[Record]:
        scan, _ = self._scan.text(copies[0].piece)
        raw = scan.raw
        records = run_over(
            self._read(scan, storage, copies),
            lambda batches: _stored(batches, raw, storage),
            query=self._place.query,
            what=f"{what}, lines that are not plain",
        )
        return sorted(records, key=lambda record: str(record["name"]))

    def _read(self, scan: TextScan, storage: ExchangeDir, copies: Sequence[_Copy]) -> DataFrame:
        kinds = [[copy for copy in copies if copy.has_header is header] for header in (True, False)]
        first, *others = (self._read_alike(scan, storage, some) for some in kinds if some)
        return reduce(DataFrame.union, others, first)

    def _read_alike(
        self, scan: TextScan, storage: ExchangeDir, copies: Sequence[_Copy]
    ) -> DataFrame:
        paths = [storage.path_of(copy.name) for copy in copies]
        return read_copies(self._place.spark, scan.reader, paths, has_header=copies[0].has_header)

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


def _plain(scan: UnionScan, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, up to the first line that is not plain."""

    def refused(text: pa.Buffer, reason: str) -> None:
        raise _NotAllPlain(reason)

    for piece in pieces:
        yield from scan.read(piece, refused)


def _with_parsed(
    scan: UnionScan, pieces: Sequence[Piece], parsed: Parsed, storage: ExchangeDir
) -> Iterator[pa.RecordBatch]:
    """All rows of a partition."""

    def refused(text: pa.Buffer, reason: str) -> None:
        """Its rows are among those that Spark has parsed."""

    for piece in pieces:
        yield from scan.read(piece, refused)
        if piece in parsed:
            text, _ = scan.text(piece)
            yield from scan.parsed(piece, storage.read_sections(parsed[piece], text.raw))


def _copied(
    scan: UnionScan, pieces: Sequence[Piece], storage: ExchangeDir | None
) -> tuple[_Copy, ...]:
    """The lines of each piece of text that are not plain, as files for Spark, if there is a
    storage."""
    if storage is None:
        return ()
    found = (_copy(scan, piece, storage) for piece in pieces if piece.is_text)
    return tuple(copy for copy in found if copy is not None)


def _copy(union: UnionScan, piece: Piece, storage: ExchangeDir) -> _Copy | None:
    """None if all lines of a piece are plain."""
    scan, part = union.text(piece)
    name = storage.new_name("lines", scan.reader.format)
    out: pa.NativeFile | None = None
    lines, first = 0, ""
    # Behind its head a copy has no first line, of which the parser would take a mark away.
    beginning = _beginning(scan.files[part.file]) if part.start == 0 else None

    def append(text: pa.Buffer, reason: str) -> None:
        nonlocal out, lines, first
        if out is None:
            out, first = storage.open_output(name), reason
            with storage.writing():
                out.write(scan.reader.head if beginning is None else beginning)
        ended = text.to_pybytes()
        ended += b"" if ended.endswith(b"\n") else b"\n"
        lines += ended.count(b"\n")
        with storage.writing():
            out.write(ended)

    scan.look(part, append)
    if out is None:
        return None
    with storage.writing():
        out.close()
    return _Copy(piece, name, lines, first, has_header=beginning is None)


def _beginning(file: DataFile) -> bytes | None:
    """What stands before a copy of the first lines of a file, if its first line that is not blank
    begins with a mark of UTF-8: that line is not plain, and so the first of the copy.

    Hadoop takes such a mark away where a file begins with it, and the parser from its first line.
    """
    with Path(file.path).open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
    begin = next((at for at, byte in enumerate(head) if byte > ord(" ")), len(head))
    if not head.startswith(MARK, begin):
        return None
    if not begin:
        return b""
    return b"\n" if head[begin - 1 : begin] in (b"\n", b"\r") else None


def _stored(
    batches: Iterator[pa.RecordBatch], raw: pa.Schema, storage: ExchangeDir
) -> Iterator[Record]:
    """Write what Spark has parsed, for each copy a file."""

    def pieces() -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in batches:
            # Spark reads one file after the other.
            ends = pc.run_end_encode(batch.column(FILE_NAME))
            start = 0
            for name, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
                columns = [batch.column(each.name).cast(each.type) for each in raw]
                piece = pa.RecordBatch.from_arrays(columns, schema=raw)
                yield name, piece.slice(start, end - start)
                start = end

    for name, group in groupby(pieces(), key=lambda piece: piece[0]):
        written = storage.write_sections("parsed", ((0, rows) for _, rows in group))
        yield written.describe() | {FILE_NAME: name}


def open_partitions(
    relation: TextRelation | StagedRows,
    work: Work[Result],
    place: Place,
    *,
    what: str,
    many: int,
    nbytes: int | None = None,
) -> Partitions[Result] | TextPartitions[Result]:
    """About `many` partitions of a relation, for `work` on the rows of some of them at a time.
    Files that Spark reads are cut after `nbytes` each, if they are given."""
    if isinstance(relation, StagedRows):
        return Partitions(
            relation.dataframe, work, query=place.query, what=what, many=many, nbytes=nbytes
        )
    return TextPartitions(relation, work, place, many=many)


def run_over_all(
    relation: TextRelation | StagedRows,
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
