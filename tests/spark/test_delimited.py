"""What our reader gives of lines of text, and what Spark's CSV reader does: all that is given is
Spark's, to the bit, with all columns and with few."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.delimited.nasty import KINDS, Nasty
from tests.delimited.reading import read_plain

pytestmark = pytest.mark.spark

NAMES = ["number", *(f"c{place}" for place in range(len(KINDS)))]
SCHEMA = "number BIGINT, " + ", ".join(f"c{n} {kind}" for n, kind in enumerate(KINDS))
OPTIONS = [(",", "", ""), ("|", "NA", "EE"), ("\t", "-", "-"), (" ", "0", "12")]


def bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as whole numbers, since 0.0 and -0.0 are equal."""
    whole = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(column.type)
    return column if whole is None else pa.chunked_array([c.view(whole) for c in column.chunks])


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    """Each of our rows is Spark's row of that number, which Spark has once."""
    theirs = theirs.filter(pc.is_in(theirs["number"], ours["number"]))
    theirs = theirs.sort_by("number")
    assert theirs["number"].equals(ours["number"])
    for name in ours.column_names:
        mine, other = bits(ours[name]), bits(theirs[name])
        if not mine.equals(other):
            bad = pc.invert(pc.fill_null(pc.equal(mine, other), pa.scalar(False)))
            bad = pc.and_(bad, pc.or_(pc.is_valid(mine), pc.is_valid(other)))
            pairs = zip(ours[name].filter(bad), theirs[name].filter(bad), strict=True)
            raise AssertionError(f"{name} {ours[name].type}: {list(pairs)[:5]}")


def check(spark: SparkSession, folder: Path, made: Nasty, count: int) -> float:
    """Compare so many lines; returns the share that we read."""
    path = folder / "nasty.csv"
    path.write_bytes(text := made.text(count))
    read = read_plain(text, made.layout)
    reader = spark.read.options(
        sep=made.separator, nullValue=made.null_value, emptyValue=made.empty_value
    )
    checked = reader.schema(SCHEMA + ", _corrupt_record STRING").csv(str(path)).toArrow()
    numbers = once(checked)
    assert_same(numbered(read.rows, NAMES, numbers), checked)
    # None is one that Spark finds malformed.
    good = checked.filter(pc.is_null(checked["_corrupt_record"]))
    assert_same(numbered(read.rows, NAMES, numbers), good.drop_columns("_corrupt_record"))
    # Of fields that are not read, Spark does not see whether they are malformed.
    for step in (3, 4):
        names = NAMES[::step]
        some = read_plain(text, made.with_every(step))
        assert len(some.rows) >= len(read.rows)
        rows = reader.schema(SCHEMA).csv(str(path)).select(names).toArrow()
        assert_same(numbered(some.rows, names, numbers), rows)
    return len(read.rows) / (len(read.rows) + len(read.refused))


def once(rows: pa.Table) -> pa.Array:
    """Numbers that one line has: a line's number may be damaged, too."""
    seen = pc.value_counts(rows["number"].drop_null())
    return seen.field("values").filter(pc.equal(seen.field("counts"), 1))


def numbered(rows: pa.Table, names: list[str], numbers: pa.Array) -> pa.Table:
    """Rows whose number is one of these, in order."""
    rows = rows.rename_columns(names)
    return rows.filter(pc.is_in(rows["number"], numbers)).sort_by("number")


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_what_is_read_of_random_lines_is_sparks(
    spark: SparkSession, tmp_path: Path, options: tuple[str, str, str]
) -> None:
    assert check(spark, tmp_path, Nasty(7, *options), 3_000) > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", range(10))
def test_what_is_read_of_many_random_lines_is_sparks(
    spark: SparkSession, tmp_path: Path, options: tuple[str, str, str], seed: int
) -> None:
    assert check(spark, tmp_path, Nasty(1_000 + seed, *options), 30_000) > 0.3
