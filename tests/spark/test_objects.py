"""What our reader gives of lines of objects, and what Spark's JSON reader does: all that is given
is Spark's, to the bit, with all members and with few."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from tests.delimited.nasty import KINDS
from tests.delimited.nasty_objects import NAMES, NastyObjects
from tests.delimited.reading import read_plain
from tests.spark.test_delimited import assert_same, numbered, once

pytestmark = pytest.mark.spark

SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in zip(NAMES, ("BIGINT", *KINDS), strict=True))
WRITTEN = "'', NULL, '\\n\\\\', '{}', '\"', 'é漢😀', '\\0'"
# None of them changes what a plain line is.
OPTIONS: dict[str, bool | str] = {
    **{f"allow{what}": True for what in ("Comments", "UnquotedFieldNames", "NumericLeadingZeros")},
    **{f"allow{what}": True for what in ("UnquotedControlChars", "BackslashEscapingAnyCharacter")},
    **{"allowSingleQuotes": False, "allowNonNumericNumbers": False, "encoding": "UTF-8"},
}


def check(spark: SparkSession, folder: Path, text: bytes, *, few: int, odd: bool) -> float:
    """Compare with all members and with every so manieth; the share of lines that we read."""
    path = folder / "nasty.json"
    path.write_bytes(text)
    made = NastyObjects(0)
    read = read_plain(text, made.layout)
    reader = spark.read.options(**OPTIONS if odd else {})
    checked = reader.schema(SCHEMA + ", _corrupt_record STRING").json(str(path)).toArrow()
    numbers = once(checked)
    names = list(NAMES)
    assert_same(numbered(read.rows, names, numbers), checked)
    # None is one that Spark finds malformed.
    good = checked.filter(pc.is_null(checked["_corrupt_record"]))
    assert_same(numbered(read.rows, names, numbers), good.drop_columns("_corrupt_record"))
    # Of members that are not read, Spark does not see whether their values are of their type.
    some = read_plain(text, made.with_every(few))
    assert len(some.rows) >= len(read.rows)
    rows = reader.schema(SCHEMA).json(str(path)).select(names[::few]).toArrow()
    assert_same(numbered(some.rows, names[::few], numbers), rows)
    return len(read.rows) / (len(read.rows) + len(read.refused))


def test_what_spark_has_written_is_read(spark: SparkSession, tmp_path: Path) -> None:
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
        f"element_at(array({WRITTEN}), CAST(id % 7 + 1 AS INT)) AS `{NAMES[-1]}`",
    )
    rows = rows.selectExpr(
        "number",
        *(f"IF(number % 17 = {n}, NULL, `{name}`) `{name}`" for n, name in enumerate(NAMES[1:])),
    )
    rows.coalesce(1).write.json(str(tmp_path / "written"))
    (path,) = (tmp_path / "written").glob("*.json")
    read = read_plain(path.read_bytes(), NastyObjects(0).layout)
    checked = spark.read.schema(SCHEMA).json(str(path)).toArrow()
    assert_same(numbered(read.rows, list(NAMES), once(checked)), checked)
    assert len(read.rows) == 3_000


@pytest.mark.parametrize("odd", [False, True])
def test_what_is_read_of_random_lines_is_sparks(
    spark: SparkSession, tmp_path: Path, odd: bool
) -> None:
    assert check(spark, tmp_path, NastyObjects(7).text(2_000), few=3, odd=odd) > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_read_of_many_random_lines_is_sparks(
    spark: SparkSession, tmp_path: Path, seed: int, odd: bool
) -> None:
    text = NastyObjects(1_000 + seed).text(20_000)
    assert check(spark, tmp_path, text, few=2 + seed % 5, odd=odd) > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("odd", [False, True])
def test_what_is_read_of_lines_with_any_byte_anywhere_is_sparks(
    spark: SparkSession, tmp_path: Path, odd: bool
) -> None:
    """In the place of a byte, or before it."""
    line = '{"c3":-10,"c5" :1.5e1,"c11":true,"x":[0,{"b":"\\u00e9"}],"c6":null,'
    begin = f'{line}"{NAMES[-1]}":"a\\n\\ud83d\\ude00"'.encode()
    changed = [
        begin[:at] + bytes([byte]) + begin[behind:]
        for at in range(len(begin))
        for behind in (at, at + 1)
        for byte in range(256)
    ]
    lines = (b'%b,"number":%d}' % (line, number) for number, line in enumerate(changed))
    assert check(spark, tmp_path, b"\n".join(lines), few=3, odd=odd) > 0.05
