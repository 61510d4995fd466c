"""Convert: an XML element stream becomes batches of rows and punctuations (section 2 of the paper).

There is a Python step for each tag, in expat's calls; values are cast by the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import MalformedInput
from watersmeet.xml.casting import SPACE, Cast, cast
from watersmeet.xml.cells import Found
from watersmeet.xml.decoding import Decoder, Undecodable
from watersmeet.xml.elements import Elements
from watersmeet.xml.limits import Refused
from watersmeet.xml.patterns import ends_of, is_special, members_of, spread, the_one
from watersmeet.xml.shape import Column, Shape, nested

_MEND = "Mend the stream where it is written."
_ANY_MODE = f'{_MEND} With mode="PERMISSIVE" or "DROPMALFORMED" reading goes on behind it.'


class Convert:
    """Turns the chunks of one stream into batches. `name` is what the stream is called in errors.

    `malformed` counts the elements that were malformed, in all modes.
    """

    def __init__(self, shape: Shape, name: str) -> None:
        self._shape = shape
        self._name = name
        self._elements = Elements(
            shape.row,
            [column.path for column in shape.columns],
            shape.limits,
            stops=shape.mode == "FAILFAST",
        )
        self._decoder = Decoder()
        self.malformed = 0

    def batches(
        self, chunks: Iterable[bytes], *, is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[pa.RecordBatch]:
        """The rows of all chunks, each as soon as its last tag has come.

        If something is wrong, all rows before it come first. A stream that was stopped may end
        anywhere.
        """
        for chunk in chunks:
            yield from self._chunk(chunk)
        if not is_stopped():
            yield from self._chunk(b"", last=True)
            self._check_end()

    def batches_of_file(self, chunks: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """The rows of a file that is one of many.

        The others are read, whatever is wrong with this one: the mode says what becomes of the
        rest of a file behind the place where it is cut off or refused, as of a malformed element.
        """
        try:
            yield from self.batches(chunks)
        except MalformedInput as error:
            if self._shape.mode == "FAILFAST":
                raise
            self.malformed += 1
            if self._shape.corrupt is not None:
                text = self._elements.rest().strip(SPACE) or error.cause
                arrays = {self._shape.corrupt: pa.array([text], pa.string())}
                if self._shape.marker is not None:
                    arrays[self._shape.marker] = pa.array([False])
                yield self._put_together(arrays, 1)

    def _chunk(self, chunk: bytes, *, last: bool = False) -> Iterator[pa.RecordBatch]:
        text, undecodable = self._decoder.decode(chunk, last=last)
        failure: MalformedInput | None = None
        try:
            self._elements.feed(text, last=last)
        except Refused as error:
            failure = self._refusal(error)
        else:
            failure = self._not_decoded(undecodable)
        batch, first_failure = self._batch(self._elements.take())
        self._elements.forget()
        if batch is not None and len(batch):
            yield batch
        del batch
        if (earliest := first_failure or failure) is not None:
            raise earliest

    # -- Rows.

    def _batch(self, found: Found) -> tuple[pa.RecordBatch | None, MalformedInput | None]:
        """The rows as a batch, as far as the mode lets them come, and the error behind them."""
        shape = self._shape
        texts = self._with_malformed(found)
        if shape.marker is None and any(found.markers):
            _drop_markers(found, texts)
        count = len(found.rows)
        if not count:
            return None, None
        is_bad = np.zeros(count, bool)
        is_bad[list(found.wrong)] = True
        arrays: dict[str, pa.Array] = {}
        reasons: dict[str, np.ndarray[Any, Any]] = {}
        markers = [number for number, is_marker in enumerate(found.markers) if is_marker]
        for column, cells in zip(shape.columns, zip(*found.rows, strict=True), strict=True):
            made = self._values(column, list(cells), markers)
            for name, (values, bad) in made.items():
                arrays[name] = values
                if bad is not None and bad.any():
                    is_bad |= bad
                    reasons[column.name] = bad | reasons.get(column.name, False)
        if shape.marker is not None:
            arrays[shape.marker] = pa.array(found.markers)
        if not is_bad.any():
            return self._put_together(arrays, count), None
        return self._with_bad(found, texts, (arrays, is_bad, reasons))

    def _with_malformed(self, found: Found) -> dict[int, str]:
        """Put elements that are not well-formed among the rows; their texts by row number."""
        texts: dict[int, str] = {}
        if not found.malformed:
            return texts
        wrong = {}
        width = len(self._shape.columns)
        positions = [before + number for number, (before, _) in enumerate(found.malformed)]
        for number, reason in found.wrong.items():
            added = sum(before <= number for before, _ in found.malformed)
            wrong[number + added] = reason
        for position, (_, bad) in zip(positions, found.malformed, strict=True):
            found.rows.insert(position, [None] * width)
            found.markers.insert(position, False)
            found.begins.insert(position, bad.place)
            found.ends.insert(position, -1)
            wrong[position], texts[position] = bad.reason, bad.text
        found.wrong = wrong
        return texts

    def _values(self, column: Column, cells: list[Any], markers: list[int]) -> dict[str, Cast]:
        """The values of a column and, if it has patterns, of the columns that those are put in."""
        how = self._shape.patterns.get(column.name)
        patterns: dict[int, str] = {}
        for number in markers:
            cell = cells[number]
            text = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
            if isinstance(text, str) and (how is not None or is_special(text, column.kind)):
                patterns[number], cells[number] = text.strip(SPACE), None
        made = {column.name: self._cast(cells, column.kind)}
        if not patterns and how is None:
            return made
        read = the_one if how is None else members_of if isinstance(how, str) else ends_of
        said, bad = spread(patterns, read, len(cells))
        if isinstance(how, str):
            made[how] = self._cast(said, pa.list_(column.kind))
        elif how is not None:
            for number, name in enumerate(how):
                ends = [each and each[number] for each in said]
                made[name] = self._cast(ends, column.kind)
        # The texts that are no pattern are found with the column itself.
        own = made[column.name]
        made[column.name] = Cast(own.values, bad if own.is_bad is None else own.is_bad | bad)
        return made

    def _cast(self, cells: list[Any], kind: pa.DataType) -> Cast:
        zone = self._shape.zone
        if not pa.types.is_list(kind):
            return cast(pa.array(cells, pa.string()), kind, zone=zone)
        lists = pa.array(cells, pa.list_(pa.string()))
        flat = cast(lists.flatten(), kind.value_type, zone=zone)
        lengths = np.array([0 if cell is None else len(cell) for cell in cells])
        offsets = pa.array(
            np.concatenate([[0], lengths.cumsum()]),
            pa.int32(),
        )
        values = pa.ListArray.from_arrays(
            offsets, flat.values, type=kind, mask=pa.array([cell is None for cell in cells])
        )
        if flat.is_bad is None:
            return Cast(values, None)
        bad = np.zeros(len(cells), bool)
        bad[np.repeat(np.arange(len(cells)), lengths)[flat.is_bad]] = True
        return Cast(values, bad)

    # -- What is malformed.

    def _with_bad(
        self,
        found: Found,
        texts: dict[int, str],
        made: tuple[dict[str, pa.Array], np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]],
    ) -> tuple[pa.RecordBatch, MalformedInput | None]:
        """The batch as the mode wants it."""
        arrays, is_bad, reasons = made
        shape, count = self._shape, len(is_bad)
        if shape.mode == "FAILFAST":
            first = int(is_bad.argmax())
            self.malformed += 1
            return self._put_together(arrays, count).slice(0, first), self._failure(
                found, first, [name for name, bad in reasons.items() if bad[first]]
            )
        self.malformed += int(is_bad.sum())
        if shape.mode == "DROPMALFORMED":
            batch = self._put_together(arrays, count)
            return batch.filter(pa.array(~is_bad)), None
        # A row with nulls matches nothing. A punctuation with nulls would promise the end of
        # everything, so a malformed one is a row.
        kept = pa.array(np.arange(count), mask=is_bad)
        arrays = {name: values.take(kept) for name, values in arrays.items()}
        if shape.marker is not None:
            arrays[shape.marker] = pa.array(np.array(found.markers) & ~is_bad)
        if shape.corrupt is not None:
            for number in np.flatnonzero(is_bad).tolist():
                if number not in texts:
                    texts[number] = self._elements.text_of(found.begins[number], found.ends[number])
            arrays[shape.corrupt] = pa.array(map(texts.get, range(count)), pa.string())
        return self._put_together(arrays, count), None

    def _put_together(self, arrays: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        schema = self._shape.schema
        made = [_assembled(field.name, field.type, arrays, count) for field in schema]
        return pa.RecordBatch.from_arrays(made, schema=schema)

    def _failure(self, found: Found, number: int, columns: list[str]) -> MalformedInput:
        place = found.begins[number]
        reason = found.wrong.get(number)
        if reason is None:
            kinds = {column.name: column.kind for column in self._shape.columns}
            reason = f"the text of {columns[0]!r} is no {kinds[columns[0]]}"
        return self._at(place, f"has a malformed <{self._shape.row}>: {reason}", _ANY_MODE)

    def _refusal(self, error: Refused) -> MalformedInput:
        remedy = (
            "Streams with a DOCTYPE are refused, since entities can be made to grow without end "
            "or to read other files. Remove it."
            if "DOCTYPE" in str(error)
            else f"{_MEND} If it is right, a larger row_bytes allows longer elements."
        )
        return self._at(error.place, str(error), remedy)

    def _not_decoded(self, error: Undecodable | None) -> MalformedInput | None:
        if error is None:
            return None
        remedy = (
            "Write the stream in one encoding, and declare it at its beginning if it is not UTF-8."
        )
        return self._at(self._elements.end, str(error), remedy)

    def _check_end(self) -> None:
        if (unfinished := self._elements.unfinished()) is None:
            return
        what, begin = unfinished
        if begin != self._elements.end:
            line, column = self._elements.line_and_column(begin)
            what += f" that begins at line {line:,}, column {column:,}"
        raise self._at(self._elements.end, f"was cut off inside {what}", _MEND)

    def _at(self, place: int, what: str, remedy: str) -> MalformedInput:
        line, column = self._elements.line_and_column(place)
        return MalformedInput(
            f"{self._name} {what}, at line {line:,}, column {column:,}.",
            remedy=remedy, line=line, column=column,
        )  # fmt: skip


def _assembled(name: str, kind: pa.DataType, arrays: dict[str, pa.Array], count: int) -> pa.Array:
    """A column, or a field of one that is a struct."""
    if name not in arrays:
        return pa.nulls(count, kind)
    if not pa.types.is_struct(kind):
        return arrays[name].cast(kind)
    fields = list(kind)
    parts = [_assembled(nested(name, each.name), each.type, arrays, count) for each in fields]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=pc.is_null(arrays[name]))


def _drop_markers(found: Found, texts: dict[int, str]) -> None:
    """Nobody asks for punctuations."""
    kept = [number for number, is_marker in enumerate(found.markers) if not is_marker]
    for name in ("rows", "begins", "ends", "markers"):
        values = getattr(found, name)
        setattr(found, name, [values[number] for number in kept])
    new = {number: position for position, number in enumerate(kept)}
    found.wrong = {new[number]: why for number, why in found.wrong.items() if number in new}
    moved = {new[number]: text for number, text in texts.items()}
    texts.clear()
    texts.update(moved)
