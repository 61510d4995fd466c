"""`wm.plan_enrich`: what an enrichment will do in so much memory, before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.local.masters import master_input
from watersmeet.local.service_costs import Measured, measure_service
from watersmeet.local.service_model import FILLED, Partners, room_for_rows, service_model
from watersmeet.local.sources import open_source
from watersmeet.model import Side
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.family import find_enricher
from watersmeet.operators.semistream.algorithm import SEMI_STREAM
from watersmeet.policies.service import Service, ServiceModel
from watersmeet.rows.encoded import Codes
from watersmeet.rows.on import On
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.claim import SpillClaim
from watersmeet.store.device import measure_costs
from watersmeet.store.master.laying import encoder, lay_down
from watersmeet.store.master.table import Master
from watersmeet.store.shares import SMALLEST_MEMORY, MemoryShares
from watersmeet.store.spill import SpillArea
from watersmeet.words import megabytes, paragraph, seconds_text, size_text

_SAMPLE_ROWS = 400_000
_SAMPLE_BYTES = 64 * 2**20
_BATCH_BYTES = 4 * 2**20
_PAGE_BYTES = 2**16
# Of all keys, those with such codes are counted with all their rows.
_KEYS_COUNTED = np.uint64(64)
_FIRST_GUESS = 8 * 2**20
_NEXT_GUESS = 4
# So many keys of the stream must be among those that are counted.
_FEWEST_KEYS = 100


@dataclass(frozen=True)
class EnrichPlan:
    """What to expect of `wm.local.enrich` on this machine, on one core. `str` says it in words."""

    algorithm: str
    memory: int
    """The limit, in bytes: what was given, or what the rate takes."""
    rate: float
    """The most stream rows a second; or the rate that was asked for."""
    most_seconds: float
    """How long a row waits at most: one round through the master; 0 if all of it is cached."""
    look_up_seconds: float
    """How long a row waits if it is the only one, with `auto`: one block is read for it."""
    cached: float
    """The part of the stream rows that the cache serves."""
    cache_bytes: float
    waiting_rows: float
    master_rows: int
    master_bytes: float
    """As it is written to disk."""
    measured: Measured
    """Seconds and bytes that this follows from."""

    def __str__(self) -> str:
        facts = {
            "algorithm": f"{self.algorithm}: {find_enricher(self.algorithm).words}",
            "master": f"{self.master_rows:,} rows, {size_text(self.master_bytes)} on disk",
            "memory": f"{megabytes(self.memory)}: {self.waiting_rows:,.0f} rows wait, and "
            f"{megabytes(self.cache_bytes)} are cache, which serves {self.cached:.0%} of the rows",
            "rate": f"{self.rate:,.0f} rows a second on one core",
            "latency": self._latency(),
        }
        return "\n".join(paragraph(name, fact) for name, fact in facts.items())

    def _latency(self) -> str:
        if not self.most_seconds:
            return "none: all of the master is cached, and every row is answered as it arrives"
        most = f"at most {seconds_text(self.most_seconds)}, one round through the master"
        if not SEMI_STREAM[self.algorithm].skips:
            return f"{most}; so long all rows wait that the cache does not serve"
        return (
            f"{most}, and half of that on average if rows come as fast as they are served; "
            f"a row that comes alone waits {seconds_text(self.look_up_seconds)}"
        )


def plan_enrich(
    stream: Any,
    master: Any,
    on: On,
    how: str = "inner",
    *,
    memory: int | str | None = None,
    rate: float | None = None,
    algorithm: str = "auto",
    master_rows: int | None = None,
    spill_dir: str | Path | None = None,
) -> EnrichPlan:
    """Say how fast an enrichment will be with so much memory, or how much memory a rate takes.

    It reads some rows of the stream, and the master once to count it; some rows are joined to
    measure what this machine takes for each step. The rest is calculated (SSBJ, equations 1 to 6).

    Parameters
    ----------
    stream
        Rows like those that will come, some 100,000 of them, in their usual mixture. How often keys
        come again decides what a cache is worth.
    master, on, how, algorithm, spill_dir
        As in `wm.local.enrich`.
    memory
        The memory limit; 256MB if neither that nor a rate is given.
    rate
        Stream rows a second. The plan has the least memory in which they are served.
    master_rows
        How many rows the master has, if `master` is only a part of it, or takes long to read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> clicks = pa.table({"item": list(range(1000))})
    >>> items = pa.table({"item": list(range(5000)), "price": [1.0] * 5000})
    >>> plan = plan_enrich(clicks, items, "item", memory="16MB")
    >>> plan.cached, plan.most_seconds
    (1.0, 0.0)
    """
    if memory is not None and rate is not None:
        raise InvalidArgument(
            "memory= and rate= are both given, and each follows from the other.",
            remedy="Give one of them.",
        )
    if rate is not None and not (isinstance(rate, int | float) and 0 < rate < float("inf")):
        raise InvalidArgument(
            f"rate={rate!r} is no number of rows a second.", remedy="Give one, such as 50_000."
        )
    question = EnrichQuestion.parse(
        on, how, algorithm=algorithm, condition=None, suffixes=("", "_right"),
        version_column=None, deadline=None,
    )  # fmt: skip
    limit = None if rate is not None else MemoryShares.parse(memory or "256MB")[0]
    sampled = _sampled_stream(stream)
    claim = SpillClaim(spill_dir)
    try:
        counted = _Counted.of(master, sampled.schema, question, rows=master_rows)
        planner = _Planner(question.algorithm, counted, sampled, claim.area)
        if limit is not None:
            return planner.in_memory(limit)
        assert rate is not None
        return planner.at_rate(float(rate))
    finally:
        claim.close()


def _sampled_stream(stream: Any) -> pa.RecordBatch:
    source = open_source(stream, word="stream", batch_bytes=_BATCH_BYTES)
    batches: list[pa.RecordBatch] = []
    for batch in source.batches():
        batches.append(batch)
        if _is_enough(batches):
            break
    if not sum(map(len, batches)):
        raise InvalidArgument(
            "stream has no rows, so nothing is known of what will come.",
            remedy="Give some 100,000 rows of a usual day.",
        )
    return _together(batches)


def _is_enough(batches: list[pa.RecordBatch]) -> bool:
    rows, nbytes = sum(map(len, batches)), sum(each.nbytes for each in batches)
    return rows >= _SAMPLE_ROWS or nbytes >= _SAMPLE_BYTES


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@dataclass(frozen=True, eq=False)
class _Counted:
    """The master: some of its rows, how many there are, and how many keys."""

    schema: JoinSchema
    sample: pa.RecordBatch
    rows: int
    rows_of_key: float
    codes: Codes | None
    """Of the counted keys, each as often as it has rows; None if some rows were not read."""

    @property
    def distinct(self) -> int:
        return max(round(self.rows / self.rows_of_key), 1)

    @classmethod
    def of(
        cls, master: Any, stream: pa.Schema, question: EnrichQuestion, *, rows: int | None
    ) -> _Counted:
        opened = master_input(master, batch_bytes=_BATCH_BYTES, refreshed=False).open()
        assert opened is not None
        batches: list[pa.RecordBatch] = []
        schema: JoinSchema | None = None
        kept: list[Any] = []
        count = 0
        for batch in opened.batches():
            schema = schema or question.resolve(stream, batch.schema)
            count += len(batch)
            codes = schema.encode(Side.RIGHT, batch).with_keys().codes
            kept.append(codes[codes % _KEYS_COUNTED == 0])
            if not _is_enough(batches):
                batches.append(batch)
            elif rows is not None:
                break
        if schema is None or not count:
            raise InvalidArgument(
                "master has no rows, so every row is answered at once.",
                remedy="Give the table, or a part of it and master_rows=.",
            )
        chosen = np.concatenate(kept)
        repeated = len(chosen) / max(len(np.unique(chosen)), 1) if len(chosen) else 1.0
        whole = chosen if rows is None or rows <= count else None
        return cls(schema, _together(batches), rows or count, max(repeated, 1.0), whole)

    def partners(self, asked: Codes) -> Partners:
        """What keys that the stream asks for have here, told from those that are counted."""
        asked = np.unique(asked[asked % _KEYS_COUNTED == 0])
        if self.codes is None or len(asked) < _FEWEST_KEYS:
            return Partners(1.0, self.rows_of_key)
        found = np.isin(asked, self.codes)
        rows = np.count_nonzero(np.isin(self.codes, asked))
        return Partners(float(found.mean()), rows / len(asked))


class _Planner:
    def __init__(
        self, algorithm: str, counted: _Counted, stream: pa.RecordBatch, area: SpillArea
    ) -> None:
        self._algorithm = SEMI_STREAM[algorithm]
        self._counted = counted
        self._stream = stream
        self._area = area
        self._device = measure_costs(area.path, _PAGE_BYTES)

    def in_memory(self, limit: int) -> EnrichPlan:
        model, measured = self._model(limit)
        return self._plan(limit, model, measured, model.in_memory(room_for_rows(limit)))

    def at_rate(self, rate: float) -> EnrichPlan:
        """Costs depend on memory: a step takes longer than it should if it has little to do. So
        they are measured with more and more memory until it is enough."""
        limit = _FIRST_GUESS
        while True:
            model, measured = self._model(limit)
            if (most := model.in_memory(room_for_rows(limit))).rate >= rate:
                break
            if not most.cycle_seconds:
                raise InvalidArgument(
                    f"rate={rate:,.0f} rows a second are more than one core can serve, even with "
                    "all of the master in memory.",
                    remedy=f"Ask for less than {most.rate:,.0f}, or divide the stream among "
                    "processes.",
                )
            limit *= _NEXT_GUESS
        service = model.at_rate(rate) or most
        least = limit // _NEXT_GUESS if limit > _FIRST_GUESS else SMALLEST_MEMORY
        needed = min(max(_limit_of(service.balance.memory / FILLED), least), limit)
        return self._plan(needed, model, measured, service)

    def _model(self, limit: int) -> tuple[ServiceModel, Measured]:
        counted, algorithm = self._counted, self._algorithm
        path = self._area.path / f"planned-{limit}"
        lay_down(
            self._slices(counted.sample),
            encoder(counted.schema),
            schema=counted.schema.stored(Side.RIGHT),
            target=path,
            scratch=self._area,
            memory=limit,
            version="",
        )
        try:
            measured = measure_service(
                counted.schema,
                algorithm.name,
                master=lambda: Master.open(path),
                stream=self._stream,
                memory=limit,
                # A join closes its own.
                spill=SpillArea(self._area.path),
            )
            with_codes = Master.open(path)
            row_bytes = with_codes.nbytes / max(with_codes.rows, 1)
            with_codes.close()
        finally:
            path.unlink()
        device = self._device.sequential / _PAGE_BYTES
        costs = replace(measured.costs, read=measured.costs.read + device)
        measured = Measured(costs, measured.sizes)
        codes = counted.schema.encode(Side.LEFT, self._stream).with_keys().codes
        partners = counted.partners(codes)
        model = service_model(
            algorithm,
            measured,
            popularity=partners.popularity(codes, distinct=counted.distinct),
            results=partners.results(counted.schema.how),
            master_rows=counted.rows,
            master_bytes=counted.rows * row_bytes,
        )
        return model, measured

    def _slices(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch

    def _plan(
        self, limit: int, model: ServiceModel, measured: Measured, service: Service
    ) -> EnrichPlan:
        balance = service.balance
        block = MemoryShares.split(limit).loaded / 2
        return EnrichPlan(
            algorithm=self._algorithm.name,
            memory=limit,
            rate=service.rate,
            most_seconds=service.cycle_seconds,
            look_up_seconds=self._device.random + min(block, 2**18) * measured.costs.read,
            cached=balance.cached,
            cache_bytes=balance.cache_bytes,
            waiting_rows=balance.waiting if service.cycle_seconds else 0.0,
            master_rows=round(model.master_rows),
            master_bytes=model.master_bytes,
            measured=measured,
        )


def _limit_of(store: float) -> int:
    """The memory limit whose share for rows is that.

    >>> [MemoryShares.split(_limit_of(nbytes)).store // 2**20 for nbytes in (2**24, 2**30)]
    [16, 1024]
    """
    most_input = MemoryShares.split(2**40).input
    small = int(-(-store * 4 // 3))
    limit = small if small // 8 <= most_input else int(-(-(store + most_input) * 8 // 7))
    return limit + 8


__all__ = ["EnrichPlan", "plan_enrich"]
