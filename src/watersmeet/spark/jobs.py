"""Runs a list of Python tasks as one Spark job, and returns their small results to the driver."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext, TaskContext, inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from watersmeet import errors
from watersmeet.spark.computing import computing
from watersmeet.spark.crossing import crossing
from watersmeet.spark.interpreter import missing_in_worker, our_python
from watersmeet.spark.worker import settle

Task = TypeVar("Task")
Result = TypeVar("Result")
Record = dict[str, Any]
"""A result that consists of plain values with names."""

_MESSAGES = pa.schema([("message", pa.binary())])
_SPARK_MESSAGES = "message binary"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLED = "spark.sql.shuffle.partitions"
# Of a table, so that a first part of it is small: as small as the first of several waves.
MANY = 40
# A file that Spark cannot cut small enough otherwise: it counts opening one as this many bytes.
_OPENING = 256 * 1024
_LEAST_FILES, _OPENING_COST = "spark.sql.files.minPartitionNum", "spark.sql.files.openCostInBytes"
# The most of a partition of files; the least number of them can make it less.
_FILE_BYTES = "spark.sql.files.maxPartitionBytes"
# The signs that draw the tree of a plan, and the first word behind them.
_TREE = " :+-"
_NODE = re.compile(r"\w+")
# Nodes whose rows do not depend on how those below are divided.
_INDIFFERENT = {
    *("Aggregate", "ArrowEvalPython", "BatchEvalPython", "Expand", "Filter", "Generate"),
    *("InMemoryRelation", "Join", "LocalRelation", "LogicalRDD", "Project", "Range"),
    *("RebalancePartitions", "Relation", "Repartition", "RepartitionByExpression"),
    *("Sort", "Union", "Window"),
}
# Spark's own, which starts 200 tasks for a handful of rows if its plans cannot adapt.
_DEFAULT_SHUFFLED = "200"
# Plans are made under settings that are put back, by one thread at a time.
_PLANNING = threading.Lock()
# What Spark says of a worker that has ended.
_CRASHED = "Python worker exited unexpectedly"
# Spark tasks for each core: more than one, so that other cores do not wait long for a slow one.
_TASKS_EACH = 3


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    *,
    at_once: int,
    query: str,
    what: str,
    told: Mapping[str, str] | None = None,
) -> list[Result]:
    """Do `work` for each task; returns the results in order. `told` are properties that tasks see.

    If there are many tasks, a Spark task does several of them in turn, because starting one takes
    longer than a little work; there are a few Spark tasks for each of the `at_once` that Spark runs
    at a time. A task has one result, that of the attempt that Spark accepts.
    """
    if not tasks:
        return []

    def do(numbers: Iterable[int]) -> Iterable[bytes]:
        settle()
        return _told((number, work(tasks[number])) for number in numbers)

    with (
        named(spark, query=query, what=what),
        _told_to(spark.sparkContext, told or {}),
        _with_workers(what),
    ):
        count = min(len(tasks), _TASKS_EACH * at_once)
        # An RDD, because planning a DataFrame would take Spark longer than small tasks take.
        numbers = spark.sparkContext.parallelize(range(len(tasks)), count)
        by_task = dict(_heard(numbers.mapPartitions(do).collect()))
    return [by_task[number] for number in range(len(tasks))]


def run_over(
    dataframe: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[Result]],
    *,
    query: str,
    what: str,
) -> list[Result]:
    """Do `work` on the rows of each partition of a DataFrame; returns all results, in any order."""

    names = dataframe.columns

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for message in _told(work(_renamed(batches, names))):
            yield pa.RecordBatch.from_pydict({"message": [message]}, schema=_MESSAGES)

    with (
        computing(what),
        named(dataframe.sparkSession, query=query, what=what),
        _PLANNING,
        crossing(dataframe),
    ):
        rows = _numbered(dataframe).mapInArrow(host, _SPARK_MESSAGES).collect()
    return _heard([row.message for row in rows])


@contextmanager
def _with_workers(what: str) -> Iterator[None]:
    """Say it without Java's stack if a worker has ended as often as Spark tries a task."""
    try:
        yield
    except Py4JJavaError as error:
        if _CRASHED not in str(error.java_exception):
            raise
        raise errors.WorkerLost(
            f"A Python worker of Spark ended in the middle of a task ({what}).",
            remedy="Find out what ended it: a function of yours, or the system for lack of memory. "
            "Then less memory= helps. Spark tries tasks again if it was started so: "
            "local[2,4] instead of local[2], or spark.task.maxFailures on a cluster.",
        ) from None


