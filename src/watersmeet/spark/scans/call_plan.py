"""Are functions that Spark's plan calls such as our tasks can call with the same results?"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_json_value,
)
from pyspark.util import PythonEvalType

from watersmeet.expressions.nodes import Column
from watersmeet.expressions.nodes import Node as Expression
from watersmeet.model import Side
from watersmeet.spark.gateway import java_class
from watersmeet.spark.interpreter import TRACEBACK, interpreter_of
from watersmeet.spark.scans.calls import Calls, Function
from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.filters import ExprId, Node, Translation
from watersmeet.spark.scans.formulas import Computed
from watersmeet.spark.scans.refusal import Refused
from watersmeet.words import count_text

NODE = "org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPython"
"""The plan's node that calls functions on rows in Arrow's form."""

_RUNNER = "org.apache.spark.sql.execution.python.ArrowPythonRunner"
# Those that are given rows as they come. Others go through a partition, from its first row.
_FORMS = (
    PythonEvalType.SQL_ARROW_BATCHED_UDF,
    PythonEvalType.SQL_SCALAR_ARROW_UDF,
    PythonEvalType.SQL_SCALAR_PANDAS_UDF,
)
# What a pickled function has if it does such things, and why they are left to Spark.
_TELLING = {
    # We may call a function again for the same row, and Spark would count both.
    b"_deserialize_accumulator": "adds to an accumulator, which would count rows that are read "
    "twice",
    # Numbers of our tasks come again in every wave.
    b"TaskContext": "asks for Spark's TaskContext, and would be told of our tasks",
}
_CALL, _KEYWORD = "PythonUDF", "NamedArgumentExpression"
_TYPES = (
    *(NumericType, BooleanType, StringType, BinaryType),
    *(DateType, TimestampType, TimestampNTZType),
)
# Rows of a batch for who sets 0 or less.
_UNLIMITED = 2**31 - 1
# A function of values does not see how many rows there are: a call took 114 ns a row with so many,
# and 144 ns with the session's 10,000, whose objects are no longer in the processor's cache.
_VALUES_AT_ONCE = 2_000
_LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
_PROFILER = "spark.sql.pyspark.udf.profiler"
_LOGGING = "spark.sql.pyspark.worker.logging.enabled"


@dataclass(frozen=True)
class Session:
    """What functions are called with."""

    settings: tuple[tuple[str, str], ...]
    timezone: str
    batch_rows: int
    batch_bytes: int
    program: str
    """The Python of our tasks."""
    environment: Mapping[str, str]
    includes: frozenset[str]

    @classmethod
    def of(cls, spark: SparkSession) -> Session:
        context = spark.sparkContext
        conf = spark._jsparkSession.sessionState().conf()
        if conf.getConfString(_LARGE_TYPES) != "false":
            raise Refused(f"it calls a Python function, and {_LARGE_TYPES} is not false")
        if conf.getConfString(_LOGGING) != "false":
            raise Refused(f"it calls a Python function, and {_LOGGING} is not false")
        if conf.contains(_PROFILER):
            raise Refused(f"it calls a Python function, and {_PROFILER} is set")
        return cls(
            settings=_settings(context, conf),
            timezone=str(conf.sessionLocalTimeZone()),
            batch_rows=most if (most := int(conf.arrowMaxRecordsPerBatch())) > 0 else _UNLIMITED,
            batch_bytes=int(conf.arrowMaxBytesPerBatch()),
            program=interpreter_of(spark),
            environment=_without_traceback(context.environment),
            includes=frozenset(context._python_includes or ()),
        )


def _settings(context: SparkContext, conf: JavaObject) -> tuple[tuple[str, str], ...]:
    """What Spark tells its workers of the session."""
    told = java_class(context, _RUNNER).getPythonRunnerConfMap(conf)
    names = told.keys().mkString("\n").split("\n")
    return tuple((name, str(told.apply(name))) for name in names if name)


def _without_traceback(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != TRACEBACK}


@dataclass
class CallReader:
    """Reads the calls of one node of the plan."""

    spark: SparkSession
    find: Callable[[ExprId], Expression | None]
    """What columns of the plan are in the table."""

    def __post_init__(self) -> None:
        self._session = Session.of(self.spark)
        self._arguments: list[Computed] = []
        self._types: list[DataType] = []
        # By Spark's hash, since each question to Java takes a while.
        self._given: dict[int, list[tuple[JavaObject, int]]] = defaultdict(list)

    def read(
        self, node: JavaObject, fields: Mapping[str, Any], names: Iterator[str]
    ) -> tuple[Calls, list[tuple[ExprId, Computed]]]:
        """The calls of a node, given as the plan's object and in Spark's JSON, and the columns that
        results are. `names` are for these."""
        form = int(node.evalType())
        udfs = node.udfs()
        live = [udfs.apply(place) for place in range(udfs.size())]
        described = [Node.parse(each) for each in fields["udfs"]]
        functions = [self._function(*each, form) for each in zip(live, described, strict=True)]
        if not self._arguments:
            raise Refused(f"{live[0].sql()} is called without an argument")
        attributes = [Node.parse(each) for each in fields["resultAttrs"]]
        results = [
            pa.field(next(names), to_arrow_type(_type_of(each, each.sql()), timezone="UTC"))
            for each in live
        ]
        columns = [
            (attribute.expr_id, Computed(each.sql(), Column(Side.LEFT, field.name, field.type)))
            for attribute, each, field in zip(attributes, live, results, strict=True)
        ]
        kinds = [StructField(f"_{place}", kind) for place, kind in enumerate(self._types)]
        calls = Calls(
            text=_text([str(each.sql()) for each in live]),
            functions=tuple(functions),
            results=tuple(results),
            arguments=tuple(self._arguments),
            kinds=tuple(
                to_arrow_type(kind, timezone=self._session.timezone) for kind in self._types
            ),
            spark_kinds=StructType(kinds).json(),
            form=form,
            settings=self._session.settings,
            batch_rows=self._rows_at_once(form),
            batch_bytes=self._session.batch_bytes,
        )
        return calls, columns

    def _rows_at_once(self, form: int) -> int:
        of_values = form == PythonEvalType.SQL_ARROW_BATCHED_UDF
        most = self._session.batch_rows
        return min(most, _VALUES_AT_ONCE) if of_values else most

    def _function(self, live: JavaObject, described: Node, form: int) -> Function:
        """A function of which each argument may be what another one returns, if it is the only
        one: then Spark calls one after the other."""
        commands = [self._command(live, live, form)]
        inner, node = live, described
        while len(node.children) == 1 and node.children[0].name == _CALL:
            inner, node = inner.children().apply(0), node.children[0]
            commands.append(self._command(inner, live, form))
        places, keywords = [], []
        for child in node.children:
            named = child.name == _KEYWORD
            place = self._argument(child.children[0] if named else child, live)
            if named:
                keywords.append((str(child.fields["key"]), place))
            else:
                places.append(place)
        return Function(tuple(reversed(commands)), tuple(places), tuple(keywords))

    def _command(self, live: JavaObject, outermost: JavaObject, form: int) -> bytes:
        text, session, function = outermost.sql(), self._session, live.func()
        if form not in _FORMS or int(live.evalType()) != form:
            raise Refused(f"{text} goes through the rows of a partition")
        if not live.udfDeterministic():
            raise Refused(f"{text} is said to return something else each time")
        if not function.broadcastVars().isEmpty():
            raise Refused(f"{text} has a broadcast variable, or is larger than Spark sends along")
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if (function.pythonExec(), function.pythonVer()) != (session.program, version):
            raise Refused(f"{text} is for another Python than our tasks are run with")
        environment = _without_traceback(dict(function.envVars()))
        if environment != session.environment or not session.includes.issuperset(
            function.pythonIncludes()
        ):
            raise Refused(f"{text} was made when the session had other files or variables")
        class_tag = java_class(self.spark.sparkContext, "scala.reflect.ClassTag").Byte()
        command = bytes(function.command().toArray(class_tag))
        for part, reason in _TELLING.items():
            if part in command:
                raise Refused(f"{text} {reason}")
        return command

    def _argument(self, node: Node, live: JavaObject) -> int:
        """The place of an argument among all. What several are given is one argument, as in
        Spark: a function may change a pandas series that it is given."""
        text = live.sql()
        refused = f"{text} is given {{}}, which may have other values outside Spark"
        translation = Translation(live, self.find, refused)
        given = translation.live(node)
        alike = self._given[given.semanticHash()]
        for other, place in alike:
            if other.semanticEquals(given):
                return place
        tree = translation.value(node)
        kind = _type_of(given, text)
        if to_arrow_type(kind, timezone="UTC") != tree.kind:
            raise translation.refusal(node)
        alike.append((given, len(self._arguments)))
        self._types.append(kind)
        self._arguments.append(Computed(text, tree))
        return len(self._arguments) - 1


def _text(calls: Sequence[str]) -> str:
    first, *others = calls
    return f"{first} and {count_text(len(others), 'more function')}" if others else first


def _type_of(live: JavaObject, text: str) -> DataType:
    """Of an argument or a result; Refused if functions might be given it in another form."""
    said = live.dataType()
    kind = _parse_datatype_json_value(json.loads(said.json()))
    # Its JSON leaves a collation out.
    if not isinstance(kind, _TYPES) or "collate" in said.simpleString():
        raise Refused(f"{text} takes or returns {said.simpleString()}")
    return kind
