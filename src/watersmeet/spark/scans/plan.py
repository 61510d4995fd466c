"""Which files, columns and filter does Spark's optimized plan name, if it is no more than that?

A column may be computed, if what computes it translates exactly.

The plan is read in the JVM's own objects. A call there takes a tenth of a millisecond, so that what
can be large, the expressions, comes as one text in JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField, StructType

from watersmeet.expressions import nodes as expressions
from watersmeet.model import Side
from watersmeet.spark.scans.files import DataFile, JavaObject, list_files
from watersmeet.spark.scans.filters import ExprId, Node, Translation
from watersmeet.spark.scans.parquet import Dialect
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.scan import Computed, Filter, TableColumn

_SQL = "org.apache.spark.sql."
LOGICAL = f"{_SQL}catalyst.plans.logical."
STEPS = {
    f"{LOGICAL}{name}"
    for name in (
        "Project",
        "Filter",
        # A join does not keep the order of its inputs, nor how they are divided.
        "Sort",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
    )
}
_RELATION = f"{_SQL}execution.datasources.LogicalRelation"
_FILES = f"{_SQL}execution.datasources.HadoopFsRelation"
# This class and no other: table formats with deletes or column mapping derive theirs from it.
PARQUET = f"{_SQL}execution.datasources.parquet.ParquetFileFormat"

_REASONS = {
    "InMemoryRelation": "it is cached",
    "LogicalRDD": "its rows come from an RDD or a checkpoint",
    "LocalRelation": "its rows were given in the program",
}
# They decide which files there are and which columns the table has, and both are known by now.
HARMLESS_OPTIONS = {
    "basepath",
    "compression",
    "mergeschema",
    "modifiedafter",
    "modifiedbefore",
    "path",
    "pathglobfilter",
    "recursivefilelookup",
    "serialization.format",
}
_REQUIRED_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
}
_CRYPTO = "parquet.crypto.factory.class"


@dataclass(frozen=True)
class FileScan:
    """A choice of columns and rows of Parquet files."""

    columns: tuple[TableColumn, ...]
    # For each column of the DataFrame, its position in `columns` or how it is computed from them.
    output: tuple[int | Computed, ...]
    filter: Filter | None
    files: tuple[DataFile, ...]
    dialect: Dialect


def read_plan(dataframe: DataFrame) -> FileScan:
    """The scan that a classic DataFrame is; Refused if it is anything else."""
    root = dataframe._jdf.queryExecution().optimizedPlan()
    nodes = chain_of(root, STEPS, _RELATION)
    relation = nodes[-1].relation()
    _check(relation)
    session = dataframe.sparkSession
    dialect = dialect_of(session)
    inside, outside = (
        StructType.fromJson(json.loads(schema.json())).fields
        for schema in (relation.dataSchema(), relation.partitionSchema())
    )
    pipeline = Pipeline(Table.of(inside, outside, dialect))
    pipeline.follow(nodes, json.loads(root.toJSON()))
    return FileScan(
        columns=tuple(pipeline.columns),
        output=pipeline.output,
        filter=pipeline.filter,
        files=list_files(relation, nothing=_to_seq(session.sparkContext, [])),
        dialect=dialect,
    )


def chain_of(root: JavaObject, steps: Set[str], relation: str) -> list[JavaObject]:
    """The plan's nodes from the top, through steps of these classes, down to the relation."""
    nodes = [root]
    while (name := nodes[-1].getClass().getName()) in steps:
        nodes.append(nodes[-1].child())
    if name != relation:
        short = name.rsplit(".", 1)[-1]
        raise Refused(_REASONS.get(short, f"its plan has a node {short}"))
    return nodes


def _check(relation: JavaObject) -> None:
    kind = relation.getClass().getName()
    if kind != _FILES:
        raise Refused(f"it reads a {kind.rsplit('.', 1)[-1]}, not files")
    form = relation.fileFormat()
    if form.getClass().getName() != PARQUET:
        raise Refused(f"its format is {form.toString()}, not plain Parquet")
    check_options(relation.options().keys().mkString("\n").split("\n"), HARMLESS_OPTIONS)


def check_options(names: Iterable[str], known: Set[str]) -> None:
    unknown = sorted(name for name in names if name and name.lower() not in known)
    if unknown:
        raise Refused(f"it is read with the option {unknown[0]!r}")


def dialect_of(session: SparkSession) -> Dialect:
    """What a session makes of Parquet files; Refused if its settings ask for what we do not do."""
    state = session._jsparkSession.sessionState()
    if state.newHadoopConf().get(_CRYPTO) is not None:
        raise Refused(f"{_CRYPTO} is set, so its files may be encrypted")
    conf = state.conf()
    for name, required in _REQUIRED_SETTINGS.items():
        if conf.getConfString(name) != required:
            raise Refused(f"{name} is not {required}")
    rebase = "spark.sql.parquet.{}RebaseModeInRead"
    return Dialect(
        case_sensitive=conf.getConfString("spark.sql.caseSensitive") == "true",
        dates_as_written=conf.getConfString(rebase.format("datetime")) == "CORRECTED",
        int96_as_written=conf.getConfString(rebase.format("int96")) == "CORRECTED",
    )


