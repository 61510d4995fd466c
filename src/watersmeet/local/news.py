"""What happens to a local join: news of its inputs, and reports of its instances."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.store.master.table import Master


@dataclass
class Parcel:
    """A batch as it came. Its memory is counted until the last of its pieces is joined.

    A batch that was put aside takes no memory.
    """

    nbytes: int
    pieces: int
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Arrived:
    """A piece of an arrived batch, small enough for one push."""

    input: int
    batch: pa.RecordBatch
    parcel: Parcel


@dataclass(frozen=True, slots=True)
class Ended:
    """The input is complete."""

    input: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The input's source raised an error, after all batches that were put before."""

    input: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class Wanted:
    """The inputs need this many bytes beyond their shares: more than they had, or fewer."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class LaidDown:
    """A version of a master table is ready to be read."""

    input: int
    master: Master


News = Arrived | Ended | Failed | Wanted | LaidDown


@dataclass(frozen=True, slots=True)
class Found:
    """Results that an instance of the join has found, in a thread of its own."""

    batches: list[pa.RecordBatch]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Broke:
    """An instance of the join has raised an error."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Done:
    """All instances have carried out what they were last told."""


Report = Found | Broke | Done
