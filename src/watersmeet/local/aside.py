"""Writes batches for which there is no memory to disk, and maps them into memory from there."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

from watersmeet.store.spill import unusable


class Aside:
    """Writes a batch to a file in a directory, and returns it mapped from that file.

    The system reads mapped pages when they are needed, and may drop them at any time. The file is
    unlinked at once, so its space is freed when the batch is.
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
