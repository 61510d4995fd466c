"""An aggregate over inputs that can only be read once and do not fit in memory.

A rectangle join (PR-Join) takes rows as they come, spills what does not fit and completes larger
and larger rectangles of both inputs. If rows come in random order, a completed rectangle is a
random sample of both, and estimates are made from it. At the end of both inputs all pairs have
been found, each once, and the answer is exact.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.answer.estimate import Estimate, Progress
from watersmeet.aggregates.answer.estimating import estimated, exact_cells, forecasts
from watersmeet.aggregates.answer.outlook import Outlook
from watersmeet.aggregates.answer.stream_ledger import StreamLedger
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.aggregates.partials.key_sums import columns_of, holds
from watersmeet.aggregates.partials.summing import sample_bytes
from watersmeet.aggregates.reading import WorkTime
from watersmeet.aggregates.sampling.strata import Strata
from watersmeet.errors import WatersmeetError
from watersmeet.estimators import OrderCheck
from watersmeet.estimators.forecast import Forecast
from watersmeet.local.forward import Forward, InputOrder
from watersmeet.local.found_pairs import FoundPairs
from watersmeet.local.stream_looks import FIRST_ROWS, RowCounts, Sizes, StreamLook, StreamLooks
from watersmeet.model import Side
from watersmeet.operators.rectangle.algorithm import RECTANGLE
from watersmeet.operators.rectangle.estimating import RectangleEstimate
from watersmeet.operators.rectangle.join import RectangleJoin, partitions_for
from watersmeet.operators.tuning import Invocation, Tuning
from watersmeet.rows.address import Matches
from watersmeet.store.account import MemoryAccount
from watersmeet.store.claim import SpillClaim
from watersmeet.words import megabytes, paragraph, seconds_text, size_text

ALGORITHM = "pr-join"
# What the join may hold of all memory; and the sums of rows that intervals are made from.
_FOR_JOIN = 2
_FOR_SAMPLE = 8
_LEAST_SAMPLE = 4 * 2**20
# Sums are copied when they are sorted and added up.
_COPIES = 3


class StreamReading:
    """Reads both inputs in turn, and what it has read stays read, whatever comes between."""

    def __init__(
        self,
        question: ResolvedQuestion,
        sources: tuple[Forward, Forward],
        *,
        settings: Settings,
        allowance: Allowance,
        spill_dir: str | Path | None,
        expected_rows: Sizes,
    ) -> None:
        self.question = question
        self._sources = sources
        self._settings = settings
        self._allowance = allowance
        self._work = WorkTime()
        self._claim = SpillClaim(spill_dir)
        limit = allowance.limit // _FOR_JOIN
        known = None not in expected_rows
        self._join = RectangleJoin(
            question.join,
            RECTANGLE[ALGORITHM],
            memory=MemoryAccount(limit),
            spill=self._claim.area,
            tuning=Tuning(
                partitions=partitions_for(limit),
                expected_rows=(expected_rows[0] or 0, expected_rows[1] or 0) if known else None,
                # When a partition is joined, and which keys it has, must not depend on its rows.
                invocation=Invocation(together=True),
                remaps=False,
            ),
        )
        self._counts = RowCounts(self._join, expected_rows)
        partitions = self._join.workspace.partitions
        self._estimate = RectangleEstimate(
            self._join,
            rows=expected_rows,
            moments=question.moments,
            most=_most_sums(allowance, question, partitions),
        )
        self.ledger = StreamLedger(question, self._estimate)
        room = allowance.groups(allowance.entries // 2)
        self.ledger.most_groups = room // (sample_bytes(question) * partitions)
        self._pairs = FoundPairs(question, self.ledger, self._estimate, most=allowance.pairs)
        self.looks = StreamLooks(self._counts, self._pairs)
        # What the join still has to yield for the batch that came last.
        self._found: Iterator[Matches] = iter(())
        self._ended = [False, False]
        self._finished = False
        self._failed: Exception | None = None
        self._forecasts: list[Forecast] = []
        self._orders = (InputOrder("left"), InputOrder("right"))
        self._cancelled = threading.Event()

    # ---- reading ----------------------------------------------------------------------------

    def read(self, look: StreamLook) -> None:
        self._cancelled.clear()
        if look.rows is None:
            # All that is left is for the answer, and nothing is estimated any more.
            self._pairs.stop_sampling()
        with self._work:
            while True:
                for matches in self._found:
                    self._pairs.add(matches)
                    self._check()
                read = self._counts.read_of_both
                if self._finished or (look.rows is not None and read >= look.rows):
                    self._pairs.count()
                    return
                self._check()
                self._advance()

    def take_in(self, look: StreamLook, found: None) -> None:
        """What was read has been counted while it came."""

    def extremes(self) -> Strata | None:
        """None: rows that have gone by cannot be asked again whether they are extreme."""
        return None

    def set_apart(self, found: Strata) -> None:
        """Nothing is, as there are no `extremes`."""

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        self.cancel()
        self._found = iter(())
        self._join.close()
        self._claim.close()
        for source in self._sources:
            source.close()

    def _advance(self) -> None:
        """Take in the next batch, or the end of an input, or of both."""
        if all(self._ended):
            self._found = self._join.finish()
            self._finished = True
            return
        if self._failed is not None:
            raise self._failed
        side = self._next_side()
        try:
            batch = self._sources[side].next()
        except Exception as error:
            # After an error an iterator looks as if it had come to its end.
            self._failed = error
            raise
        if batch is None:
            self._ended[side] = True
            self._counts.known[side] = self._counts.read[side]
            self._found = self._join.end(side)
        else:
            self._found = self._join.push(side, self._prepared(side, batch))
            expected = self._counts.known[side]
            if expected is not None and self._counts.read[side] + len(batch) > expected:
                self._counts.known[side] = None  # More have come than were promised.
        left, right = self._counts.known
        self._estimate.know_rows((left, right))

    def _next_side(self) -> Side:
        """The side of which less has been read."""
        for side in Side:
            if self._ended[side]:
                return side.other
        read = [
            rows / known if known and self._counts.of_both else float(rows)
            for rows, known in zip(self._counts.read, self._counts.known, strict=True)
        ]
        return Side.LEFT if read[0] <= read[1] else Side.RIGHT

    def _prepared(self, side: Side, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the columns that are needed. A row that the condition on its side drops stays a row
        of the sample, without a key: it is counted and meets nobody."""
        schema = self.question.schemas[side]
        batch = batch.select(schema.names)
        batch = batch if batch.schema.equals(schema) else batch.cast(schema)
        self._orders[side].watch(batch)
        condition = self.question.sides[side]
        if condition is None or not len(batch):
            return batch
        kept = holds(condition.evaluate(columns_of(batch, self.question, side), len(batch)))
        if kept.all():
            return batch
        place = schema.get_field_index(self.question.keys[0][side])
        arrays = list(batch.columns)
        nothing = pa.scalar(None, arrays[place].type)
        arrays[place] = pc.if_else(pa.array(kept), arrays[place], nothing)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise _Cancelled

    # ---- what is known ----------------------------------------------------------------------

    def estimate(self, look: StreamLook, history: Sequence[Estimate]) -> Estimate:
        ledger, settings = self.ledger, self._settings
        columns = ledger.answer()
        if self._finished:
            cells, unseen = exact_cells(columns), None
            self._forecasts = []
        else:
            cells, unseen = estimated(
                self.question,
                ledger,
                settings,
                looks=None,
                unread=None,
                order=OrderCheck(self._objection()),
            )
            self._forecasts = forecasts(self.question, ledger)
        asked = self.question.aggregates
        return Estimate(
            names=tuple(each.name for each in asked.asked),
            group_names=tuple(group.name for group in asked.groups),
            groups=ledger.group_values(),
            cells=cells,
            progress=self._progress(history),
            confidence=settings.confidence,
            exact=self._finished,
            columns=tuple(columns),
            unseen=unseen,
        )

    def _objection(self) -> str:
        """Why the rows so far are no random sample, if something speaks against it."""
        known = [each.objection for each in self._sources]
        return next(filter(None, [*known, *(each.objection() for each in self._orders)]), "")

    def _progress(self, history: Sequence[Estimate]) -> Progress:
        read, rows = self._counts.read_of_both, self._counts.of_both
        nbytes = sum(source.bytes_read for source in self._sources)
        whole = nbytes * rows // max(read, 1) if rows is not None else nbytes
        return Progress(
            look=len(history) + 1,
            rows_read=read,
            rows=read if rows is None else rows,
            bytes_read=nbytes,
            nbytes=whole,
            seconds=self._work.seconds,
            sized=rows is not None,
        )

    def forecasts(self) -> list[Forecast]:
        return self._forecasts

    def bytes_at(self, share: float) -> float:
        rows, read = self._counts.of_both, self._counts.read_of_both
        nbytes = sum(source.bytes_read for source in self._sources)
        if self._finished:
            return float(nbytes)
        return math.nan if rows is None else share * nbytes * rows / max(read, 1)

    def rows_in(self, look: StreamLook) -> int:
        rows = look.rows if look.rows is not None else self._counts.of_both
        return max((rows or 0) - self._counts.read_of_both, 0)

    def explain(self, latest: Estimate | None, outlook: Outlook | None, crowded: str) -> str:
        facts = {"aggregate": self.question.words}
        for side, source, rows in zip(Side, self._sources, self._counts.known, strict=True):
            size = "nobody has said how many rows" if rows is None else f"{rows:,} rows"
            facts[side.name.lower()] = f"{source.name}, read once from its beginning; {size}"
        facts["design"] = (
            f"{ALGORITHM}, because an input can only be read from its beginning and does not fit "
            "in memory"
        )
        facts["trust"] = self._objection() or (
            "intervals hold if rows come in random order, and nothing speaks against that so far"
        )
        if None in self._counts.known:
            facts["sizes"] = (
                "COUNT and SUM have no estimate before the end, AVG and STDDEV have: give "
                "expected_rows=(left, right) if you know them"
            )
        facts["looks"] = f"when twice as many rows have come, the first after {FIRST_ROWS:,}"
        if crowded:
            facts["looks"] = f"no more before the exact answer. {crowded}"
        facts["memory"] = (
            f"{megabytes(self._join.limit)} for rows; what does not fit is spilled to "
            f"{self._claim.area.path}"
        )
        if latest is not None:
            size = size_text(latest.progress.bytes_read)
            facts["read"] = f"{size} in {seconds_text(latest.seconds)}, look {latest.progress.look}"
        facts["forecast"] = "comes with the first estimate" if outlook is None else str(outlook)
        return "\n".join(paragraph(name, text) for name, text in facts.items())


def _most_sums(allowance: Allowance, question: ResolvedQuestion, partitions: int) -> int:
    """Sums of rows that fit, of each side and partition."""
    room = max(allowance.limit // _FOR_SAMPLE, _LEAST_SAMPLE)
    each = 8 * (1 + question.moments)
    return max(room // (_COPIES * each * 2 * partitions), 64)


class _Cancelled(WatersmeetError):
    def __init__(self) -> None:
        super().__init__("Reading was stopped.", remedy="Call resume() to go on.")
