"""`wm.xml_stream` and `wm.xml_table`: the elements of XML files as rows, with their punctuations.

Spark's own file source lists the files, remembers those that were read and puts them into
micro-batches; our tasks are given names only and read the files themselves. A data source of ours
would have to keep a list of its own, in offsets that grow with the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from watersmeet.errors import InputChanged, InvalidArgument, MalformedInput, SchemaError, one_line
from watersmeet.spark.computing import words
from watersmeet.spark.interpreter import our_python
from watersmeet.spark.keys import first_line
from watersmeet.spark.microbatches.failure import in_one_sentence
from watersmeet.spark.storage import check_path
from watersmeet.spark.worker import settle
from watersmeet.xml.convert import Convert
from watersmeet.xml.limits import Limits
from watersmeet.xml.shape import MARKER, MODES, Shape, as_schema, make_shape

_FORMAT = "binaryFile"
_FILES = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_CHUNK_BYTES = 2**18


def xml_stream(
    spark: SparkSession,
    directory: str | os.PathLike[str],
    row: str,
    columns: Any,
    *,
    mode: str = MODES[0],
    marker: str | None = MARKER,
    patterns: Mapping[str, Any] | None = None,
    paths: Mapping[str, str] | None = None,
    zone: str | None = None,
    row_bytes: int = Limits.row_bytes,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The rows of all XML files in a directory, and of files that appear there later, as a stream.

    Files are found as Spark's own file sources find them, each is read once, and a query that is
    started again goes on behind the files that its checkpoint knows.

    Parameters
    ----------
    spark
        The session.
    directory
        Where the files are; they are best moved there when they are complete. Files may be
        compressed (`.gz`, `.bz2`, `.zst`, `.lz4`).
    row
        The name of the element that is a row, prefix included. `<punct:row>` is a punctuation.
    columns
        A schema of Spark's, as text ("sno BIGINT, ipaddr STRING") or StructType, or what
        `wm.local.xml` takes. A name is the path of the value below the row: `sno`, `place/city`,
        `@id`, or `.`. An array has the values of all elements of a name.
    mode
        What to do with malformed elements, and with the rest of a file that is cut off, is not in
        its encoding or is refused: PERMISSIVE makes a row of it whose only value is its text, in
        the column `_corrupt_record`; DROPMALFORMED leaves it out; FAILFAST ends the query.
    marker
        The column that is true for punctuations and false for rows, as in
        `wm.punctuated("left", when="is_punctuation")`. None passes over punctuations.
    patterns
        For columns whose punctuations may be sets `{1,2}` or ranges `[1,5]`, the column or the two
        columns which those are put in: `{"sno": "sno_set", "time": ("first", "last")}`.
    paths
        For columns that are not named as their path: `{"city": "place/city"}`.
    zone
        Where times are that do not say it, in columns of type TIMESTAMP: the session's time zone.
    row_bytes
        The longest element that is read.
    options
        What Spark's file sources take: `maxFilesPerTrigger`, `maxBytesPerTrigger`, `latestFirst`,
        `pathGlobFilter`, `recursiveFileLookup`, `cleanSource`, ...
    """
    place, readable = _place(spark, directory)
    shape, result = _shape(
        spark, row, columns, mode=mode, marker=marker, patterns=patterns, paths=paths,
        zone=zone, row_bytes=row_bytes,
    )  # fmt: skip
    reader = spark.readStream.format(_FORMAT).schema(_FILES)
    files = _asked(reader, options).load(place)
    return _parsed(files, shape, result, readable=readable)


