"""About where the rows of a side lie, known before they are divided by it.

Ranges are chosen by it, so it decides how evenly rows are divided, and no result. The row path
notes some rows of every block that it stages. The file path asks the footers if its row groups lie
beside each other; if they overlap, footers say little, and some row groups are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from watersmeet.model import Side
from watersmeet.policies.order import random_order
from watersmeet.rows.encoded import Codes
from watersmeet.spark.jobs import Record, run_tasks
from watersmeet.spark.placing import Placing
from watersmeet.spark.scans.ranges import ends_of
from watersmeet.spark.scans.relation import PlainScan, Split
from watersmeet.spark.tables.order import Range, is_clustered

# Rows that stand for a row group or a staged block; if there are few row groups, more of each.
_POINTS = 256
_POINTS_A_SIDE = 16_384
# Row groups are read for a sample until they have so many rows: one column of a million rows takes
# some 10 ms.
_SAMPLED_ROWS = 1_000_000
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Histogram:
    """Starts and ends of some rows of a side, and how many rows each stands for; `lost` rows can
    have no partner, because a value is null."""

    starts: Codes
    ends: Codes
    weights: NDArray[np.float64]
    lost: float
    source: str

    @property
    def rows(self) -> float:
        return float(self.weights.sum()) + self.lost

    @classmethod
    def of(cls, notes: Sequence[Record], *, source: str, share: float = 1.0) -> Histogram:
        """From notes of some parts of a table, which have this share of its rows."""
        counts = [len(note["starts"]) for note in notes]
        starts, ends = (
            np.array([code for note in notes for code in note[which]], np.uint64)
            for which in ("starts", "ends")
        )
        each = [note["valid"] / max(count, 1) for note, count in zip(notes, counts, strict=True)]
        weights = np.repeat(np.array(each, np.float64), counts)
        lost = float(sum(note["lost"] for note in notes))
        return cls(starts, ends, weights / share, lost / share, source)


def noted(side: Side, batch: pa.RecordBatch, placing: Placing) -> Record:
    """Where some rows of a batch lie, as JSON values."""
    columns = [batch.column(place) for place in placing.columns(side)]
    return _noted(side, columns, placing, points=_POINTS)


def _noted(side: Side, columns: Sequence[pa.Array], placing: Placing, *, points: int) -> Record:
    extent = placing.extent(side, columns)
    rows = np.arange(len(extent.starts))
    known = rows if extent.valid is None else rows[extent.valid]
    step = max(len(known) // points, 1)
    some = known[step // 2 :: step]
    return {
        "starts": extent.starts[some].tolist(),
        "ends": extent.ends[some].tolist(),
        "valid": len(known),
        "lost": len(rows) - len(known),
    }


def code_ranges(scan: PlainScan, side: Side, placing: Placing) -> list[tuple[Range, Range] | None]:
    """The least and the greatest start, and the same of ends, in each row group; None where a
    footer does not say."""
    fields = [scan.schema.field(place) for place in placing.columns(side)]
    groups = list(zip(*(ends_of(scan, field.name) for field in fields), strict=True))
    known = [group for group in groups if None not in group]
    try:
        # Of each column the least values of all groups, then the greatest.
        columns = [
            pa.array([group[n][which] for which in (0, 1) for group in known], field.type)
            for n, field in enumerate(fields)
        ]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return [None] * len(groups)
    extent = placing.extent(side, columns)
    starts, ends = (_halves(codes) for codes in (extent.starts, extent.ends))
    found = iter(zip(starts, ends, strict=True))
    return [None if None in group else next(found) for group in groups]


def _halves(codes: Codes) -> list[Range]:
    """Pairs of the codes in the first half and those in the second."""
    least, most = codes.reshape(2, -1).tolist()
    return list(zip(least, most, strict=True))


def reached(scan: PlainScan, side: Side, placing: Placing) -> list[Range | None]:
    """For each row group of a side, the other side's starts that its rows can meet."""
    ranges = code_ranges(scan, side, placing)
    known = np.array([each for each in ranges if each is not None], np.uint64).reshape(-1, 2, 2)
    starts, ends = known[:, 0], known[:, 1]
    first, _ = placing.reach(side, starts[:, 0].copy(), ends[:, 0].copy())
    _, last = placing.reach(side, starts[:, 1].copy(), ends[:, 1].copy())
    met = iter(zip(np.minimum(first, last).tolist(), last.tolist(), strict=True))
    return [None if each is None else next(met) for each in ranges]


def histograms(
    spark: SparkSession,
    scans: Mapping[Side, PlainScan],
    placing: Placing,
    *,
    at_once: int,
    query: str,
    seed: int,
) -> dict[Side, Histogram]:
    """Of the sides that our tasks read."""
    found: dict[Side, Histogram] = {}
    sampled: list[tuple[Side, Split]] = []
    for side, scan in scans.items():
        ranges = code_ranges(scan, side, placing)
        sure = [each for each in ranges if each is not None]
        if len(sure) == len(ranges) and is_clustered([starts for starts, _ in sure]):
            found[side] = _between(sure, [group.rows for group in scan.row_groups])
        else:
            sampled += [(side, split) for split in _some(scan, seed=seed + side)]
    narrow = {
        side: scan.only([scan.schema.names[place] for place in placing.columns(side)])
        for side, scan in scans.items()
    }
    points = max(_POINTS, 2 * _POINTS_A_SIDE // max(len(sampled), 1))

    def look(task: tuple[Side, Split]) -> Record:
        side, split = task
        read = narrow[side].read(split, batch_rows=_BATCH_ROWS)
        rows = pa.Table.from_batches(read, narrow[side].schema).combine_chunks()
        columns = [pa.concat_arrays(column.chunks) for column in rows.columns if column.chunks]
        columns = columns or [pa.array([], field.type) for field in rows.schema]
        return _noted(side, columns, placing, points=points)

    what = "looking at values, to divide them into ranges"
    notes = run_tasks(spark, sampled, look, at_once=at_once, query=query, what=what)
    for side in scans.keys() - found.keys():
        mine = [note for (each, _), note in zip(sampled, notes, strict=True) if each is side]
        rows = sum(split.stop for each, split in sampled if each is side)
        share = rows / scans[side].rows if rows else 1.0
        found[side] = Histogram.of(mine, source=f"a look at {rows:,} rows", share=share)
    return found


def _between(ranges: Sequence[tuple[Range, Range]], rows: Sequence[int]) -> Histogram:
    """Rows spread evenly over the codes of their row group."""
    starts, ends = (_spread([each[n] for each in ranges]) for n in (0, 1))
    weights = np.repeat(np.array(rows, np.float64) / _POINTS, _POINTS)
    return Histogram(starts, ends, weights, 0.0, "the files' footers")


def _spread(ranges: Sequence[Range]) -> Codes:
    least, most = np.array(ranges, np.uint64).T
    step = (most - least) // np.uint64(_POINTS - 1)
    codes: Codes = least[:, None] + step[:, None] * np.arange(_POINTS, dtype=np.uint64)
    return codes.reshape(-1)


def _some(scan: PlainScan, *, seed: int) -> list[Split]:
    """Whole row groups, as values inside of one may have an order."""
    chosen: list[Split] = []
    rows = 0
    for number in random_order(len(scan.row_groups), seed=seed):
        if rows >= _SAMPLED_ROWS:
            break
        group = scan.row_groups[number]
        chosen.append(Split(group.file, group.number, 0, group.rows))
        rows += group.rows
    return chosen
