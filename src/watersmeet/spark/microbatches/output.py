"""The result rows of one batch between the operator that finds them and Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import xxhash

from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.state import InstanceState, Manifest
from watersmeet.store.spill import Block, IoKind, SpillArea


class Output:
    """A file that takes rows as they are found, so that a batch may give more than memory holds."""

    def __init__(
        self, area: SpillArea, schema: JoinSchema, marked: MarkedOutput | None = None
    ) -> None:
        """`marked` is the result with its marker rows, if it has any."""
        self.rows = 0
        self._area = area
        self._schema = schema
        self._marked = marked
        self._blocks: list[Block] = []
        columns = schema.output if marked is None else marked.schema
        self._writer = area.create(columns, IoKind.FLUSH)

    def append(self, matches: Matches) -> None:
        if len(matches):
            batch = self._schema.materialise(matches)
            self.append_rows(batch if self._marked is None else self._marked.rows(batch))

    def append_rows(self, batch: pa.RecordBatch) -> None:
        """Rows as they are put out, marker rows or not."""
        self._blocks.append(self._writer.append(batch, (0, 0), first=False))
        self.rows += len(batch)

    def finish(self, state: InstanceState) -> Manifest | None:
        """Make the file a part of the state; None if there are no rows."""
        if not self._blocks:
            self._writer.abandon()
            return None
        path = self._area.path / self._writer.finish()
        name = state.put(path)
        path.unlink()
        blocks = [[block.offset, block.length, block.checksum] for block in self._blocks]
        return {"name": name, "rows": self.rows, "blocks": blocks}


def emit(manifest: Manifest, state: InstanceState, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The output of a committed version, each block checked before it goes out."""
    output = manifest["output"]
    if output is None:
        return
    with state.open(output["name"]) as source:
        for offset, length, checksum in output["blocks"]:
            message = state.read_block(source, output["name"], offset=offset, length=length)
            if xxhash.xxh3_64_intdigest(message) != checksum:
                raise state.altered(output["name"])
            yield pa.ipc.read_record_batch(message, schema)
