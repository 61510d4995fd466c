"""All rows of one input that may still be part of a result."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.batch import BatchRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.schema import EncodedRows
from watersmeet.rows.values import rows_where


@dataclass
class KeptRows:
    """Rows in arrival order with their codes, and which of them have found a partner.

    `saved` are files that hold the first rows, in the same order, with how many they hold; rows
    that were dropped since are still in them.
    """

    rows: pa.RecordBatch
    codes_of: tuple[Codes, ...]
    matched: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """How many rows of the input came before each."""
    unsaved: int = 0
    """The number from which on rows are in no file."""
    saved: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def none(cls, schema: pa.Schema, predicates: int) -> KeptRows:
        empty = pa.RecordBatch.from_pylist([], schema)
        return cls(empty, tuple(np.zeros(0, np.uint64) for _ in range(predicates)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + 8 * len(self.codes_of) * len(self) + 9 * len(self))

    @property
    def source(self) -> BatchRows:
        return BatchRows(self.rows)

    def add(self, encoded: EncodedRows, numbers: NDArray[np.int64], matched: Mask) -> None:
        self.rows = pa.concat_batches([self.rows, encoded.rows])
        self.codes_of = tuple(
            np.concatenate(both) for both in zip(self.codes_of, encoded.codes_of, strict=True)
        )
        self.numbers = np.concatenate([self.numbers, numbers])
        self.matched = np.concatenate([self.matched, matched])

    def keep(self, mask: Mask) -> None:
        """Drop the rows that are not in the mask."""
        self.rows = rows_where(self.rows, mask)
        self.codes_of = tuple(codes[mask] for codes in self.codes_of)
        self.numbers, self.matched = self.numbers[mask], self.matched[mask]
        first = int(self.numbers[0]) if len(self) else self.unsaved
        self.saved = [file for file in self.saved if file["until"] > first]

    # ---- files ----------------------------------------------------------------------------------

    def write_unsaved(self, path: Path) -> bool:
        """Write the rows that are in no file yet; whether there are any."""
        new = self.numbers >= self.unsaved
        if not new.any():
            return False
        codes = {f"__code{n}": pa.array(codes[new]) for n, codes in enumerate(self.codes_of)}
        rows = rows_where(self.rows, new)
        batch = pa.record_batch(
            [*codes.values(), pa.array(self.numbers[new]), *rows.columns],
            names=[*codes, "__number", *rows.schema.names],
        )
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, batch.schema) as writer:
            writer.write_batch(batch)
        self.unsaved = int(self.numbers[-1]) + 1
        return True

    def read(self, path: Path, here: list[int]) -> None:
        """Take in the rows of a file whose numbers are among these."""
        with pa.OSFile(str(path), "rb") as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        predicates = len(self.codes_of)
        numbers = batch.column(predicates).to_numpy()
        codes = tuple(batch.column(n).to_numpy().copy() for n in range(predicates))
        rows = pa.RecordBatch.from_arrays(batch.columns[predicates + 1 :], schema=self.rows.schema)
        mask = np.isin(numbers, here)
        encoded = EncodedRows(codes, mask, rows).with_keys()
        self.add(encoded, numbers[mask], np.zeros(int(mask.sum()), np.bool_))
