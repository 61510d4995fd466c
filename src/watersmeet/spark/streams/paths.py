"""Which path do the rows of each stream take: the file path, on which instances read them, or the
row path, on which Spark does?"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from watersmeet.model import Side
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.routing import HashRouter, StreamRouter
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.streams import DELAY, FileStream, open_stream
from watersmeet.spark.sql import quoted
from watersmeet.spark.streams.files import MOST_INSTANCES, Carried, FileInput
from watersmeet.spark.streams.refused import noted_refused
from watersmeet.spark.streams.watermarks import Clock
from watersmeet.spark.streams.words import Words, fixes_key

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"

Path = FileStream | Refused
"""How instances read a stream, or why Spark does."""


def paths_of(
    streams: Sequence[DataFrame],
    schemas: Sequence[pa.Schema],
    words: Words,
    *,
    names: Sequence[str],
    router: StreamRouter,
    state: StateDirectory,
) -> tuple[Path, ...]:
    """For each stream; `words` are looked for in its rows by whoever reads them."""
    found: list[Path] = []
    for input, stream in enumerate(streams):
        try:
            _check(router)
            noted = noted_refused(state, names[input])
            if noted is not None:
                raise Refused(noted)
            found.append(_opened(input, stream, schemas[input], words))
        except Refused as refused:
            found.append(refused)
    return _with_one_watermark(streams, tuple(_alone(path, found) for path in found))


def _with_one_watermark(streams: Sequence[DataFrame], paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where Spark sees the times of one stream it has to see those of all: it takes no watermark
    above another."""
    seen = any(
        isinstance(path, Refused) and any(DELAY in field.metadata for field in stream.schema)
        for stream, path in zip(streams, paths, strict=True)
    )
    return tuple(
        Refused("Spark goes by the watermark of another stream, whose rows it reads")
        if seen and isinstance(path, FileStream) and path.watermarks
        else path
        for path in paths
    )


def _alone(path: Path, paths: Sequence[Path]) -> Path:
    """A source that several streams have in common is one in Spark's checkpoint: it stays so."""
    if isinstance(path, FileStream):
        relations = [each.relation for each in paths if isinstance(each, FileStream)]
        if relations.count(path.relation) > 1:
            return Refused("another stream of the join reads the same source")
    return path


def _check(router: StreamRouter) -> None:
    if not isinstance(router, HashRouter):
        raise Refused("rows are divided by more than one key, or by values that are close")
    if router.instances > MOST_INSTANCES:
        raise Refused(
            f"there are {router.instances} instances, and more than {MOST_INSTANCES} do not read "
            "all files each"
        )


def _opened(input: int, stream: DataFrame, schema: pa.Schema, words: Words) -> FileStream:
    conditions = _conditions(input, words)
    columns = [sf.col(quoted(name)) for name in stream.columns]
    asked = stream.select(
        *columns, *(condition.alias(f"({what})") for what, condition in conditions)
    )
    if not conditions:
        asked = stream
    fields = [pa.field(name, pa.bool_()) for name in asked.columns[len(columns) :]]
    return open_stream(asked, pa.schema([*schema, *fields]))


def _conditions(input: int, words: Words) -> list[tuple[str, Column]]:
    """What is asked of each row to know whether it is a word, and what that is called."""
    found = []
    end = words.ends[input]
    if end is not None:
        asked = sf.expr(end) if isinstance(end, str) else end
        found.append(("ends", sf.coalesce(asked, sf.lit(False))))
    for number, marker in words.of(input):
        found.append((f"punctuated {number}", marker.condition))
    return found


def carried(
    paths: Sequence[Path],
    streams: Sequence[DataFrame],
    schemas: Sequence[pa.Schema],
    words: Words,
    *,
    join: JoinSchema,
    wire: Wire,
) -> Carried | None:
    """What tasks need to know of the paths; None if Spark reads all streams."""
    if not any(isinstance(path, FileStream) for path in paths):
        return None
    travelling = [
        path.name if isinstance(path, FileStream) else stream.schema
        for path, stream in zip(paths, streams, strict=True)
    ]
    inputs = [
        _input(input, path, schemas[input], words, join) if isinstance(path, FileStream) else None
        for input, path in enumerate(paths)
    ]
    conf = streams[0].sparkSession.conf
    delays = [
        each.delay for path in paths if isinstance(path, FileStream) for each in path.watermarks
    ]
    by_latest = str(conf.get(_POLICY)).lower() == "max"
    return Carried(
        Wire.of(*travelling, markers=wire.markers),
        tuple(inputs),
        clock=Clock(tuple(delays), by_latest) if delays else None,
    )


def _input(
    input: int, path: FileStream, schema: pa.Schema, words: Words, join: JoinSchema
) -> FileInput:
    markers = [(number, fixes_key(each.promise, join)) for number, each in words.of(input)]
    return FileInput(
        selection=path.selection,
        columns=len(schema),
        has_end=words.ends[input] is not None,
        markers=tuple(markers),
        times=tuple(schema.get_field_index(each.column) for each in path.watermarks),
        flat=not path.partitions and not path.is_recursive,
    )


def describe(paths: Sequence[Path], names: Sequence[str]) -> list[tuple[str, str]]:
    """What `explain_stream` says of the paths."""
    said = []
    for name, path in zip(names, paths, strict=True):
        if isinstance(path, FileStream):
            said.append((name, f"file path: {path.describe()}"))
        else:
            remedy = f" ({path.remedy})" if path.remedy else ""
            said.append((name, f"row path, because {path}{remedy}"))
    if len(said) == len(Side):
        return said
    # Streams that the user has named could be called as anything else that is explained.
    return [("paths", "; ".join(f"{name}: {words}" for name, words in said))]
