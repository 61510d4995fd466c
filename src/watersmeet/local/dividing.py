"""Divides the rows of all inputs among the instances of a join, by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels.dividing import place
from watersmeet.kernels.spark_hash import group_by_instance
from watersmeet.model import Side
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.cube import Cube
from watersmeet.rows.predicates import Encode, EqualKeys
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.tree import attribute_of

# The high bits of a code choose the partition inside an instance, and its low bits the place in an
# index. If instances were chosen by either, some partitions or places of each would stay empty.
_MIDDLE = 16
# Rows of a master table are laid down in order of their codes, so there an instance has a range.
_HIGH = 0


@dataclass(frozen=True)
class KeyGroup:
    """Columns of some inputs that must be equal."""

    keys: dict[int, Encode]
    """By input, what computes the codes of its keys. Keys that are equal have equal codes,
    whatever the types of their columns."""


def key_groups(schema: JoinSchema) -> list[KeyGroup]:
    """The groups of columns that must be equal. Bands divide nothing."""
    found: list[tuple[set[object], dict[int, Encode]]] = []
    for equal in schema.predicates:
        if not isinstance(equal, EqualKeys):
            continue
        attributes: set[object] = {
            (equal.ends[end], attribute)
            for end in Side
            if (attribute := attribute_of(equal, end)) is not None
        }
        keys = {equal.ends[end]: equal.encoder(end) for end in Side}
        # An input that is part of another group with the same columns has the same codes there.
        for group in [group for group in found if group[0] & attributes]:
            attributes |= group[0]
            keys |= group[1]
            found.remove(group)
        found.append((attributes, keys))
    return [KeyGroup(keys) for _, keys in found]


class Divider:
    """Sends each row to the instances that have all rows of its keys: to one, if its input has
    columns in all groups that divide.

    A row with a null in its key matches nothing, and may go to any instance.
    """

    def __init__(
        self, schema: JoinSchema, instances: int, *, in_order: bool = False, inputs: int = 0
    ) -> None:
        """`in_order`: instances have ranges of codes. Only the first `inputs` are divided; all if
        it is 0."""
        groups = key_groups(schema)
        rows = [1] * (inputs or len(schema.inputs))
        self._schema = schema
        self._instances = instances
        self._shift = _HIGH if in_order else _MIDDLE
        self._cube = cube = Cube.of(instances, rows, groups)
        self._groups = [
            (share, group)
            for share, group in zip(cube.shares, groups, strict=True)
            if share > 1 or len(groups) == 1
        ]
        self.copies = [cube.copies(input, groups) for input in range(len(schema.inputs))]
        """By input, to how many instances each of its rows goes."""

    def divide(self, input: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows of each instance, in their old order and in the types in which they are kept."""
        rows = self._schema.accept(input, batch)
        if self.copies[input] == self._instances:
            return [rows] * self._instances
        source, columns = BatchRows(rows), range(rows.num_columns)
        cells = np.zeros(len(rows), np.int32)
        # The cells that a row goes to, beyond the one that its keys name.
        offsets, stride = [0], 1
        for share, group in self._groups:
            if input in group.keys:
                place(group.keys[input](rows).codes, self._shift, share, stride, cells)
            else:
                offsets = [each + stride * place for each in offsets for place in range(share)]
            stride *= share
        order, starts = group_by_instance(cells, self._instances)
        parts: list[pa.RecordBatch] = [rows.slice(0, 0)] * self._instances
        for cell, (first, last) in enumerate(pairwise(starts.tolist())):
            if first < last:
                taken = [source.take(column, order[first:last]) for column in columns]
                part = pa.RecordBatch.from_arrays(taken, schema=rows.schema)
                for offset in offsets:
                    parts[cell + offset] = part
        return parts


def bounds_of(instances: int) -> NDArray[np.uint64]:
    """The first code of each instance that has a range of codes."""
    numbers = range(instances)
    return np.array([-(-(number << 32) // instances) << 32 for number in numbers], np.uint64)


def end_to_end(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in one batch, or in the batches as they are if Arrow cannot copy their types
    end to end."""
    if len(batches) < 2:
        return list(batches)
    try:
        return [pa.concat_batches(batches)]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return list(batches)
