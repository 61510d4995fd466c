"""A relation of text files, and what a DataFrame asks of it, before anybody knows whether its lines
can be read outside Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from watersmeet.delimited.layout import Layout, can_read
from watersmeet.spark.scans.files import DataFile, JavaObject
from watersmeet.spark.scans.plan import Branch, check_options
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import inside
from watersmeet.spark.scans.text import SparkReader

# Which column that is can be said by the schema only, so it is looked for there.
CORRUPT = "columnnameofcorruptrecord"
_CORRUPT_SETTING = "spark.sql.columnNameOfCorruptRecord"
_LEGACY_TIME = "spark.sql.legacy.timeParserPolicy"
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True)
class Opened:
    """How lines of a table are read: by us, and by Spark those that are not plain."""

    layout: Layout
    reader: SparkReader
    begin: Callable[[DataFile], int]
    """Where lines begin in a file."""


@dataclass(frozen=True)
class TextTable:
    """What a DataFrame asks of a text relation, which is one of its branches."""

    dataframe: DataFrame
    branch: Branch
    conf: JavaObject
    options: Mapping[str, str]
    """By their names in small letters."""
    fields: tuple[StructField, ...]
    """Of the files, in their order."""
    asked: Mapping[str, pa.DataType]
    """The columns that are read, by their names, in the same order."""

    @classmethod
    def of(cls, branch: Branch, dataframe: DataFrame, *, known: Set[str]) -> TextTable:
        """Refused if it has options that are not `known`, or columns that are left to Spark."""
        relation = branch.text
        assert relation is not None
        options = _options(relation, known)
        fields = StructType.fromJson(json.loads(relation.dataSchema().json())).fields
        kinds = {field.name: field.type for field in inside(branch.selection.columns)}
        conf = dataframe.sparkSession._jsparkSession.sessionState().conf()
        corrupt = options.get(CORRUPT, conf.getConfString(_CORRUPT_SETTING))
        if any(field.name.lower() == corrupt.lower() for field in fields):
            raise Refused(f"it has a column {corrupt!r} of lines that are not as they should be")
        asked = {field.name: kinds[field.name] for field in fields if field.name in kinds}
        for field in fields:
            if field.name in asked:
                _check(field, asked[field.name])
        if pa.date32() in asked.values() and conf.getConfString(_LEGACY_TIME) == "LEGACY":
            raise Refused(f"it has dates, and {_LEGACY_TIME} is LEGACY")
        return cls(dataframe, branch, conf, options, tuple(fields), asked)

    @property
    def session(self) -> SparkSession:
        return self.dataframe.sparkSession

    def check_defaults(self, defaults: Mapping[str, str]) -> None:
        """Of options that must say what they say by default."""
        for name, value in defaults.items():
            if name in self.options and self.options[name].lower() != value:
                raise Refused(f"it is read with the option {name}={self.options[name]!r}")

    def options_but(self, others: Set[str]) -> tuple[tuple[str, str], ...]:
        """The options without those, for who reads copies."""
        return tuple((name, text) for name, text in self.options.items() if name not in others)


def _options(relation: JavaObject, known: Set[str]) -> dict[str, str]:
    options = relation.options()
    names = options.keys().mkString("\n").split("\n")
    check_options(names, known)
    found = {name.lower(): str(options.apply(name)) for name in names if name}
    if len(found) < sum(map(bool, names)):
        raise Refused("it is read with an option twice")
    return found


def _check(field: StructField, kind: pa.DataType) -> None:
    if not can_read(kind) or _CHAR in field.metadata:
        raise Refused(
            f"column {field.name!r} is {field.metadata.get(_CHAR, kind)}, whose texts are left to "
            "Spark"
        )
