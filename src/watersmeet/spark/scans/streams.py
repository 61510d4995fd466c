"""Is a streaming DataFrame a plain scan of the Parquet files that come, which our tasks can read?

Spark still finds the files, remembers which were read and makes micro-batches of them: the same
folder is read with the same options once more, as names (`binaryFile`, of which only what a file's
status says is asked for). Its log in the checkpoint is the same, so a query can go on either way.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.parquet import open_file, readings
from watersmeet.spark.scans.pipeline import Pipeline, Table
from watersmeet.spark.scans.plan import (
    HARMLESS_OPTIONS,
    LOGICAL,
    PARQUET,
    STEPS,
    chain_of,
    check_options,
    dialect_of,
)
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import Selection, inside
from watersmeet.spark.sql import quoted

NAME = StructType(
    [
        StructField("path", StringType()),
        StructField("length", LongType()),
        StructField("modified", LongType()),
    ]
)
"""What travels through Spark of a file; values of partition columns follow."""

# What Spark writes into the metadata of a column that has a watermark, in milliseconds.
DELAY = "spark.watermarkDelayMs"
_WATERMARK = f"{LOGICAL}EventTimeWatermark"
_FILTER = f"{LOGICAL}Filter"
_RELATION = "StreamingRelation"
# What the time is, or who asks, is another thing in each micro-batch.
_EACH_BATCH = re.compile(r'"org\.apache\.spark\.sql\.catalyst\.expressions\.\w*(Current|Now|Local)')
# They decide which files come when, and are the same for names.
_FINDING = {
    "cleansource",
    "discardcachedinputratio",
    "filenameonly",
    "latestfirst",
    "maxbytespertrigger",
    "maxcachedfiles",
    "maxfileage",
    "maxfilespertrigger",
    "sourcearchivedir",
}
_FORMAT = "binaryFile"
_STATUS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_STATUS_NAMES = {"path", "modificationtime", "length", "content", "modified"}
# So many of the files that are there are looked at, to find out whether we can read their kind.
_LOOKED_AT = 4


@dataclass(frozen=True)
class Watermark:
    """A column of the DataFrame that has Spark's `withWatermark`, and the delay in milliseconds."""

    column: str
    delay: int


@dataclass(frozen=True)
class FileStream:
    """A streaming DataFrame that is a plain scan of the files that come."""

    selection: Selection
    """What is taken of each file that comes."""
    folder: str
    """As the stream was given it."""
    place: str
    """The same as an absolute path of this machine."""
    options: dict[str, str]
    partitions: tuple[StructField, ...]
    """The columns whose values are in the paths."""
    watermarks: tuple[Watermark, ...]
    relation: str
    """What Spark calls the source. Frames that have one in common read it once."""

    @property
    def name(self) -> StructType:
        """The columns of a file's name."""
        return StructType([*NAME.fields, *self.partitions])

    def names(self, spark: SparkSession) -> DataFrame:
        """The stream of the files' names."""
        outside = "".join(
            f", {quoted(field.name)} {field.dataType.simpleString()}" for field in self.partitions
        )
        reader = spark.readStream.format(_FORMAT).schema(_STATUS + outside)
        return (
            reader.options(**self.options)
            .load(self.folder)
            .select(
                "path",
                "length",
                sf.unix_millis("modificationTime").alias("modified"),
                *(sf.col(quoted(field.name)) for field in self.partitions),
            )
        )

    @property
    def is_recursive(self) -> bool:
        """Whether folders say nothing about columns."""
        asked = {name.lower(): value for name, value in self.options.items()}
        return asked.get("recursivefilelookup", "false").lower() == "true"

    def describe(self) -> str:
        """What `explain_stream` says of it."""
        return ", ".join([f"Parquet files of {self.folder}", *self.selection.describe()])


def open_stream(dataframe: DataFrame, schema: pa.Schema) -> FileStream:
    """The scan that a streaming DataFrame with these columns is; Refused if it is anything else, or
    if that is not certain."""
    if not isinstance(dataframe, ClassicDataFrame):
        raise Refused("it comes from Spark Connect, which does not show its plan")
    try:
        return _open(dataframe, schema)
    except (Py4JError, PySparkException) as error:
        first = str(error).strip().split("\n", 1)[0]
        raise Refused(f"its plan could not be read ({first})") from error