def side_by_side(spark: SparkSession, calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of these calls, whose jobs run beside each other: a job takes a while to begin
    and to end, and cores are idle when its last task is not done."""
    if len(calls) < 2:
        return [call() for call in calls]
    first, *others = calls
    with ThreadPoolExecutor(len(others), thread_name_prefix="watersmeet-beside") as threads:
        later = [threads.submit(inheritable_thread_target(spark)(call)) for call in others]
        return [first(), *(each.result() for each in later)]


class Partitions(Generic[Result]):
    """The partitions of a DataFrame, of which some at a time are worked on, in any order.

    Spark computes the stages before them, such as a shuffle, only once.
    """

    def __init__(
        self,
        dataframe: DataFrame,
        work: Callable[[Iterator[pa.RecordBatch], int], Result],
        *,
        query: str,
        what: str,
        many: int | None = MANY,
        nbytes: int | None = None,
    ) -> None:
        """`work` is given a partition's rows and number. There are `many` of them, where it is for
        Spark to say how many; None for a plan without a shuffle, as it is. Files are cut after
        `nbytes` each, if they are given."""

        names = dataframe.columns

        def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            settle()
            context = TaskContext.get()
            assert context is not None
            rows = _renamed(batches, names)
            results = (work(rows, context.partitionId()) for _ in range(1))
            for message in _told(results):
                yield pa.RecordBatch.from_pydict({"message": [message]}, schema=_MESSAGES)

        self._spark = dataframe.sparkSession
        self._query = query
        self.is_deterministic = _is_deterministic(dataframe)
        chosen = many if self.is_deterministic else 0
        with (
            computing(what),
            named(self._spark, query=query, what=what),
            _PLANNING,
            nullcontext()
            if many is None
            else fixed_partitions(self._spark, many=chosen or 0, nbytes=nbytes),
            crossing(dataframe),
        ):
            self._rdd = _numbered(dataframe).mapInArrow(host, _SPARK_MESSAGES).rdd
            self.count = self._rdd.getNumPartitions()

    @property
    def is_shuffled(self) -> bool:
        """Whether stages come before the one that partitions are of."""
        lineage = self._rdd.toDebugString()
        return lineage is not None and b"Shuffled" in lineage

    def run(
        self, partitions: Sequence[int], *, what: str, told: Mapping[str, str] | None = None
    ) -> list[Result]:
        """The results of these partitions, in any order. `told` are properties that tasks see."""
        context = self._spark.sparkContext
        with (
            computing(what),
            named(self._spark, query=self._query, what=what),
            _told_to(context, told or {}),
        ):
            messages = context.runJob(
                self._rdd, lambda rows: [row.message for row in rows], list(partitions)
            )
        return _heard(messages)


@contextmanager
def _told_to(context: SparkContext, properties: Mapping[str, str]) -> Iterator[None]:
    for name, value in properties.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name in properties:
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


def _numbered(dataframe: DataFrame) -> DataFrame:
    """The DataFrame with numbers for names if a name has a backtick, with which PySpark fails."""
    if not any("`" in name for name in dataframe.columns):
        return dataframe
    return dataframe.toDF(*map(str, range(len(dataframe.columns))))


def _renamed(batches: Iterator[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if batch.schema.names == names else batch.rename_columns(names)


def count_partitions(dataframe: DataFrame, *, many: int = MANY, nbytes: int | None = None) -> int:
    """How many partitions a DataFrame has for `Partitions`, if `many` are asked for."""
    chosen = many if _is_deterministic(dataframe) else 0
    with fixed_partitions(dataframe.sparkSession, many=chosen, nbytes=nbytes):
        # A plan of its own: the DataFrame's was made when it was first used, with other settings.
        return int(dataframe.select("*").rdd.getNumPartitions())


def _is_deterministic(dataframe: DataFrame) -> bool:
    """Whether rows are the same however they are divided into partitions.

    Spark knows which expressions are not, such as rand(). What it does not say is that a sample, a
    limit and functions of whole partitions depend on them, too.
    """
    plan = dataframe._jdf.queryExecution().optimizedPlan()
    if not plan.deterministic():
        return False
    return all(name in _INDIFFERENT for name in nodes(plan.toString()))


def nodes(plan: str) -> Iterator[str]:
    """The names of the nodes in a plan's text, without those below rows that are cached."""
    cached: int | None = None
    for line in plan.splitlines():
        node = line.lstrip(_TREE)
        depth = len(line) - len(node)
        if node and (cached is None or depth <= cached):
            found = _NODE.match(node)
            name = "" if found is None else found[0]
            cached = depth if name == "InMemoryRelation" else None
            yield name


@contextmanager
def fixed_partitions(
    spark: SparkSession, *, many: int, nbytes: int | None = None
) -> Iterator[None]:
    """Make Spark's plans without adaptive execution, so that their partitions are known before
    anything runs; about so `many` of them where files or a shuffle decide, or 0 for as many as
    Spark makes. With `nbytes`, files are cut after so many bytes instead.

    An adaptive plan would compute its shuffles twice: to count the partitions, and to work on them.
    """
    chosen = {_ADAPTIVE: "false"}
    if many:
        chosen |= {_LEAST_FILES: str(many), _OPENING_COST: str(_OPENING)}
        if nbytes is not None:
            chosen |= {_LEAST_FILES: "1", _FILE_BYTES: str(nbytes)}
        if spark.conf.get(_SHUFFLED) == _DEFAULT_SHUFFLED:
            chosen[_SHUFFLED] = str(min(many, int(_DEFAULT_SHUFFLED)))
    before = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _told(results: Iterator[Any]) -> Iterator[bytes]:
    """Pickle results, as Spark does with what tasks return, and our own errors, too: as a normal
    result, so that Spark does not repeat a task that would fail again.
    """
    try:
        for result in results:
            yield pickle.dumps({"result": result})
    except errors.WatersmeetError as error:
        told = {"kind": type(error).__name__, "cause": error.cause, "remedy": error.remedy}
        yield pickle.dumps({"error": told})


def _heard(messages: Sequence[bytes]) -> list[Any]:
    """The results in the messages of `_told`; raises the first error among them."""
    heard = [pickle.loads(message) for message in messages]
    for each in heard:
        if "error" in each:
            told = each["error"]
            raise _kind(told["kind"])(told["cause"], remedy=told["remedy"])
    return [each["result"] for each in heard]


def _kind(name: str) -> type[errors.WatersmeetError]:
    """The class of an error by its name, among all subclasses: not all are in `errors`."""
    waiting = [errors.WatersmeetError]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name:
            return kind
        waiting += kind.__subclasses__()
    return errors.WatersmeetError


@contextmanager
def named(spark: SparkSession, *, query: str, what: str) -> Iterator[None]:
    """Run the jobs of this thread on a Python that has our packages, with a description for Spark's
    UI and a tag by which they can be cancelled. Afterwards the user's description is set again.
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
    """Cancel the jobs of a query, unless its session has been stopped."""
    if spark.sparkContext._jsc is None:
        return
    # A session that is just being stopped ends all jobs anyway, and may raise any of these.
    with suppress(Py4JError, OSError, AttributeError):
        spark.sparkContext.cancelJobsWithTag(query)
