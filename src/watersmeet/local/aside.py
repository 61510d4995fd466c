"""Batches that memory has no room for: written to disk, and mapped from there."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

from watersmeet.store.spill import unusable


class Aside:
    """Puts batches aside in a directory.

    What is mapped is read when it is needed, and the system may drop it at any time. The files
    have no names any more once this returns, and go with their last reader.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        path = self._directory / f"aside-{next(self._numbers):06}.arrow"
        try:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
            return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        except OSError as error:
            raise unusable(self._directory.parent, error) from error
        finally:
            path.unlink(missing_ok=True)
