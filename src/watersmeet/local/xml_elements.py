"""Streams of rows that are elements of XML, with punctuations among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from watersmeet.local.arriving import ArrivingBytes
from watersmeet.xml.convert import Convert
from watersmeet.xml.limits import Limits
from watersmeet.xml.shape import MARKER, MODES, Shape, make_shape


def xml(
    file: Any,
    row: str,
    columns: Any,
    *,
    mode: str = MODES[0],
    marker: str | None = MARKER,
    patterns: Mapping[str, Any] | None = None,
    paths: Mapping[str, str] | None = None,
    zone: str = "UTC",
    row_bytes: int = Limits.row_bytes,
) -> XmlElements:
    """The rows of an XML stream, as they come: its elements `row`, and its punctuations.

    Parameters
    ----------
    file
        A path (also of a `.gz` and the like), or a binary file: a pipe, `sys.stdin.buffer`.
    row
        The name of the element that is a row, prefix included. `<punct:row>` is a punctuation.
    columns
        A `pyarrow.Schema`, or types by name: `{"sno": "int64", "@id": "string"}`. A name is the
        path of the value below the row: `sno` is the text of an element, `place/city` of one in
        another, `@id` an attribute, `.` the text of the row itself. What is not there is null.
        A list has the values of all elements of a name; other types that of the last one. A struct
        has the elements that are in one.
    mode
        What to do with a malformed element: PERMISSIVE makes a row of it whose only value is its
        text, in the column `_corrupt_record`; DROPMALFORMED leaves it out; FAILFAST ends the
        stream with an error. The attribute `malformed` counts them.
    marker
        The column that is true for punctuations and false for rows. None passes over punctuations.
    patterns
        For columns whose punctuations may be sets `{1,2}` or ranges `[1,5]`, the column or the two
        columns which those are put in: `{"sno": "sno_set", "time": ("first", "last")}`. Otherwise
        a punctuation has a value in a column, or `*`, which is null.
    paths
        For columns that are not named as their path: `{"city": "place/city"}`.
    zone
        Where times are that do not say it, in columns of timestamps with a zone.
    row_bytes
        The longest element that is read.

    Its method `stop` ends the stream.
    """
    shape = make_shape(
        row,
        columns,
        mode=mode,
        marker=marker,
        patterns=patterns,
        paths=paths,
        row_bytes=row_bytes,
        zone=zone,
    )
    return XmlElements(file, shape)


class XmlElements(ArrivingBytes):
    """Rows and punctuations of elements of XML."""

    def __init__(self, file: Any, shape: Shape) -> None:
        super().__init__(file)
        self._shape = shape
        self._convert = Convert(shape, repr(self))
        self.schema = shape.schema

    @property
    def malformed(self) -> int:
        """How many malformed elements there were so far."""
        return self._convert.malformed

    def __repr__(self) -> str:
        return f"<elements {self._shape.row} of {self.file_name}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._convert = Convert(self._shape, repr(self))
        return self._convert.batches(self.chunks(), is_stopped=self._stopped.is_set)
