"""Joins that answer while the data is still arriving, inside the memory they are given.

>>> import watersmeet as wm
>>> wm.errors.InvalidArgument.__name__
'InvalidArgument'
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from watersmeet import errors

__all__ = [
    "StreamLog", "__version__", "aggregate", "avg", "band", "between", "clustered", "count",
    "enrich", "errors", "explain_stream", "join", "join_many", "join_many_streams", "join_streams",
    "local", "ordered", "overlaps", "plan_enrich", "postgres", "punctuated", "quarantine",
    "session", "stddev", "stddev_pop", "stream_error", "stream_metrics", "sum", "unique", "var_pop",
    "variance", "watermark", "within", "xml_stream", "xml_table",
]  # fmt: skip

# What needs Spark, and the module it comes from.
_SPARK = {
    "StreamLog": "watersmeet.spark.microbatches.metrics",
    "aggregate": "watersmeet.spark.aggregates.aggregate",
    "enrich": "watersmeet.spark.enrich.enrich",
    "explain_stream": "watersmeet.spark.explain_stream",
    "join": "watersmeet.spark.tables.join",
    "join_many": "watersmeet.spark.tables.many",
    "join_many_streams": "watersmeet.spark.streams.many",
    "join_streams": "watersmeet.spark.streams.join",
    "quarantine": "watersmeet.spark.microbatches.quarantine",
    "session": "watersmeet.spark.session",
    "stream_error": "watersmeet.spark.microbatches.failure",
    "stream_metrics": "watersmeet.spark.microbatches.metrics",
    "xml_stream": "watersmeet.spark.xml_files",
    "xml_table": "watersmeet.spark.xml_files",
}

# How aggregates are written, with Spark or without.
_AGGREGATES = {"avg", "count", "stddev", "stddev_pop", "sum", "var_pop", "variance"}

# How bands and intervals are written, with Spark or without.
_BANDS = {"band", "within"}
_INTERVALS = {"between", "overlaps"}

# What sources promise, with Spark or without.
_PROMISES = {"clustered", "ordered", "punctuated", "unique", "watermark"}

if TYPE_CHECKING:
    from watersmeet import local
    from watersmeet.aggregates.ask.specification import (
        avg,
        count,
        stddev,
        stddev_pop,
        sum,
        var_pop,
        variance,
    )
    from watersmeet.local.plan_enrich import plan_enrich
    from watersmeet.local.postgres import postgres
    from watersmeet.promises.kinds import clustered, ordered, punctuated, unique, watermark
    from watersmeet.rows.intervals import between, overlaps
    from watersmeet.rows.spans import band, within
    from watersmeet.spark.aggregates.aggregate import aggregate
    from watersmeet.spark.enrich.enrich import enrich
    from watersmeet.spark.explain_stream import explain_stream
    from watersmeet.spark.microbatches.failure import stream_error
    from watersmeet.spark.microbatches.metrics import StreamLog, stream_metrics
    from watersmeet.spark.microbatches.quarantine import quarantine
    from watersmeet.spark.session import session
    from watersmeet.spark.streams.join import join_streams
    from watersmeet.spark.streams.many import join_many_streams
    from watersmeet.spark.tables.join import join
    from watersmeet.spark.tables.many import join_many
    from watersmeet.spark.xml_files import xml_stream, xml_table

    __version__: str
else:

    def __getattr__(name: str) -> Any:
        # Loaded when asked for: the kernels behind `local` take a moment, and reading package
        # metadata takes three times as long as all the rest of `import watersmeet` (30 ms).
        if name == "local":
            return import_module("watersmeet.local")
        if name in _AGGREGATES:
            return getattr(import_module("watersmeet.aggregates.ask.specification"), name)
        if name in _BANDS:
            return getattr(import_module("watersmeet.rows.spans"), name)
        if name in _INTERVALS:
            return getattr(import_module("watersmeet.rows.intervals"), name)
        if name in _PROMISES:
            return getattr(import_module("watersmeet.promises.kinds"), name)
        if name in ("plan_enrich", "postgres"):
            return getattr(import_module(f"watersmeet.local.{name}"), name)
        if name in _SPARK:
            return getattr(_import_spark(_SPARK[name], name), name)
        if name == "__version__":
            return import_module("importlib.metadata").version("watersmeet")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _import_spark(module: str, name: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark":
            raise
        raise errors.MissingPackage(
            f"wm.{name} runs on Spark, and pyspark is not installed.",
            remedy="Run `pip install '.[spark]'` in a clone of watersmeet, or use wm.local, which "
            "needs none of it.",
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
