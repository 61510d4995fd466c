"""What a user says about the rows of an XML stream: which elements they are, and their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.xml.casting import is_castable, is_text, zone_of
from watersmeet.xml.cells import Path
from watersmeet.xml.elements import ROOT
from watersmeet.xml.limits import Limits

MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
CORRUPT = "_corrupt_record"
MARKER = "is_punctuation"
EQUAL = "equal"

_NAME = r"[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*)?"
_ROW = re.compile(_NAME)
_STEPS = re.compile(rf"\.|(?:{_NAME}/)*@?{_NAME}")

_LIMITS = Limits()

Pattern = str | tuple[str, str]


@dataclass(frozen=True)
class Column:
    """A column whose values are texts of the stream, or a field of a column that is a struct.

    A struct itself is a column of texts, too: where they are null, the element is not there.
    """

    name: str
    kind: pa.DataType
    path: Path


@dataclass(frozen=True)
class Shape:
    """The rows of a stream."""

    row: str
    columns: tuple[Column, ...]
    schema: pa.Schema
    """Of batches: the columns, those of patterns, the marker, the corrupt records."""
    mode: str
    marker: str | None
    corrupt: str | None
    patterns: Mapping[str, Pattern]
    """For columns whose punctuations are sets or ranges: where those are put."""
    zone: str = "UTC"
    limits: Limits = _LIMITS


def make_shape(
    row: str,
    columns: Any,
    *,
    mode: str = MODES[0],
    marker: str | None = MARKER,
    patterns: Mapping[str, Any] | None = None,
    paths: Mapping[str, str] | None = None,
    row_bytes: int = Limits.row_bytes,
    zone: str = "UTC",
    corrupt: str = CORRUPT,
) -> Shape:
    """Check what a user says, and complete the schema by the columns that go without saying."""
    if not isinstance(row, str) or not _ROW.fullmatch(row) or row == ROOT:
        raise InvalidArgument(
            f"row={row!r} is no name of an element.",
            remedy='Give the name that the element of a row has in the stream, such as "record".',
        )
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise InvalidArgument(
            f"mode={mode!r} is unknown.", remedy=f"Give one of {', '.join(MODES)}."
        )
    if not isinstance(row_bytes, int) or isinstance(row_bytes, bool) or row_bytes < 1:
        raise InvalidArgument(
            f"row_bytes={row_bytes!r} is no size.", remedy="Give a number of bytes."
        )
    _check_zone(zone)
    fields = {field.name: _nullable(field.type) for field in as_schema(columns)}
    if marker is not None and (not isinstance(marker, str) or not marker):
        raise InvalidArgument(
            f"marker={marker!r} is no name of a column.",
            remedy=f'Give a name such as "{MARKER}", or None to pass over punctuations.',
        )
    patterns = _patterns(patterns or {}, fields)
    extra = _of_patterns(patterns, fields)
    mode = mode.upper()
    if marker is not None:
        extra[marker] = pa.bool_()
    if mode == MODES[0]:
        extra[corrupt] = pa.string()
    for name, kind in extra.items():
        given = fields.get(name)
        if given is not None and given != kind and not (is_text(given) and is_text(kind)):
            raise SchemaError(
                f"Column {name!r} is declared as {given}, but what is put there is {kind}.",
                remedy=f"Declare it as {kind}, or rename one of the two.",
            )
    own = {name: kind for name, kind in fields.items() if name not in extra}
    kinds = {**fields, **{name: kind for name, kind in extra.items() if name not in fields}}
    return Shape(
        row,
        _columns(own, paths or {}),
        pa.schema(list(kinds.items())),
        mode,
        marker,
        corrupt if corrupt in kinds and mode == MODES[0] else None,
        patterns,
        zone,
        Limits(row_bytes=row_bytes),
    )


def _check_zone(zone: str) -> None:
    try:
        zone_of(zone)
    except (ValueError, TypeError) as error:
        raise InvalidArgument(
            f"{zone!r} is no time zone that is known.", remedy='Give one like "Europe/Berlin".'
        ) from error


def as_schema(columns: Any) -> pa.Schema:
    """What a user says about columns, as a schema of Arrow's."""
    try:
        if isinstance(columns, pa.Schema):
            schema = columns
        elif isinstance(columns, Mapping):
            schema = pa.schema([pa.field(name, _kind(kind)) for name, kind in columns.items()])
        else:
            raise TypeError
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"columns={columns!r} are no columns with their types.",
            remedy='Give a pyarrow.Schema, or for example {"sno": "int64", "ipaddr": "string"}.',
        ) from error
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice or not schema.names:
        what = f"{min(twice)!r} twice" if twice else "nothing"
        raise InvalidArgument(f"columns say {what}.", remedy="Give each column of the rows once.")
    return schema


