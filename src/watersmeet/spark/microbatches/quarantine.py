"""Rows that broke a promise, written aside: Parquet files beside the state, each row once.

    STATE/quarantine/00000017-0003-....parquet     what batch 17 brought to instance 3

A batch writes its rows to a file of its version, which the manifest names, so of several attempts
one counts. Before a row of that batch goes out, the file gets its name in the folder `quarantine`,
where it stays when the version goes. Batch, instance and version give the name, so an attempt that
is made again finds it there.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from watersmeet.errors import SchemaError, StateError
from watersmeet.spark.microbatches.state import (
    InstanceState,
    Manifest,
    StateDirectory,
    publish,
    unusable,
)
from watersmeet.spark.microbatches.task import Task
from watersmeet.store.spill import SpillArea

_FOLDER = "quarantine"
# Spark does not read files whose names begin like this.
_SCHEMA = f"{_FOLDER}/_schema.json"
_ABOUT = (
    ("side", pa.string()),
    ("batch", pa.int64()),
    ("instance", pa.int32()),
    ("promise", pa.string()),
)


class Quarantine:
    """The rows of one batch of one instance that broke a promise, in a file as they come."""

    def __init__(self, inputs: Sequence[pa.Schema], names: Sequence[str], *, task: Task) -> None:
        self.rows = 0
        self._names = names
        self._task = task
        self._schema = _arrow_schema(inputs, names)
        self._writer: pq.ParquetWriter | None = None
        self._path: Path | None = None

    def append(
        self, input: int, rows: pa.RecordBatch, promises: Sequence[str], *, area: SpillArea
    ) -> None:
        """Put rows of an input aside; `promises` says in words which one each has broken."""
        count = len(rows)
        if self._writer is None:
            self._path = area.path / f"quarantine-{uuid.uuid4().hex}"
            self._writer = pq.ParquetWriter(self._path, self._schema)
        about = [
            pa.repeat(pa.scalar(self._names[input], pa.string()), count),
            pa.repeat(pa.scalar(self._task.batch, pa.int64()), count),
            pa.repeat(pa.scalar(self._task.instance, pa.int32()), count),
            pa.array(promises, pa.string()),
        ]
        whole = [
            pa.StructArray.from_arrays(rows.columns, fields=list(field.type))
            if number == input
            else pa.nulls(count, field.type)
            for number, field in enumerate(list(self._schema)[len(_ABOUT) :])
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(about + whole, schema=self._schema))
        self.rows += count

    def finish(self, state: InstanceState) -> str | None:
        """Make the file one of the version's; its name there, None if no row was put aside."""
        if self._writer is None or self._path is None:
            return None
        self._writer.close()
        path = self._path
        self._writer = None
        name = state.put(path)
        path.unlink()
        return name


def _arrow_schema(inputs: Sequence[pa.Schema], names: Sequence[str]) -> pa.Schema:
    structs = [(name, pa.struct(list(each))) for name, each in zip(names, inputs, strict=True)]
    return pa.schema([*_ABOUT, *structs])


def prepare(
    directory: StateDirectory,
    schemas: Sequence[StructType],
    inputs: Sequence[pa.Schema],
    names: Sequence[str],
) -> None:
    """Find out whether rows of these columns can be written aside, and note their types."""
    for name, schema in zip(names, inputs, strict=True):
        for field in schema:
            try:
                pq.write_table(pa.schema([field]).empty_table(), pa.BufferOutputStream())
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
                raise SchemaError(
                    f'on_broken="quarantine" writes rows to Parquet files, and column '
                    f"{field.name!r} of the {name} stream cannot be written there: {error}.",
                    remedy='Cast it or leave it out, or give on_broken="drop".',
                ) from error
    kinds = (StringType(), LongType(), IntegerType(), StringType())
    about = [StructField(name, kind) for (name, _), kind in zip(_ABOUT, kinds, strict=True)]
    own = [StructField(name, schema) for name, schema in zip(names, schemas, strict=True)]
    system, root = directory.system()
    try:
        system.create_dir(f"{root}/{_FOLDER}", recursive=True)
        with system.open_output_stream(f"{root}/{_SCHEMA}") as out:
            out.write(StructType(about + own).json().encode())
    except OSError as error:
        raise unusable(directory.uri, error) from error


def release(directory: StateDirectory, state: InstanceState, manifest: Manifest) -> None:
    """Let the rows that a committed version has put aside be seen, unless they are already."""
    name = manifest.get("quarantine")
    if name is None:
        return
    system, root = directory.system()
    final = f"{root}/{_FOLDER}/{_name(manifest['batch'], state, manifest['id'])}"
    if system.get_file_info(final).type is not fs.FileType.NotFound:
        return
    draft = f"{root}/{_FOLDER}/_draft-{uuid.uuid4().hex}"
    try:
        system.create_dir(f"{root}/{_FOLDER}", recursive=True)
        with state.open(name) as source, system.open_output_stream(draft) as out:
            shutil.copyfileobj(source, out)
        publish(system, draft, final)
    except OSError as error:
        raise unusable(directory.uri, error) from error


def take_back(directory: StateDirectory, state: InstanceState, batch: int) -> None:
    """Remove what this instance put aside from a batch on: its state was taken back to before.

    Another attempt at the batch may have committed it meanwhile. It does so before its file is
    there, so the version is looked at after the files.
    """
    system, root = directory.system()
    found = system.get_file_info(fs.FileSelector(f"{root}/{_FOLDER}", allow_not_found=True))
    since = [info for info in found if _is_since(info.base_name, state, batch)]
    committed = state.read(batch) if since else None
    for info in since:
        if committed is None or info.base_name != _name(batch, state, committed["id"]):
            system.delete_file(info.path)


def _name(batch: int, state: InstanceState, version: str) -> str:
    return f"{batch:08}-{state.number:04}-{version}.parquet"


def _is_since(name: str, state: InstanceState, batch: int) -> bool:
    number, instance, *_ = [*name.split("-"), "", ""]
    return number.isdigit() and int(number) >= batch and instance == f"{state.number:04}"


def quarantine(spark: SparkSession, state: str | os.PathLike[str]) -> DataFrame:
    """The rows that broke a promise of `wm.join_streams(..., on_broken="quarantine")`, each once.

    There is a row for each: which `side` it came with, in which `batch`, to which `instance`, which
    `promise` it broke, and its columns as a struct named `left` or `right`; the other one is null.

        wm.quarantine(spark, "state").where("side = 'left'").select("promise", "left.*")
    """
    directory = StateDirectory.parse(state)
    directory.check()
    system, root = directory.system()
    try:
        with system.open_input_stream(f"{root}/{_SCHEMA}") as source:
            text = bytes(source.read()).decode()
    except OSError:
        raise StateError(
            f"{directory.uri} is the state of a join that puts no rows aside.",
            remedy='Give the state of a join_streams with on_broken="quarantine".',
        ) from None
    schema = StructType.fromJson(json.loads(text))
    folder = f"{directory.uri}/{_FOLDER}"
    local = directory.local_path
    return spark.read.schema(schema).parquet(f"file://{local}/{_FOLDER}" if local else folder)
