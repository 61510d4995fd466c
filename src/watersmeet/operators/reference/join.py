"""A nested-loop join of any number of inputs, on any predicates, with promises.

It is here to be agreed with: the checks in `watersmeet.testing` hold every mechanism to the same
contract, and this one has nothing in it that could be subtle. It is also the shortest example of
what a mechanism consists of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import MemoryTooSmall
from watersmeet.model import JoinType, Side
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.reference.algorithm import ReferenceAlgorithm
from watersmeet.operators.reference.kept import KeptRows
from watersmeet.operators.saved import (
    FORMAT,
    Manifest,
    StateArea,
    check,
    load_counters,
    parameters,
    save_counters,
)
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Index, Matches, Rows
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import Promise, Promises
from watersmeet.rows.schema import EncodedRows, JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

# Combinations that are looked at together.
_TOGETHER = 2**16


class ReferenceJoin:
    """Keeps every row that may still be part of a result, and looks at every combination.

    Each result is reported exactly once: when the last of its rows arrives. That row meets all
    rows of the other inputs that are there, nothing is flushed, and what is dropped has been
    promised to find no partner any more.
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: ReferenceAlgorithm,
        *,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        inputs = range(len(schema.inputs))
        self.metrics = Metrics.of(len(inputs))
        self._schema = schema
        self._algorithm = algorithm
        self._account = memory
        self._spill = spill
        self._chunk_rows = (tuning or Tuning()).chunk_rows
        self._kept = [KeptRows.none(schema.stored(n), len(schema.at(n))) for n in inputs]
        self._promises = Promises()
        self._files = 0

    # ---- what a runtime asks --------------------------------------------------------------------

    @property
    def limit(self) -> int:
        return self._account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        numbers = np.arange(len(batch)) + self.metrics.rows_in[input]
        self.metrics.rows_in[input] += len(batch)
        encoded = self._schema.encode(input, batch)
        new = KeptRows(encoded.rows, encoded.codes_of, np.zeros(len(batch), np.bool_), numbers)
        if encoded.valid is not None:
            nulls = np.flatnonzero(~encoded.valid)
            self.metrics.null_keys[input] += len(nulls)
            yield from self._alone(input, new, nulls)
            new.keep(encoded.valid)
        for predicate, codes in zip(self._schema.at(input), new.codes_of, strict=True):
            broken = self._promises.broken_by(input, predicate, codes)
            self.metrics.broken_promises += int(broken.sum())
        yield from self._meet(input, new)
        self._kept[input].add(EncodedRows(new.codes_of, None, new.rows), new.numbers, new.matched)
        yield from self._drop_dead(input)
        self._report_memory()

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        if self._schema.predicates[promise.predicate].codes_decide:
            self._promises.accept(input, promise)
            for other in range(len(self._kept)):
                if other != input:
                    yield from self._drop_dead(other)
        self._report_memory()

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        yield from ()

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        yield from ()

    def end(self, input: int) -> Iterator[Matches]:
        yield from ()

    def finish(self) -> Iterator[Matches]:
        for input, kept in enumerate(self._kept):
            yield from self._unmatched(input, np.ones(len(kept), np.bool_))

    def resize(self, limit: int) -> Iterator[Matches]:
        self._account.limit = limit
        self._report_memory()
        yield from ()

    def lend(self, nbytes: int) -> Iterator[Matches]:
        yield from ()

    def tidy(self) -> Iterator[Matches]:
        yield from ()

    def owed(self) -> list[int]:
        return [0] * len(self._kept)

    def save(self, area: StateArea) -> Manifest:
        for kept in self._kept:
            path = self._spill.path / f"kept-{self._files}.arrow"
            self._files += 1
            if kept.write_unsaved(path):
                kept.saved.append({"name": area.put(path), "until": kept.unsaved})
                path.unlink()
        return {
            "format": FORMAT,
            "parameters": parameters(self._algorithm.name, self._schema, partitions=1),
            "promises": self._promises.save(),
            "kept": [
                {
                    "saved": list(kept.saved),
                    "numbers": kept.numbers.tolist(),
                    "matched": np.flatnonzero(kept.matched).tolist(),
                }
                for kept in self._kept
            ],
            "files": [file["name"] for kept in self._kept for file in kept.saved],
            **save_counters(self.metrics),
        }

    def load(self, area: StateArea, manifest: Manifest) -> None:
        check(manifest, parameters(self._algorithm.name, self._schema, partitions=1))
        self._promises = Promises.load(manifest["promises"])
        for kept, saved in zip(self._kept, manifest["kept"], strict=True):
            self._read(kept, saved, area)
        load_counters(self.metrics, manifest)
        self._report_memory()

    def close(self) -> None:
        self._spill.close()
        for kept in self._kept:
            kept.keep(np.zeros(len(kept), np.bool_))
        self._account.hold(0, "rows")
        self.metrics.memory_used = self._account.used

    # ---- combinations ---------------------------------------------------------------------------

    def _meet(self, input: int, new: KeptRows) -> Iterator[Matches]:
        """Report what new rows of an input make with those that are there of the others."""
        there = [new if other == input else kept for other, kept in enumerate(self._kept)]
        sources = [kept.source for kept in there]
        for chosen in self._combined({input: np.arange(len(new))}, there):
            rows = tuple(Rows(sources[n], chosen[n]) for n in range(len(there)))
            yield from self._matched(rows, there)

    def _combined(
        self, chosen: dict[int, Index], there: list[KeptRows]
    ) -> Iterator[dict[int, Index]]:
        """Combinations with one row of every input, from those of some inputs."""
        if not len(next(iter(chosen.values()))):
            return
        if len(chosen) == len(there):
            yield chosen
            return
        following, predicate = self._next(chosen)
        mine = self._schema.predicates[predicate].ends
        known = mine[0] if mine[1] == following else mine[1]
        first, last = self._reach(known, predicate, there[known])
        codes = self._codes(following, predicate, there[following])
        size = max(1, _TOGETHER // max(len(codes), 1))
        for start in range(0, len(chosen[known]), size):
            part = {n: index[start : start + size] for n, index in chosen.items()}
            low, high = first[part[known]], last[part[known]]
            row, other = np.nonzero((low[:, None] <= codes) & (codes <= high[:, None]))
            grown = {n: index[row] for n, index in part.items()} | {following: other}
            yield from self._combined(self._verified(grown, there), there)

    def _next(self, chosen: dict[int, Index]) -> tuple[int, int]:
        """An input that a predicate connects with those that were chosen, and the predicate."""
        for number, predicate in enumerate(self._schema.predicates):
            for end, other in (predicate.ends, predicate.ends[::-1]):
                if end in chosen and other not in chosen:
                    return other, number
        raise AssertionError("inputs that no predicate connects")

    def _verified(self, chosen: dict[int, Index], there: list[KeptRows]) -> dict[int, Index]:
        rows = [
            Rows(there[n].source, chosen[n]) if n in chosen else None for n in range(len(there))
        ]
        mask = self._schema.verify(*rows)
        codes = self._codes_hold(chosen, there)
        mask = codes if mask is None else mask & codes
        return {n: index[mask] for n, index in chosen.items()}

    def _codes_hold(self, chosen: dict[int, Index], there: list[KeptRows]) -> Mask:
        """Whether codes are within reach of each other, for all predicates so far."""
        mask = np.ones(len(next(iter(chosen.values()))), np.bool_)
        for number, predicate in enumerate(self._schema.predicates):
            left, right = predicate.ends
            if left in chosen and right in chosen:
                first, last = self._reach(left, number, there[left])
                codes = self._codes(right, number, there[right])[chosen[right]]
                mask &= (first[chosen[left]] <= codes) & (codes <= last[chosen[left]])
        return mask

    def _codes(self, input: int, predicate: int, kept: KeptRows) -> NDArray[np.uint64]:
        return kept.codes_of[self._schema.at(input).index(predicate)]

    def _reach(
        self, input: int, predicate: int, kept: KeptRows
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        asked = self._schema.predicates[predicate]
        return asked.reach(Side(asked.ends.index(input)), self._codes(input, predicate, kept))

    # ---- results --------------------------------------------------------------------------------

    def _matched(self, rows: tuple[Rows, ...], there: list[KeptRows]) -> Iterator[Matches]:
        how = self._schema.how
        self.metrics.candidates += len(rows[0])
        fresh = np.unique(rows[0].index[~there[0].matched[rows[0].index]])
        for kept, each in zip(there, rows, strict=True):
            kept.matched[each.index] = True
        if how is JoinType.SEMI:
            yield from self._counted(
                lambda part: (Rows(rows[0].source, fresh[part]), None), len(fresh), Stage.MM
            )
        elif how.emits_pairs:
            yield from self._counted(
                lambda part: tuple(Rows(each.source, each.index[part]) for each in rows),
                len(rows[0]),
                Stage.MM,
            )

    def _unmatched(self, input: int, mask: Mask) -> Iterator[Matches]:
        """Report those of the rows that have found no partner, now that none can come."""
        kept = self._kept[input]
        yield from self._alone(input, kept, np.flatnonzero(mask & ~kept.matched))

    def _alone(self, input: int, kept: KeptRows, index: Index) -> Iterator[Matches]:
        if len(self._kept) > 2 or not self._schema.how.keeps_unmatched(Side(input)):
            return
        source = kept.source

        def rows_of(part: slice) -> tuple[Rows | None, ...]:
            rows = Rows(source, index[part])
            return (rows, None) if input == Side.LEFT else (None, rows)

        yield from self._counted(rows_of, len(index), Stage.UNMATCHED)

    def _counted(
        self, rows_of: Callable[[slice], tuple[Rows | None, ...]], count: int, stage: Stage
    ) -> Iterator[Matches]:
        for start in range(0, count, self._chunk_rows):
            part = slice(start, min(start + self._chunk_rows, count))
            self.metrics.results[stage] += part.stop - part.start
            yield Matches(rows_of(part), stage)

    # ---- rows that may go -----------------------------------------------------------------------

    def _drop_dead(self, input: int) -> Iterator[Matches]:
        """Drop the rows of an input that cannot be part of a result to come."""
        kept = self._kept[input]
        dead = np.zeros(len(kept), np.bool_)
        for number in self._schema.at(input):
            ends = self._schema.predicates[number].ends
            other = ends[0] if ends[1] == input else ends[1]
            first, last = self._reach(input, number, kept)
            complete = self._promises.cover(other, number, first, last)
            if len(self._kept) > 2:
                # Partners that are there may still be joined with rows to come of a third input.
                codes = self._codes(other, number, self._kept[other])
                inside = (first[:, None] <= codes) & (codes <= last[:, None])
                complete &= ~inside.any(axis=1)
            dead |= complete
        if dead.any():
            yield from self._unmatched(input, dead)
            kept.keep(~dead)
            self.metrics.rows_purged += int(dead.sum())

    def _read(self, kept: KeptRows, saved: Manifest, area: StateArea) -> None:
        for file in saved["saved"]:
            path = self._spill.path / f"state-{file['name']}"
            area.get(file["name"], path)
            kept.read(path, saved["numbers"])
            path.unlink()
            kept.unsaved = file["until"]
        kept.saved = list(saved["saved"])
        kept.matched[saved["matched"]] = True

    def _report_memory(self) -> None:
        self._account.hold(sum(kept.nbytes for kept in self._kept), "rows")
        self.metrics.memory_used = self._account.used
        self.metrics.memory_peak = self._account.peak
        if self._account.used > self._account.limit:
            raise MemoryTooSmall(
                f"{self._algorithm.name} keeps every row in memory, and "
                f"{self._account.limit:,} bytes are full.",
                remedy='Give it more memory, or choose an algorithm that spills: "rpj".',
            )
