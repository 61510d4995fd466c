"""Which files, columns and filter does Spark's optimized plan name, if it is no more than that?

A column may be computed, if what computes it translates exactly. A union has several tables, each
with files of its own format, columns and a filter.

The plan is read in the JVM's own objects. A call there takes a tenth of a millisecond, so that what
can be large, the expressions, comes as one text in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.types import StructType

from watersmeet.spark.scans import call_plan
from watersmeet.spark.scans.files import DataFile, JavaObject, list_files
from watersmeet.spark.scans.parquet import Dialect
from watersmeet.spark.scans.pipeline import Pipeline, Table
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import Selection

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
_UNION = f"{LOGICAL}Union"
_RELATION = f"{_SQL}execution.datasources.LogicalRelation"
_FILES = f"{_SQL}execution.datasources.HadoopFsRelation"
# This class and no other: table formats with deletes or column mapping derive theirs from it.
PARQUET = f"{_SQL}execution.datasources.parquet.ParquetFileFormat"
CSV = f"{_SQL}execution.datasources.csv.CSVFileFormat"

_REASONS = {
    "BatchEvalPython": "it calls a Python function without Arrow",
    "InMemoryRelation": "it is cached",
    "LogicalRDD": "its rows come from an RDD or a checkpoint",
    "LocalRelation": "its rows were given in the program",
}
_REMEDIES = {
    "BatchEvalPython": "make the function with udf(..., useArrow=True), and for SQL register that",
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
# Of a session that reads all files or fails.
WHOLE_FILES = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
_REQUIRED_SETTINGS = WHOLE_FILES | {
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
}
# Each level of a plan takes some of Python's thousand.
_DEEPEST = 100
_CRYPTO = "parquet.crypto.factory.class"


@dataclass(frozen=True)
class Place:
    """Where a branch is among those of its union, for who is told of it."""

    number: int
    of: int

    @contextmanager
    def named(self) -> Iterator[None]:
        """What is refused here says in which branch."""
        try:
            yield
        except Refused as reason:
            if self.of == 1:
                raise
            raise Refused(
                f"branch {self.number} of {self.of} in its union is not read from its files: "
                f"{reason}",
                remedy=reason.remedy,
            ) from None


@dataclass(frozen=True)
class Branch:
    """Files, and what is taken of them: one of those whose union a DataFrame is, or all of it."""

    selection: Selection
    files: tuple[DataFile, ...]
    place: Place
    text: JavaObject = None
    """The relation, if it is one of CSV files; nothing has been checked that only it has. Of
    Parquet files None."""


@dataclass(frozen=True)
class _Source:
    """A table that a branch reads, and how."""

    place: Place
    dialect: Dialect
    text: JavaObject | None


@dataclass(frozen=True, eq=False)
class _Node:
    """A node of the plan, with those below it."""

    live: JavaObject
    name: str
    children: tuple[_Node, ...]

    @classmethod
    def of(cls, live: JavaObject, *, depth: int = 0) -> _Node:
        """Down to what is neither a step nor a union."""
        if depth > _DEEPEST:
            raise Refused(f"its plan is more than {_DEEPEST} nodes deep")
        name = live.getClass().getName()
        below: list[JavaObject] = []
        if name in STEPS or name == call_plan.NODE:
            below = [live.child()]
        elif name == _UNION:
            children = live.children()
            below = [children.apply(place) for place in range(children.size())]
        return cls(live, name, tuple(cls.of(each, depth=depth + 1) for each in below))

    def nodes(self) -> Iterator[_Node]:
        """Each before those below it, as in Spark's JSON."""
        yield self
        for child in self.children:
            yield from child.nodes()


@dataclass(frozen=True)
class LogicalPlan:
    """A classic DataFrame's optimized plan, down to the relations that are read."""

    dataframe: DataFrame
    live: JavaObject
    tree: _Node

    @classmethod
    def of(cls, dataframe: DataFrame) -> LogicalPlan:
        live = dataframe._jdf.queryExecution().optimizedPlan()
        return cls(dataframe, live, _Node.of(live))

    def branches(self, schema: pa.Schema) -> list[Branch]:
        """The scans of Parquet and CSV files whose union it is, most often one; Refused if it is
        anything else."""
        session = self.dataframe.sparkSession
        leaves = [node for node in self.tree.nodes() if not node.children]
        sources = _sources(leaves, session)
        described = dict(zip(self.tree.nodes(), json.loads(self.live.toJSON()), strict=True))
        pipelines = _Following(sources, described, session).up_to(self.tree)
        nothing = _to_seq(session.sparkContext, [])
        branches = []
        for (leaf, source), (_, pipeline) in zip(sources.items(), pipelines, strict=True):
            with source.place.named():
                selection = pipeline.selection(schema, source.dialect)
                files = list_files(leaf.live.relation(), nothing=nothing)
                branches.append(Branch(selection, files, source.place, source.text))
        return branches