def _open(dataframe: DataFrame, schema: pa.Schema) -> FileStream:
    session = dataframe.sparkSession
    analyzed: Any = dataframe._jdf.queryExecution().analyzed()
    if _EACH_BATCH.search(analyzed.toJSON()):
        raise Refused("it asks for the time, or for what else differs from batch to batch")
    root = session._jsparkSession.sessionState().optimizer().execute(analyzed)
    leaf = root.collectLeaves().apply(0)
    nodes = chain_of(root, STEPS | {_WATERMARK}, _relation_class(leaf))
    if "name=<Unassigned>" not in leaf.treeString():
        raise Refused("its source has a name")
    source = leaf.dataSource()
    folder, options = _source(source)
    partitions = _names(source.sourceInfo().partitionColumns())
    table = StructType.fromJson(json.loads(source.sourceInfo().schema().json())).fields
    outside = [field for field in table if field.name in partitions]
    if [field.name for field in table[len(table) - len(outside) :]] != partitions:
        raise Refused("columns that are in its paths come before others")
    if any(name.lower() in _STATUS_NAMES for name in partitions):
        raise Refused("its paths have a column of a name that Spark has for files")
    dialect = dialect_of(session)
    pipeline = Pipeline(Table.of(table[: len(table) - len(outside)], outside, dialect))
    described = json.loads(root.toJSON())
    described[-1]["output"] = [
        json.loads(attribute.toJSON()) for attribute in _elements(leaf.output())
    ]
    pipeline.begin(described[-1])
    for node, fields in zip(reversed(nodes[:-1]), reversed(described[:-1]), strict=True):
        pipeline.step(node, fields)
    found = FileStream(
        pipeline.selection(schema, dialect),
        folder,
        _place(session, folder),
        options,
        tuple(outside),
        _watermarks(nodes, root, dataframe.schema.fields),
        str(leaf.treeString()),
    )
    _check_names(found, session)
    _look(found)
    return found


def _relation_class(leaf: JavaObject) -> str:
    if leaf.getClass().getSimpleName() != _RELATION:
        raise Refused(f"it reads a {leaf.getClass().getSimpleName()}, not files")
    return str(leaf.getClass().getName())


def _source(source: JavaObject) -> tuple[str, dict[str, str]]:
    """The folder that Spark looks for files in, and how."""
    kind = source.providingClass().getName()
    if kind != PARQUET:
        raise Refused(f"its format is {source.className()}, not plain Parquet")
    if source.catalogTable().isDefined():
        raise Refused("it is a table of a catalog")
    given = source.options()
    options = {name: str(given.apply(name)) for name in _names(given.keys().toSeq())}
    check_options(options, HARMLESS_OPTIONS | _FINDING)
    paths = [value for name, value in options.items() if name.lower() == "path"]
    paths += [path for path in _names(source.paths()) if path not in paths]
    if len(paths) != 1:
        raise Refused("it has several paths")
    if any(sign in paths[0] for sign in "*?[{"):
        raise Refused("its path has wildcards")
    return paths[0], {name: value for name, value in options.items() if name.lower() != "path"}


def _place(session: SparkSession, folder: str) -> str:
    java: Any = session.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(folder)
    system = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    scheme = str(system.getUri().getScheme())
    if scheme != "file":
        raise Refused(f"its files are on {scheme}:, and only those on file: are read directly")
    return str(system.makeQualified(path).toString()).removeprefix("file:")


def _watermarks(
    nodes: Sequence[JavaObject], root: JavaObject, columns: Sequence[StructField]
) -> tuple[Watermark, ...]:
    """The watermarks that Spark has for a stream: it takes the largest time of rows that come
    through the node, so no row may be dropped above it, where we would not see it."""
    named = {
        attribute.exprId().toString(): column
        for attribute, column in zip(_elements(root.output()), columns, strict=True)
    }
    found: list[Watermark] = []
    filtered = False
    for node in nodes:
        if node.getClass().getName() == _FILTER:
            filtered = True
        if node.getClass().getName() == _WATERMARK:
            column = named.get(node.eventTime().exprId().toString())
            if filtered or column is None or DELAY not in column.metadata:
                raise Refused("rows or columns are dropped after its withWatermark")
            found.append(Watermark(column.name, int(column.metadata[DELAY])))
    if len({each.column for each in found}) < len(found):
        raise Refused("a column has several watermarks")
    return tuple(found)


def _check_names(found: FileStream, session: SparkSession) -> None:
    """Spark must find the same columns in the paths when it reads names."""
    names: Any = found.names(session)
    leaf = names._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    seen = _names(leaf.dataSource().sourceInfo().partitionColumns())
    if seen != [field.name for field in found.partitions]:
        raise Refused("its folders have changed since it was opened")


def _look(found: FileStream) -> None:
    """Refused if one of the files that are there cannot be read as Spark would."""
    columns = inside(found.selection.columns)
    try:
        for path in islice(_files(found.place), _LOOKED_AT):
            with open_file(str(path)) as opened:
                readings(opened, columns, dialect=found.selection.dialect)
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"its files cannot be read from here ({error})") from error


def _files(folder: str) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        yield from (
            file
            for name in names
            if not name.startswith(("_", ".")) and (file := Path(place, name)).stat().st_size
        )


def _elements(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _names(sequence: JavaObject) -> list[str]:
    return [str(name) for name in _elements(sequence)]
