"""The result of a join with marker rows: one more column says which rows are such.

A marker row says something of one column of the result, or of all columns of the key together, and
has null in the others. So each can be read by `wm.punctuated` of the next join.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import InvalidArgument
from watersmeet.promises.checking import check_promises
from watersmeet.promises.kinds import EQUAL, PromiseOfValues
from watersmeet.promises.passing import Passed
from watersmeet.promises.subjects import Form, Subject, subjects_of
from watersmeet.promises.watched import Watched
from watersmeet.rows.encoded import Codes
from watersmeet.rows.promises import LAST_CODE, Ranges
from watersmeet.rows.schema import JoinSchema


def check_punctuations(name: Any, *, promised: bool) -> str | None:
    """The argument `punctuations` of a join, or an error."""
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise InvalidArgument(
            f"punctuations={name!r} is no column name.",
            remedy='Name the column that is true for marker rows, as in "is_marker".',
        )
    if not promised:
        raise InvalidArgument(
            f"punctuations={name!r} asks for marker rows, and nothing is promised.",
            remedy="Give `promises`, or leave `punctuations` out.",
        )
    return name


class MarkedOutput:
    """Columns of a result that has marker rows, and both kinds of rows in them."""

    def __init__(
        self, output: pa.Schema, name: str, subjects: Sequence[Subject], missing: Sequence[str] = ()
    ) -> None:
        """`missing` says what cannot be passed on, and why."""
        self.name = name
        self.missing = tuple(missing)
        self.subjects = tuple(subjects)
        self._output = output
        names = set(output.names)
        if name in names:
            raise InvalidArgument(
                f"punctuations={name!r} is the name of a column of the result already.",
                remedy="Choose another name.",
            )
        self._ends: dict[int, tuple[int, int]] = {}
        """By column of which ranges are passed on, the columns that have their ends."""
        fields = [field.with_nullable(True) for field in output]
        for subject in self.subjects:
            column = subject.columns[0]
            if subject.form is Form.RANGE and column not in self._ends:
                self._ends[column] = (len(fields), len(fields) + 1)
                for end in ("from", "to"):
                    free = f"{output.field(column).name}_{end}"
                    while free in names or free == name:
                        free += "_"
                    names.add(free)
                    fields.append(pa.field(free, output.field(column).type))
        self.schema = pa.schema(
            [*fields, pa.field(name, pa.bool_(), nullable=False)], metadata=output.metadata
        )

    @classmethod
    def of(cls, schema: JoinSchema, promises: Sequence[PromiseOfValues], name: str) -> MarkedOutput:
        """The result of a join with these promises; an error if none can be passed on."""
        promises = check_promises(schema, promises)
        watched = Watched.of(schema, promises)
        subjects, missing = subjects_of(watched, promises)
        if not subjects:
            why = f" ({'; '.join(missing)})" if missing else ""
            raise InvalidArgument(
                f"punctuations={name!r} asks for marker rows, and no promise says of a column of "
                f"the result which values come no more{why}.",
                remedy="Promise something about a column of the join, or leave `punctuations` out.",
            )
        return cls(schema.output, name, subjects, missing)

    @property
    def pattern(self) -> dict[str, Any]:
        """What `wm.punctuated` of the next join is to be given."""
        said: dict[str, Any] = {}
        for subject in self.subjects:
            for column in subject.columns:
                said.setdefault(self._output.field(column).name, self._how(subject, column))
        return said

    def in_words(self) -> str:
        """How a next join reads the marker rows, and what is not among them."""
        read = f"wm.punctuated(..., when={self.name!r}, pattern={self.pattern!r})"
        missing = "".join(f"; not passed on: {each}" for each in self.missing)
        return f"a next join reads them by {read}{missing}"

    def _how(self, subject: Subject, column: int) -> Any:
        name = self._output.field(column).name
        match subject.form:
            case Form.UP_TO:
                return (None, name)
            case Form.FROM:
                return (name, None)
            case Form.RANGE:
                low, high = self._ends[column]
                return (self.schema.field(low).name, self.schema.field(high).name)
        return EQUAL

    @property
    def more(self) -> list[tuple[str, int]]:
        """The columns for the ends of ranges, and of which column of the result these are."""
        return [
            (self.schema.field(end).name, column)
            for column, ends in self._ends.items()
            for end in ends
        ]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the result that are no markers."""
        more = [pa.nulls(len(batch), field.type) for field in self._more()]
        marks = pa.array(np.zeros(len(batch), np.bool_))
        return pa.RecordBatch.from_arrays([*batch.columns, *more, marks], schema=self.schema)

    def _more(self) -> list[pa.Field]:
        return list(self.schema)[len(self._output) : -1]

    def markers(self, passed: Sequence[Passed]) -> pa.RecordBatch | None:
        """Marker rows; None if there are none."""
        batches = [batch for each in passed if len(batch := self._markers_of(each))]
        if not batches:
            return None
        return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

    def _markers_of(self, passed: Passed) -> pa.RecordBatch:
        subject, ranges = self.subjects[passed.subject], passed.ranges
        columns: dict[int, pa.Array] = {}
        if subject.form is Form.RANGE:
            columns, fits = self._range_ends(subject, ranges)
        else:
            if subject.form is Form.EQUAL:
                codes = _each(ranges)
            else:
                codes = ranges[:, 1 if subject.form is Form.UP_TO else 0].copy()
            values, fits = subject.decoded.values(codes)
            columns = dict(zip(subject.columns, values, strict=True))
        count = len(fits)
        every = [
            columns[place] if place in columns else pa.nulls(count, field.type)
            for place, field in enumerate(list(self.schema)[:-1])
        ]
        marks = pa.array(np.ones(count, np.bool_))
        rows = pa.RecordBatch.from_arrays([*every, marks], schema=self.schema)
        return rows if fits.all() else rows.filter(pa.array(fits))

    def _range_ends(self, subject: Subject, ranges: Ranges) -> tuple[dict[int, pa.Array], Any]:
        """The ends of ranges, null where a range has none. Null twice would say that nothing at all
        comes any more, not even rows without a value here: so all values are two ranges."""
        if len(ranges) and ranges[0, 0] == 0 and ranges[0, 1] == LAST_CODE:
            half = np.uint64(LAST_CODE // 2)
            ranges = np.array([[0, half], [half + np.uint64(1), LAST_CODE]], np.uint64)
        columns: dict[int, pa.Array] = {}
        fits = np.ones(len(ranges), np.bool_)
        open_ends = (ranges[:, 0] == 0, ranges[:, 1] == LAST_CODE)
        for place, codes, is_open in zip(
            self._ends[subject.columns[0]], ranges.T, open_ends, strict=True
        ):
            (values,), known = subject.decoded.values(np.ascontiguousarray(codes))
            columns[place] = pc.if_else(pa.array(is_open), pa.scalar(None, values.type), values)
            fits &= known | is_open
        return columns, fits


def _each(ranges: Ranges) -> Codes:
    """Each code of ranges that are made of single ones."""
    counts = (ranges[:, 1] - ranges[:, 0] + np.uint64(1)).astype(np.int64)
    starts = np.repeat(ranges[:, 0], counts)
    nth = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
    return starts + nth.astype(np.uint64)
