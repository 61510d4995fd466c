"""What joins in micro-batches are called with: streams, memory, and where they keep files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from watersmeet.errors import InvalidArgument, MemoryTooSmall, SchemaError
from watersmeet.spark.cluster import is_one_machine
from watersmeet.spark.columns import check_names
from watersmeet.spark.frames import check_dataframe
from watersmeet.spark.keys import first_line
from watersmeet.spark.microbatches.state import Manifest, StateDirectory
from watersmeet.store.shares import SMALLEST_MEMORY, MemoryShares


def check_stream(stream: Any, name: str, *, tables: str) -> None:
    """Refuse what is no stream. `tables` is what tables are joined with."""
    check_dataframe(stream, name)
    if not stream.isStreaming:
        raise InvalidArgument(
            f"{name} is a DataFrame that does not stream.",
            remedy=f"Use {tables} for tables; read the table with spark.readStream to join it "
            "with a stream.",
        )
    check_names(stream.columns, stream.sparkSession, whose=f"{name}, a stream, has")


def arrow_schema(frame: DataFrame, what: str) -> pa.Schema:
    """The columns of a DataFrame as they come to Python; `what` it is called in messages."""
    for field in frame.schema.fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            raise SchemaError(
                f"Column {field.name!r} of the {what}, of type "
                f"{field.dataType.simpleString()}, cannot travel to Python: {first_line(error)}",
                remedy="Cast it to another type or leave it out.",
            ) from error
    return to_arrow_schema(frame.schema, timezone="UTC")


def spill_dir_of(directory: StateDirectory, spark: SparkSession) -> str | None:
    """Beside the state if all of it is on this machine: spilled files join it by a link then."""
    local = directory.local_path
    if local is None or not is_one_machine(spark):
        return None
    (local / "spill").mkdir(exist_ok=True)
    return str(local / "spill")


def saved_instances(saved: Manifest | None) -> int:
    """How many instances a state has; 0 if that is not known, whatever is wrong with it."""
    return int(saved.get("parameters", {}).get("instances", 0)) if saved else 0


def memory_each(memory: int | str, sharers: int) -> int:
    limit, _ = MemoryShares.parse(memory)
    if limit // sharers < SMALLEST_MEMORY:
        raise MemoryTooSmall(
            f"memory={memory!r} leaves {limit // sharers:,} bytes for each of the {sharers} "
            "instances on a machine.",
            remedy=f"Give at least {sharers * SMALLEST_MEMORY // 2**20}MB.",
        )
    return limit // sharers