def xml_table(
    spark: SparkSession,
    path: str | os.PathLike[str],
    row: str,
    columns: Any,
    *,
    mode: str = MODES[0],
    marker: str | None = MARKER,
    patterns: Mapping[str, Any] | None = None,
    paths: Mapping[str, str] | None = None,
    zone: str | None = None,
    row_bytes: int = Limits.row_bytes,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The rows of an XML file, or of all files in a directory, as a table.

    The parameters are those of `wm.xml_stream`. A file is read by one task.
    """
    place, readable = _place(spark, path)
    shape, result = _shape(
        spark, row, columns, mode=mode, marker=marker, patterns=patterns, paths=paths,
        zone=zone, row_bytes=row_bytes,
    )  # fmt: skip
    files = _asked(spark.read.format(_FORMAT), options).load(place)
    return _parsed(files, shape, result, readable=readable)


def _parsed(files: DataFrame, shape: Shape, result: StructType, *, readable: bool) -> DataFrame:
    # Spark reads no content that nobody asks for.
    files = files.select("path") if readable else files.select("path", "content")
    with our_python(files.sparkSession):
        return files.mapInArrow(partial(rows_of_files, shape), result)


def _shape(
    spark: SparkSession, row: str, columns: Any, *, zone: str | None, **said: Any
) -> tuple[Shape, StructType]:
    """What the rows look like, for our tasks and for Spark."""
    zone = zone or str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        given = columns
        if isinstance(columns, str):
            given = StructType.fromDDL(columns)
        elif not isinstance(columns, StructType):
            given = from_arrow_schema(as_schema(columns))
        # What a mapping or an Arrow schema says may have several types that are one on Spark.
        shape = make_shape(row, to_arrow_schema(given, timezone="UTC"), zone=zone, **said)
        return shape, from_arrow_schema(shape.schema)
    except PySparkException as error:
        raise SchemaError(
            f"columns={columns!r} are no columns of Spark: {first_line(error)}",
            remedy='Give a schema such as "sno BIGINT, ipaddr STRING".',
        ) from error


def _asked(reader: Any, options: Mapping[str, Any] | None) -> Any:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgument(
            f"options={options!r} are no options with values.",
            remedy='Give for example {"maxFilesPerTrigger": 10}.',
        )
    return reader.options(**{str(name): value for name, value in (options or {}).items()})


def _place(spark: Any, path: Any) -> tuple[str, bool]:
    """The place of the files, and whether our tasks can read there without Spark."""
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        raise InvalidArgument(
            f"spark={spark!r} is no classic Spark session.",
            remedy="Give the session that wm.session() or SparkSession.builder has made.",
        )
    check_path(path, "path")
    place = os.fspath(path)
    java: Any = spark.sparkContext._jvm
    try:
        there = java.org.apache.hadoop.fs.Path(place)
        system = there.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        found = system.globStatus(there)
        is_local = str(system.getUri().getScheme()) == "file"
    except (PySparkException, Py4JJavaError) as error:
        raise InvalidArgument(
            f"{place!r} cannot be read: {words(error)}", remedy="Give a directory of XML files."
        ) from None
    if not found:
        raise InvalidArgument(
            f"{place!r} is not there.", remedy="Give a directory of XML files; create it first."
        )
    return place, is_local


# -- In a task.


def rows_of_files(shape: Shape, files: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of files that come as their paths, with their contents if tasks cannot open them."""
    settle()
    with in_one_sentence():
        for batch in files:
            contents = batch.column("content") if "content" in batch.schema.names else None
            for number, path in enumerate(batch.column("path").to_pylist()):
                content = None if contents is None else contents[number].as_buffer()
                yield from Convert(shape, path).batches_of_file(_chunks(path, content))


def _chunks(path: str, content: pa.Buffer | None) -> Iterator[bytes]:
    """Paths are as Hadoop writes them: nothing in them is escaped."""
    source = path.removeprefix("file:") if content is None else pa.BufferReader(content)
    compression = _compression(path)
    try:
        with pa.input_stream(source, compression=compression) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    except (OSError, pa.ArrowInvalid) as error:
        if compression is not None and getattr(error, "errno", None) is None:
            raise MalformedInput(
                f"{path} is not compressed as its name says, or was cut off: {one_line(error)}.",
                remedy="Write it anew.",
                line=1,
                column=1,
            ) from error
        raise InputChanged(
            f"{path} cannot be read: {one_line(error)}.",
            remedy="Keep files where they are until they have been read, where every executor can "
            "read them, and move them there when they are complete.",
        ) from error


def _compression(path: str) -> str | None:
    try:
        return str(pa.Codec.detect(path).name)
    except (TypeError, ValueError):  # Arrow's way to say that it is not compressed.
        return None
