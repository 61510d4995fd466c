"""How a list of Python tasks becomes one Spark job whose small results come back to the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from watersmeet import errors
from watersmeet.spark.computing import computing
from watersmeet.spark.interpreter import missing_in_worker, our_python
from watersmeet.spark.worker import settle

Task = TypeVar("Task")
Record = dict[str, Any]
"""What a task tells the driver, as JSON values."""

_MESSAGES = pa.schema([("message", pa.string())])
_SPARK_MESSAGES = "message string"
_ADAPTIVE = "spark.sql.adaptive.enabled"
# More than one, so that a slow one does not leave the others' cores idle for long.
_SHARES = 3


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Record],
    *,
    at_once: int,
    query: str,
    what: str,
) -> list[Record]:
    """Do `work` for each task; the results in order.

    There are a few Spark tasks for each of the `at_once` that run at a time, which do several of
    ours in turn if there are many: starting one takes longer than a small piece of work. A result
    is delivered once, by whichever attempt Spark accepts.
    """
    if not tasks:
        return []

    def do(numbers: Iterable[int]) -> Iterable[str]:
        settle()
        return _told({"task": number, "result": work(tasks[number])} for number in numbers)

    with named(spark, query=query, what=what):
        shares = min(len(tasks), _SHARES * at_once)
        # An RDD: a DataFrame of numbers would take Spark longer to plan than small tasks to do.
        numbers = spark.sparkContext.parallelize(range(len(tasks)), shares)
        records = _heard(numbers.mapPartitions(do).collect())
    by_task = {record["task"]: record["result"] for record in records}
    return [by_task[number] for number in range(len(tasks))]


def run_over(
    dataframe: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[Record]],
    *,
    query: str,
    what: str,
) -> list[Record]:
    """Do `work` on the rows of every partition of a DataFrame; all results, in no order."""

    names = dataframe.columns

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for message in _told(work(_renamed(batches, names))):
            yield pa.RecordBatch.from_pydict({"message": [message]}, schema=_MESSAGES)

    with computing(what), named(dataframe.sparkSession, query=query, what=what):
        rows = _numbered(dataframe).mapInArrow(host, _SPARK_MESSAGES).collect()
    return _heard([row.message for row in rows])


class Partitions:
    """The partitions of a DataFrame, worked on in any order, some at a time.

    What comes before them in the DataFrame's plan, such as a shuffle, Spark computes once.
    """

    def __init__(
        self,
        dataframe: DataFrame,
        work: Callable[[Iterator[pa.RecordBatch], int], Record],
        *,
        query: str,
        what: str,
    ) -> None:
        """`work` is given a partition's rows and number."""

        names = dataframe.columns

        def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            settle()
            context = TaskContext.get()
            assert context is not None
            rows = _renamed(batches, names)
            records = (work(rows, context.partitionId()) for _ in range(1))
            for message in _told(records):
                yield pa.RecordBatch.from_pydict({"message": [message]}, schema=_MESSAGES)

        self._spark = dataframe.sparkSession
        self._query = query
        with named(self._spark, query=query, what=what), fixed_partitions(self._spark):
            self._rdd = _numbered(dataframe).mapInArrow(host, _SPARK_MESSAGES).rdd

    def run(self, partitions: Sequence[int], *, what: str) -> list[Record]:
        """The results of these partitions, in no order."""
        with computing(what), named(self._spark, query=self._query, what=what):
            texts = self._spark.sparkContext.runJob(
                self._rdd, lambda rows: [row.message for row in rows], list(partitions)
            )
        return _heard(texts)


def _numbered(dataframe: DataFrame) -> DataFrame:
    """With numbers for names where PySpark, which asks for the columns by name, would stumble."""
    if not any("`" in name for name in dataframe.columns):
        return dataframe
    return dataframe.toDF(*map(str, range(len(dataframe.columns))))


def _renamed(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if batch.schema.names == names else batch.rename_columns(names)


def count_partitions(dataframe: DataFrame) -> int:
    """How many partitions a DataFrame has while they are fixed."""
    with fixed_partitions(dataframe.sparkSession):
        return int(dataframe.rdd.getNumPartitions())


@contextmanager
def fixed_partitions(spark: SparkSession) -> Iterator[None]:
    """Have plans made whose partitions are known before anything runs.

    An adaptive plan would run its shuffles to find out, once to count the partitions and once
    more to work on them.
    """
    before = spark.conf.get(_ADAPTIVE)
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, before or "true")


def _told(records: Iterator[Record]) -> Iterator[str]:
    """Records as texts; an error of ours is told as well.

    It says all there is to say, and another attempt would meet it too.
    """
    try:
        for record in records:
            yield json.dumps({"record": record})
    except errors.WatersmeetError as error:
        told = {"kind": type(error).__name__, "cause": error.cause, "remedy": error.remedy}
        yield json.dumps({"error": told})


def _heard(texts: Sequence[str]) -> list[Record]:
    """What was told, or the first error among it."""
    messages = [json.loads(text) for text in texts]
    for message in messages:
        if "error" in message:
            told = message["error"]
            raise _kind(told["kind"])(told["cause"], remedy=told["remedy"])
    return [message["record"] for message in messages]


def _kind(name: str) -> type[errors.WatersmeetError]:
    """An error's class by its name: not all are where the general ones are."""
    waiting = [errors.WatersmeetError]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name:
            return kind
        waiting += kind.__subclasses__()
    return errors.WatersmeetError


@contextmanager
def named(spark: SparkSession, *, query: str, what: str) -> Iterator[None]:
    """Run the jobs of this thread on a Python that has what they need, described in Spark's UI.

    They are tagged, so that they can be cancelled. The user's own description is given back.
    """
    context = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(f"watersmeet {query}: {what}")
    context.addJobTag(query)
    try:
        with our_python(spark):
            yield
    except Exception as error:
        missing = missing_in_worker(str(error))
        if missing is None:
            raise
        raise missing from None
    finally:
        context.removeJobTag(query)
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]


def cancel(spark: SparkSession, query: str) -> None:
    """End the jobs of a query, if its session has not been stopped before, or is being stopped."""
    if spark.sparkContext._jsc is None:
        return
    # A session that stops meanwhile ends all jobs anyway, and answers with any of these.
    with suppress(Py4JError, OSError, AttributeError):
        spark.sparkContext.cancelJobsWithTag(query)
