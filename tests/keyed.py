"""The join by its definition: what any algorithm over encoded keys must find."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.rows.address import Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.schema import EncodedRows, JoinSchema

Pairs = set[tuple[int, int]]


def matching(schema: JoinSchema, left: pa.RecordBatch, right: pa.RecordBatch) -> Pairs:
    """Positions of every two valid rows with equal hashes that `verify` lets pass."""
    encoded = [schema.encode(Side.LEFT, left), schema.encode(Side.RIGHT, right)]
    for side in Side:
        assert encoded[side].rows.schema.equals(schema.stored(side))
        encoded[side].rows.validate(full=True)
    equal = encoded[0].codes[:, None] == encoded[1].codes[None, :]
    i, j = np.nonzero(equal & valid(encoded[0])[:, None] & valid(encoded[1])[None, :])
    sources = [BatchRows(rows.rows) for rows in encoded]
    mask = schema.verify(Rows(sources[0], i), Rows(sources[1], j))
    if mask is not None:
        i, j = i[mask], j[mask]
    return set(zip(i.tolist(), j.tolist(), strict=True))


def valid(rows: EncodedRows) -> NDArray[np.bool_]:
    return np.ones(len(rows.codes), np.bool_) if rows.valid is None else rows.valid
