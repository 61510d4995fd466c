"""About where the values of a band's columns lie, known before the rows are divided by them.

Ranges are chosen by it, so it decides how evenly rows are divided, and no result. The row path
notes some codes of every block that it stages. The file path asks the footers if its row groups lie
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
from watersmeet.rows.predicates import ValuesInBand
from watersmeet.spark.jobs import Record, run_tasks
from watersmeet.spark.scans.ranges import ends_of
from watersmeet.spark.scans.relation import PlainScan, Split
from watersmeet.spark.tables.order import Range, is_clustered

# Codes that stand for a row group or a staged block.
_POINTS = 256
# Row groups are read for a sample until they have so many rows: one column of a million rows takes
# some 10 ms.
_SAMPLED_ROWS = 1_000_000
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Histogram:
    """Codes of some rows of a side, and how many rows each stands for; `lost` rows can have no
    partner, because their value is null."""

    codes: Codes
    weights: NDArray[np.float64]
    lost: float
    source: str

    @property
    def rows(self) -> float:
        return float(self.weights.sum()) + self.lost

    @classmethod
    def of(cls, notes: Sequence[Record], *, source: str, share: float = 1.0) -> Histogram:
        """From notes of some parts of a table, which have this share of its rows."""
        counts = [len(note["codes"]) for note in notes]
        codes = np.array([code for note in notes for code in note["codes"]], np.uint64)
        each = [note["valid"] / max(count, 1) for note, count in zip(notes, counts, strict=True)]
        weights = np.repeat(np.array(each, np.float64), counts)
        lost = float(sum(note["lost"] for note in notes))
        return cls(codes, weights / share, lost / share, source)


def noted(side: Side, values: pa.Array, band: ValuesInBand) -> Record:
    """Some codes of a column, as JSON values."""
    encoded = band.codec.encode(side, values)
    codes = encoded.codes if encoded.valid is None else encoded.codes[encoded.valid]
    step = max(len(codes) // _POINTS, 1)
    some = codes[step // 2 :: step]
    return {"codes": some.tolist(), "valid": len(codes), "lost": len(values) - len(codes)}


def code_ranges(scan: PlainScan, side: Side, band: ValuesInBand) -> list[Range | None]:
    """The least and the greatest code in each row group; None where a footer does not say."""
    field = scan.schema.field(band.columns[side])
    ends = ends_of(scan, field.name)
    known = [each for each in ends if each is not None]
    try:
        values = pa.array([value for each in known for value in each], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return [None] * len(ends)
    codes = iter(band.codec.encode(side, values).codes.tolist())
    return [None if each is None else (next(codes), next(codes)) for each in ends]


def reached(scan: PlainScan, band: ValuesInBand) -> list[Range | None]:
    """For each row group of the right side, the left side's codes that its rows can meet."""
    ranges = code_ranges(scan, Side.RIGHT, band)
    known = np.array([each for each in ranges if each is not None], np.uint64).reshape(-1, 2)
    first, _ = band.codec.reach(Side.RIGHT, known[:, 0].copy())
    _, last = band.codec.reach(Side.RIGHT, known[:, 1].copy())
    met = iter(zip(np.minimum(first, last).tolist(), last.tolist(), strict=True))
    return [None if each is None else next(met) for each in ranges]


def histograms(
    spark: SparkSession,
    scans: Mapping[Side, PlainScan],
    band: ValuesInBand,
    *,
    at_once: int,
    query: str,
    seed: int,
) -> dict[Side, Histogram]:
    """Of the sides that our tasks read."""
    found: dict[Side, Histogram] = {}
    sampled: list[tuple[Side, Split]] = []
    for side, scan in scans.items():
        ranges = code_ranges(scan, side, band)
        sure = [each for each in ranges if each is not None]
        if len(sure) == len(ranges) and is_clustered(sure):
            found[side] = _between(sure, [group.rows for group in scan.row_groups])
        else:
            sampled += [(side, split) for split in _some(scan, seed=seed + side)]
    names = {side: scan.schema.field(band.columns[side]).name for side, scan in scans.items()}
    narrow = {side: scan.only(names[side]) for side, scan in scans.items()}

    def look(task: tuple[Side, Split]) -> Record:
        side, split = task
        batches = list(narrow[side].read(split, batch_rows=_BATCH_ROWS))
        values = [batch.column(0) for batch in batches]
        kind = narrow[side].schema.field(0).type
        return noted(side, pa.concat_arrays(values) if values else pa.array([], kind), band)

    what = "looking at values, to divide them into ranges"
    notes = run_tasks(spark, sampled, look, at_once=at_once, query=query, what=what)
    for side in scans.keys() - found.keys():
        mine = [note for (each, _), note in zip(sampled, notes, strict=True) if each is side]
        rows = sum(split.stop for each, split in sampled if each is side)
        share = rows / scans[side].rows if rows else 1.0
        found[side] = Histogram.of(mine, source=f"a look at {rows:,} rows", share=share)
    return found


def _between(ranges: Sequence[Range], rows: Sequence[int]) -> Histogram:
    """Rows spread evenly over the codes of their row group."""
    least, most = np.array(ranges, np.uint64).T
    step = (most - least) // np.uint64(_POINTS - 1)
    codes = least[:, None] + step[:, None] * np.arange(_POINTS, dtype=np.uint64)
    weights = np.repeat(np.array(rows, np.float64) / _POINTS, _POINTS)
    return Histogram(codes.reshape(-1), weights, 0.0, "the files' footers")


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
