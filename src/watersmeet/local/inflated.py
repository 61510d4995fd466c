"""How large the compressed batches of an Arrow file are, found without decompressing them.

Arrow tells the size of a stored batch only after it has decompressed it. But every compressed
buffer begins with its true length, and the message before the buffers says where they are. It is a
flatbuffer (Arrow's Message.fbs: a Message has a header, here a RecordBatch, whose third field lists
its buffers).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

_MAGIC_BYTES = 8
_BUFFERS, _COMPRESSION = 2, 3
_HEADER = 2
_NOT_COMPRESSED = -1


def largest_batch(file: pa.MemoryMappedFile, *, is_stream: bool) -> int:
    """Bytes of the largest compressed batch; 0 when none is compressed."""
    file.seek(0 if is_stream else _MAGIC_BYTES)
    sizes = [_inflated(message) for message in _messages(file) if message.type == "record batch"]
    file.seek(0)
    return max(sizes, default=0)


def _messages(file: pa.MemoryMappedFile) -> Iterator[pa.Message]:
    while True:
        try:
            yield pa.ipc.read_message(file)
        except EOFError:
            return


def _inflated(message: pa.Message) -> int:
    header = message.metadata.to_pybytes()
    batch = _table_at(header, _field(header, _table_at(header, 0), _HEADER))
    if not _field(header, batch, _COMPRESSION):
        return 0
    vector = _field(header, batch, _BUFFERS)
    vector += struct.unpack_from("<I", header, vector)[0]
    (count,) = struct.unpack_from("<I", header, vector)
    body, total = memoryview(message.body), 0
    for number in range(count):
        offset, length = struct.unpack_from("<qq", header, vector + 4 + 16 * number)
        if length:
            (size,) = struct.unpack_from("<q", body, offset)
            total += length if size == _NOT_COMPRESSED else size
    return total


def _table_at(header: bytes, place: int) -> int:
    """The position of the table to which the offset at `place` points."""
    return place + int(struct.unpack_from("<I", header, place)[0])


def _field(header: bytes, table: int, number: int) -> int:
    """The position of a field of a table; 0 if the table does not have it."""
    fields = table - int(struct.unpack_from("<i", header, table)[0])
    (size,) = struct.unpack_from("<H", header, fields)
    place = 4 + 2 * number
    if place >= size:
        return 0
    (offset,) = struct.unpack_from("<H", header, fields + place)
    return table + int(offset) if offset else 0