@dataclass(frozen=True)
class _Following:
    """Follows each table's columns up through the plan, of which `described` is Spark's JSON."""

    sources: Mapping[_Node, _Source]
    described: Mapping[_Node, Mapping[str, Any]]
    session: SparkSession

    def up_to(self, node: _Node) -> list[tuple[Place, Pipeline]]:
        """From all tables below a node. What is above a union is done to each of its branches."""
        if not node.children:
            place = self.sources[node].place
            with place.named():
                return [(place, self._begun(node))]
        found = [pair for child in node.children for pair in self.up_to(child)]
        _, first = found[0]
        for place, pipeline in found:
            with place.named():
                if node.name == _UNION:
                    pipeline.unite(first)
                else:
                    pipeline.step(node.live, self.described[node])
        return found

    def _begun(self, leaf: _Node) -> Pipeline:
        relation = leaf.live.relation()
        inside, outside = (
            StructType.fromJson(json.loads(schema.json())).fields
            for schema in (relation.dataSchema(), relation.partitionSchema())
        )
        pipeline = Pipeline(Table.of(inside, outside, self.sources[leaf].dialect), self.session)
        pipeline.begin(self.described[leaf])
        return pipeline


def chain_of(root: JavaObject, steps: Set[str], relation: str) -> list[JavaObject]:
    """The plan's nodes from the top, through steps of these classes, down to the relation."""
    nodes = [root]
    while (name := nodes[-1].getClass().getName()) in steps:
        nodes.append(nodes[-1].child())
    if name != relation:
        raise _stranger(name)
    return nodes


def _stranger(name: str) -> Refused:
    """Of a plan that has a node of this class."""
    short = name.rsplit(".", 1)[-1]
    remedy = _REMEDIES.get(short, "")
    return Refused(_REASONS.get(short, f"its plan has a node {short}"), remedy=remedy)


def _sources(leaves: Sequence[_Node], session: SparkSession) -> dict[_Node, _Source]:
    """The tables that are read; Refused if one is neither of Parquet nor of CSV files."""
    texts = [_text_relation(leaf) for leaf in leaves]
    places = [Place(number, len(leaves)) for number, _ in enumerate(leaves, 1)]
    for leaf, text, place in zip(leaves, texts, places, strict=True):
        if text is None:
            with place.named():
                _check(leaf)
    conf = session._jsparkSession.sessionState().conf()
    as_text = Dialect(is_case_sensitive(conf), dates_as_written=True, int96_as_written=True)
    as_parquet = as_text if all(text is not None for text in texts) else dialect_of(session)
    return {
        leaf: _Source(place, as_parquet if text is None else as_text, text)
        for leaf, place, text in zip(leaves, places, texts, strict=True)
    }


def _text_relation(leaf: _Node) -> JavaObject | None:
    """The relation of CSV files that it is; None if it is another."""
    if leaf.name != _RELATION:
        return None
    relation = leaf.live.relation()
    if relation.getClass().getName() != _FILES:
        return None
    return relation if relation.fileFormat().getClass().getName() == CSV else None


def _check(leaf: _Node) -> None:
    if leaf.name != _RELATION:
        raise _stranger(leaf.name)
    relation = leaf.live.relation()
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


def check_settings(conf: JavaObject, required: Mapping[str, str]) -> None:
    for name, value in required.items():
        if conf.getConfString(name) != value:
            raise Refused(f"{name} is not {value}")


def is_case_sensitive(conf: JavaObject) -> bool:
    return bool(conf.getConfString("spark.sql.caseSensitive") == "true")


def dialect_of(session: SparkSession) -> Dialect:
    """What a session makes of Parquet files; Refused if its settings ask for what we do not do."""
    state = session._jsparkSession.sessionState()
    if state.newHadoopConf().get(_CRYPTO) is not None:
        raise Refused(f"{_CRYPTO} is set, so its files may be encrypted")
    conf = state.conf()
    check_settings(conf, _REQUIRED_SETTINGS)
    rebase = "spark.sql.parquet.{}RebaseModeInRead"
    return Dialect(
        case_sensitive=is_case_sensitive(conf),
        dates_as_written=conf.getConfString(rebase.format("datetime")) == "CORRECTED",
        int96_as_written=conf.getConfString(rebase.format("int96")) == "CORRECTED",
    )