def _kind(kind: Any) -> pa.DataType:
    return kind if isinstance(kind, pa.DataType) else pa.type_for_alias(kind)


def _columns(fields: Mapping[str, pa.DataType], paths: Mapping[str, str]) -> tuple[Column, ...]:
    for name in paths:
        if name not in fields:
            raise InvalidArgument(
                f"paths name {name!r}, which is no column.",
                remedy=f"The columns are {', '.join(fields)}.",
            )
    found: dict[str, str] = {}
    made: dict[str, Column] = {}
    for name, kind in fields.items():
        for column in _parts(name, kind, paths.get(name, name)):
            steps = column.path.steps
            if steps in found or column.name in made:
                raise InvalidArgument(
                    f"Columns {found.get(steps, column.name)!r} and {column.name!r} are both "
                    f"{steps!r}.",
                    remedy="Give a path once, and copy the column afterwards.",
                )
            found[steps] = column.name
            made[column.name] = column
    return tuple(made.values())


def _parts(name: str, kind: pa.DataType, steps: Any) -> Iterator[Column]:
    """A column, and the fields of a struct behind it."""
    if not isinstance(steps, str) or not _STEPS.fullmatch(steps):
        raise InvalidArgument(
            f"Column {name!r} cannot be found under {steps!r}.",
            remedy="A path is the name of an element (sno), of one below it (place/city), of "
            'an attribute (@id, place/@id), or "." for the text of the row itself; give '
            'paths={"column": "path"} for a column with another name.',
        )
    if pt.is_struct(kind) and "@" not in steps and steps != ".":
        yield Column(name, pa.string(), Path(steps))
        for field in kind:
            yield from _parts(nested(name, field.name), field.type, f"{steps}/{field.name}")
        return
    repeats = bool(pt.is_list(kind))
    if not is_castable(kind.value_type if repeats else kind):
        raise SchemaError(
            f"Column {name!r} is {kind}, which no text is cast to.",
            remedy="Declare it as boolean, integer, double, decimal, date, timestamp or "
            "string, as a list of these for elements that repeat, or as a struct of all of them "
            "for an element that has others inside.",
        )
    yield Column(name, kind, Path(steps, repeats))


def nested(name: str, field: str) -> str:
    """What a field of a struct is called among columns."""
    return f"{name}/{field}"


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type with nulls everywhere: any element may lack any other."""
    if pt.is_struct(kind):
        return pa.struct([(field.name, _nullable(field.type)) for field in kind])
    return pa.list_(_nullable(kind.value_type)) if pt.is_list(kind) else kind


def _patterns(patterns: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Pattern]:
    """The patterns of columns whose punctuations are more than equal values."""
    made: dict[str, Pattern] = {}
    for name, how in patterns.items():
        pair = tuple(how) if isinstance(how, list | tuple) else how
        if (
            name not in fields
            or pt.is_struct(fields[name])
            or not (
                isinstance(pair, str)
                or (len(pair) == 2 and all(isinstance(each, str) for each in pair))
            )
        ):
            raise InvalidArgument(
                f"patterns={dict(patterns)!r}: {name!r} is "
                + ("no column." if name not in fields else f"said to be {how!r}."),
                remedy='Give {"sno": "sno_set"} for a column of sets, {"time": ("first", "last")} '
                'for columns of ranges, {"sno": "equal"} for one value or *.',
            )
        if pair != EQUAL:
            made[name] = pair
    return made


def _of_patterns(
    patterns: Mapping[str, Pattern], fields: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """The columns that sets and ranges are put in."""
    made: dict[str, pa.DataType] = {}
    for name, how in patterns.items():
        kind = fields[name]
        each = {how: pa.list_(kind)} if isinstance(how, str) else dict.fromkeys(how, kind)
        for column in each:
            if column in made or column in patterns:
                raise InvalidArgument(
                    f"patterns put two things into the column {column!r}.",
                    remedy="Give each of them a column of its own.",
                )
        made.update(each)
    return made
