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
WRITTEN = "'', NULL, 'a,b', ' a ', '\"', 'a\"b', 'a\\\\', '\\\\', '\\n', '\\r', '\\t', 'é漢😀', '#'"
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


def check(spark: SparkSession, folder: Path, made: Nasty, *, count: int, few: int) -> float:
    """Compare so many lines, with all columns and with every so manieth; the share that we read."""
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
    names = NAMES[::few]
    some = read_plain(text, made.with_every(few))
    assert len(some.rows) >= len(read.rows)
    rows = reader.schema(SCHEMA).csv(str(path)).select(names).toArrow()
    assert_same(numbered(some.rows, names, numbers), rows)
    return len(read.rows) / (len(read.rows) + len(read.refused))


def test_what_spark_has_written_is_read_but_for_texts_with_quotes_and_odd_floats(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(3_000).selectExpr(
        *("id AS number", "CAST(id % 256 - 128 AS TINYINT) AS c0", "CAST(-id AS SMALLINT) AS c1"),
        *("CAST(hash(id) AS INT) AS c2", "xxhash64(id) AS c3", "CAST(id / 7 AS FLOAT) AS c4"),
        *("xxhash64(id) / pow(10, id % 40) AS c5", "CAST(id / 7 AS DECIMAL(5,2)) AS c6"),
        *(
            "CAST(xxhash64(id) % 1000 AS DECIMAL(18,0)) AS c7",
            "CAST(id / 1e9 AS DECIMAL(18,18)) AS c8",
        ),
        *("CAST(-id AS DECIMAL(20,3)) AS c9", "CAST(id % 9 / 1e9 AS DECIMAL(38,18)) AS c10"),
        *("id % 3 = 0 AS c11", "date_add(DATE '1583-01-01', CAST(id * 997 AS INT)) AS c12"),
        f"element_at(array({WRITTEN}), CAST(id % 13 + 1 AS INT)) AS c13",
    )
    rows = rows.selectExpr(
        "number", *(f"IF(number % 17 = {n}, NULL, c{n}) c{n}" for n in range(14))
    )
    rows.coalesce(1).write.csv(str(tmp_path / "written"))
    (path,) = (tmp_path / "written").glob("*.csv")
    read = read_plain(path.read_bytes(), Nasty(0).layout)
    checked = spark.read.schema(SCHEMA).csv(str(path)).toArrow()
    assert_same(numbered(read.rows, NAMES, once(checked)), checked)
    # Texts with line ends and quotes, and what is behind a line end, of three in thirteen.
    assert len(read.rows) > 0.7 * 3_000
    reasons = {reason for reason, _ in read.refused}
    assert reasons <= {
        "a line has more or fewer fields than there are columns",
        "a line has a quote or a backslash in a quoted field, or does not end that",
        "a line has something behind a quoted field, or a zero byte",
        "a line has a carriage return that does not end it",
    }


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
    assert check(spark, tmp_path, Nasty(7, *options), count=2_000, few=3) > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_of_many_random_lines_is_sparks(
    spark: SparkSession, tmp_path: Path, options: tuple[str, str, str], seed: int
) -> None:
    assert check(spark, tmp_path, Nasty(1_000 + seed, *options), count=20_000, few=2 + seed) > 0.3