@dataclass(frozen=True)
class Table:
    """The relation's columns in its own order: those of the files, then those of their paths."""

    fields: tuple[StructField, ...]
    file_columns: int

    @classmethod
    def of(
        cls, inside: Sequence[StructField], outside: Sequence[StructField], dialect: Dialect
    ) -> Table:
        names = Counter(dialect.folded(field.name) for field in [*inside, *outside])
        for name, count in names.items():
            if count > 1:
                raise Refused(f"its files and their paths have several columns {name!r}")
        return cls((*inside, *outside), len(inside))

    def column(self, position: int) -> TableColumn:
        field = self.fields[position]
        if field.name.startswith("_tmp_metadata_"):
            raise Refused(f"Spark makes column {field.name!r} up while it reads")
        if "EXISTS_DEFAULT" in field.metadata:
            raise Refused(f"column {field.name!r} has a default for files that lack it")
        if "collate" in field.dataType.simpleString():
            raise Refused(f"column {field.name!r} has a collation")
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            raise Refused(f"column {field.name!r} is {field.dataType.simpleString()}") from error
        place = position - self.file_columns
        return TableColumn(pa.field(field.name, kind), place if place >= 0 else None)


# A column of the table, by its position there, or one that is computed.
_Source = int | Computed
_COMPUTED = "column {name!r} is computed with {{}}, which may have other values outside Spark"
_REMEDY = "compute that column after the join, or write the DataFrame to Parquet files before it"


class Pipeline:
    """Follows columns from the relation up through filters and choices of columns."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.columns: list[TableColumn] = []
        self.output: tuple[_Source, ...] = ()
        self.filter: Filter | None = None
        # The columns in sight by Spark's identity of them; of those that are read, their position
        # in `columns`.
        self._visible: list[tuple[ExprId, _Source]] = []
        self._read: dict[int, int] = {}

    def follow(self, nodes: Sequence[JavaObject], described: Sequence[dict[str, Any]]) -> None:
        """Both from the top down: the plan's objects, and the same as Spark's JSON."""
        self._see([Node.parse(attribute) for attribute in described[-1]["output"]])
        for node, fields in zip(reversed(nodes[:-1]), reversed(described[:-1]), strict=True):
            if "condition" in fields:
                self._filter(node.condition(), Node.parse(fields["condition"]))
            elif "projectList" in fields:
                columns = [Node.parse(column) for column in fields["projectList"]]
                self._choose(node.projectList(), columns)
        self.output = tuple(
            source if isinstance(source, Computed) else self._use(source)
            for _, source in self._visible
        )

    def _see(self, attributes: Sequence[Node]) -> None:
        names = [field.name for field in self._table.fields]
        if [attribute.fields["name"] for attribute in attributes] != names:
            raise Refused("it has columns that are not the table's, such as _metadata")
        self._visible = [(node.expr_id, place) for place, node in enumerate(attributes)]

    def _choose(self, live: JavaObject, columns: Sequence[Node]) -> None:
        visible = dict(self._visible)
        chosen = []
        for place, column in enumerate(columns):
            source = column.children[0] if column.name == "Alias" else column
            if source.name == "AttributeReference" and source.expr_id in visible:
                chosen.append((column.expr_id, visible[source.expr_id]))
            else:
                chosen.append((column.expr_id, self._computed(live.apply(place), column)))
        self._visible = chosen

    def _computed(self, live: JavaObject, column: Node) -> Computed:
        refused = _COMPUTED.format(name=column.fields.get("name"))
        try:
            tree = Translation(live, self._find, refused).value(column.children[0])
        except Refused as reason:
            raise Refused(str(reason), remedy=_REMEDY) from None
        return Computed(live.child().sql(), tree)

    def _find(self, identity: ExprId) -> expressions.Node | None:
        source = dict(self._visible).get(identity)
        if source is None:
            return None
        if isinstance(source, Computed):
            return source.tree
        field = self.columns[self._use(source)].field
        return expressions.Column(Side.LEFT, field.name, field.type)

    def _filter(self, condition: JavaObject, node: Node) -> None:
        found = Filter(condition.sql(), Translation(condition, self._find).of(node))
        self.filter = found if self.filter is None else self.filter.and_then(found)

    def _use(self, position: int) -> int:
        if position not in self._read:
            column = self._table.column(position)
            self._read[position] = len(self.columns)
            self.columns.append(column)
        return self._read[position]
