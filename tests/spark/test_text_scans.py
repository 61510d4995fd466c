"""CSV files that our tasks read: Spark's own rows, whatever is in the files; and which are left to
it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.scans import read_text, refused, rows, text_scan
from tests.spark.sql_types import settings, texts
from tests.spark.test_random_plans_killed import killing
from watersmeet.aggregates import allowance
from watersmeet.errors import InputChanged
from watersmeet.spark.scans.text import TextRange, TextScan
from watersmeet.spark.text_partitions import TextPartitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {
    "k": "cast(id % 50 as int)",
    "tiny": "cast(id % 100 - 50 as tinyint)",
    "small": "cast(id * 7 as smallint)",
    "wide": "id * 1234567890123",
    "single": "cast(id / 7 as float)",
    "real": "id * 0.37D",
    "money": "cast(id * 1.25 as decimal(12, 2))",
    "long": "cast(id as decimal(38, 5))",
    "odd": "id % 2 = 1",
    "day": "date_add(date'1990-01-01', cast(id % 9000 as int))",
    "name": "concat('näme, ', id)",
    "some": "if(id % 3 = 0, null, if(id % 3 = 1, '', concat('x', id)))",
    "at": "timestamp_seconds(id)",
}
ROWS = 600
# Each is a row for Spark, or several or none, and none of it is plain.
STRANGE = [
    '7,1,2,3,0.5,1.5,2.00,5,true,1999-01-01,"he said ""x""",s,',
    '8,1,2,3,0.5,1.5,2.00,5,true,1999-01-01,"a\\"b,c",s,',
    "9,1,2",
    "9,1,2,3,0.5,1.5,2.00,5,true,1999-01-01,more,s,,and,more",
    "10,1,2,3,0.5,1.5,2.00,5,true,1999-1-1,a,s,",
    " 11,1,2,3,0.5,1.5,2.00,5,true,1999-01-01,a,s,",
    "x,999,y,,,,,,,,,,",
    "12,1,2,3,0.5,1.5,2.00,5,true,1999-01-01,a\rb,s,",
    "\ufeff13,1,2,3,0.5,1.5,2.00,5,true,1999-01-01,a,s,",
    "14,1,2,3,NaN,Infinity,2.009,5e3,TRUE,1999-01-01,a\\,s,",
    "   ",
    "",
]


def table(spark: SparkSession) -> DataFrame:
    given = [sf.expr(how).alias(name) for name, how in COLUMNS.items()]
    return spark.range(0, ROWS, 1, 3).select(*given)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Spark writes it, with headers; and by a column in paths."""
    made = tmp_path_factory.mktemp("text")
    table(spark).write.csv(str(made / "plain"), header=True)
    # One line in so many is not plain, in each file; the first of them begins with a mark.
    chosen, mixed = random.Random(5), made / "mixed"
    mixed.mkdir()
    for number, file in enumerate(sorted((made / "plain").glob("*.csv"))):
        header, *lines = file.read_text().splitlines()
        for strange in chosen.sample(STRANGE, 6) + STRANGE[number::3]:
            lines.insert(chosen.randrange(len(lines)), strange)
        begin = ["\ufeff", "\n \n", ""][number]
        end = "\n" if number else ""
        whole = begin + "\n".join([header, *lines]) + end
        (mixed / f"{number}.csv").write_bytes(whole.encode())
    by_path = table(spark).select("k", "name", sf.expr("tiny % 3 AS p"))
    by_path.write.partitionBy("p").csv(str(made / "paths"))
    return made


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    reader = spark.read.schema(table(spark).schema).options(**{"header": True} | options)
    return reader.csv(str(path))


@pytest.fixture
def plain(spark: SparkSession, written: Path) -> DataFrame:
    """But for the column that we cannot read."""
    return read(spark, written / "plain").drop("at")


@pytest.fixture
def mixed(spark: SparkSession, written: Path) -> DataFrame:
    return read(spark, written / "mixed").drop("at")


def others(spark: SparkSession) -> DataFrame:
    return spark.range(0, 40, 1, 2).selectExpr("CAST(id % 25 AS int) AS k", "id AS other")


def read_here(scan: TextScan, *, many: int = 7) -> pa.Table:
    """In this process; all lines must be plain."""
    assert len([part for ranges in scan.cut(many) for part in ranges]) >= many
    return read_text(scan, many=many)


@pytest.fixture
def finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut wherever, and little text is read at a time."""
    monkeypatch.setattr("watersmeet.spark.scans.text._LEAST_BYTES", 1)
    monkeypatch.setattr("watersmeet.spark.scans.text._CHUNK_BYTES", 999)
    # However many lines are left to Spark.
    monkeypatch.setattr("watersmeet.spark.scans.text_plan._MOST_REFUSED", 1.0)


def joined(run: Any) -> list[str]:
    return sorted(text for wave in run for text in texts(wave.rows))


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("finely")
def test_what_spark_has_written_is_read_as_spark_reads_it(plain: DataFrame) -> None:
    ours, theirs = read_here(text_scan(plain)), plain.toArrow()
    assert ours.schema.equals(theirs.schema.remove_metadata())
    assert rows(ours) == rows(theirs)
    some = plain.where("real > 30 and name like '%1%'").selectExpr("day", "k + 1 AS k", "money")
    scan = text_scan(some)
    # Only what is asked for is parsed.
    assert sum(kind is not None for kind in scan.layout.kinds) == 5
    assert rows(read_here(scan)) == rows(some.toArrow())


@pytest.mark.usefixtures("finely")
def test_columns_in_paths(spark: SparkSession, written: Path) -> None:
    frame = spark.read.csv(str(written / "paths"), schema="k int, name string, p int")
    some = frame.where("p = 1 and k > 3").select("name", "p", "k")
    scan = text_scan(some)
    assert 0 < len(scan.files) < len(text_scan(frame).files)
    assert rows(read_here(scan)) == rows(some.toArrow())
    assert rows(read_here(text_scan(frame))) == rows(frame.toArrow())


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    "options",
    [
        {"sep": "\t", "nullValue": "NULL", "emptyValue": "nothing"},
        {"delimiter": "|", "header": False, "inferSchema": True, "encoding": "UTF-8"},
    ],
)
def test_options_that_are_known(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Spark drops a line of separators that are blanks."""
    lines = ["k;name", "1;NULL", '2;""', "3;", "4;näme", "", ";", "NULL;x", "5;nothing"]
    separator = options.get("sep", options.get("delimiter", ","))
    text = "\r\n".join(lines).replace(";", separator)
    (tmp_path / "a.tbl").write_bytes(text.encode())
    given = {"header": True} | options
    if not given["header"]:
        (tmp_path / "a.tbl").write_bytes(text.split("\r\n", 1)[1].replace("NULL", "").encode())
    reader = spark.read.schema("k int, name string").options(**given)
    frame = reader.csv(str(tmp_path))
    assert rows(read_here(text_scan(frame), many=5)) == rows(frame.toArrow())


# ---- lines that only Spark reads -----------------------------------------------------------------


@pytest.mark.usefixtures("in_waves", "finely")
def test_lines_that_are_not_plain_are_parsed_by_spark(
    spark: SparkSession, mixed: DataFrame, tmp_path: Path
) -> None:
    right = others(spark)
    with wm.join(mixed, right, "k", "left", storage=tmp_path) as run:
        assert joined(run) == texts(mixed.join(right, "k", "left"))
        told = " ".join(run.explain().split())
        assert "left file path: 3 CSV files, " in told
        assert "lines parsed by Spark (first, " in told
        assert "partitions computed some at a time in random order right row path" in told
        kept = [file.name for file in tmp_path.rglob("*") if file.is_file()]
        assert not [name for name in kept if name.startswith(("lines", "parsed"))], kept


@pytest.mark.usefixtures("finely")
def test_whole_and_small_joins_of_text(spark: SparkSession, mixed: DataFrame) -> None:
    right, some = others(spark), mixed.where("real > 1").selectExpr("k", "length(name) AS n")
    own = texts(some.join(right, "k"))
    with wm.join(right, some, "k") as run:
        assert texts(run.to_df().select("k", "n", "other")) == own
        told = " ".join(run.explain().split())
        assert "right file path: 3 CSV files, " in told


@pytest.mark.usefixtures("finely")
def test_joins_of_many_and_bands_over_text(
    spark: SparkSession, plain: DataFrame, mixed: DataFrame
) -> None:
    """All of a side is read before its rows are divided."""
    some, other = plain.select("k", "money"), mixed.select("k", "real")
    with wm.join_many({"a": some, "b": other, "c": others(spark)}, "k") as run:
        own = some.join(other, "k").join(others(spark), "k")
        assert texts(run.to_df()) == texts(own)
    band = mixed.where("k is not null").selectExpr("k AS b", "name")
    left = others(spark)
    with wm.join(left, band, wm.within(("k", "b"), 1)) as run:
        assert texts(run.to_df()) == texts(left.join(band, sf.expr("abs(k - b) <= 1")))


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize("memory", ["1GB", pytest.param("10kB", marks=pytest.mark.slow)])
def test_aggregates_over_text(
    spark: SparkSession,
    plain: DataFrame,
    mixed: DataFrame,
    tmp_path: Path,
    memory: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allowance, "SMALLEST_MEMORY", 0)
    right = plain.selectExpr("k", "tiny AS t")
    given: dict[str, Any] = {"memory": memory, "storage": tmp_path, "group_by": "odd"}
    for frame in (plain, mixed):
        with wm.aggregate(
            frame, right, on="k", n=wm.count(), s=wm.sum("money * t"), **given
        ) as run:
            looks = list(run)
            assert len(looks) > 1
            grouped = frame.join(right, "k").groupBy("odd")
            own = grouped.agg(sf.count("*").alias("n"), sf.expr("sum(money * t) AS s"))
            assert texts(run.to_df()) == texts(own)
            told = " ".join(run.explain().split())
            assert "partitions of text, read some partitions at a time" in told
            assert ("parsed by Spark" in told) == (frame is mixed)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize("seed", range(24))
def test_files_of_random_lines(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Headers, line ends, separators and lines of all kinds, wherever they are, and however many
    of them are not plain."""
    chosen = random.Random(seed)
    separator, header = chosen.choice(",;\t| "), chosen.random() < 0.5
    kinds = {"k": "int", "v": chosen.choice(["double", "decimal(7,2)", "date", "boolean"])}
    kinds["s"] = "string"
    strange = chosen.choice([0.0, 0.01, 0.1, 0.5])
    simple = {"double": "-1.5", "decimal(7,2)": "99999.99", "date": "2024-02-29", "boolean": "true"}
    usual = [simple[kinds["v"]], "", '""', "NULL"]
    odd = [
        "NaN",
        " 5",
        '"a""b"',
        '"a\\"b"',
        "\\",
        'a"b',
        '"',
        "+3",
        "1e400",
        "2024-2-3",
        "\x00",
        "\r",
    ]
    odd += ["\ufeff", "ä", '"x y"', "1d", "TRUE", "٣"]

    def field() -> str:
        return chosen.choice(odd if chosen.random() < strange else usual)

    def line() -> str:
        if chosen.random() < 0.03:
            return chosen.choice(["", " ", "\ufeff", "\t", separator * 5, "1", '"'])
        return separator.join([str(chosen.randrange(30)), field(), field()])

    for number in range(3):
        lines = [line() for _ in range(chosen.randrange(400))]
        end = chosen.choice(["\n", "\r\n"])
        text = chosen.choice(["", "", "\ufeff", "\n", "\n\ufeff", " \n"]) + end.join(lines)
        (tmp_path / f"{number}.csv").write_bytes((text + chosen.choice(["", end])).encode())
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    reader = spark.read.schema(schema).options(sep=separator, header=header, nullValue="NULL")
    frame = reader.csv(str(tmp_path))
    text_scan(frame)
    with wm.join(frame, others(spark), "k", "left") as run:
        assert texts(run.to_df()) == texts(frame.join(others(spark), "k", "left"))


# ---- mistakes that would be noticed --------------------------------------------------------------


def what_spark_parsed_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one range."""
    as_it_is = TextPartitions._parsed

    def parsed(self: TextPartitions[Any], *given: Any, **more: Any) -> Any:
        (_, *others) = as_it_is(self, *given, **more).items()
        return dict(others)

    monkeypatch.setattr(TextPartitions, "_parsed", parsed)


def a_range_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = TextScan.cut

    def cut(self: TextScan, many: int) -> list[tuple[TextRange, ...]]:
        first, second, *others = as_it_is(self, many)
        return [first, (*second, *first), *others]

    monkeypatch.setattr(TextScan, "cut", cut)


def headers_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.spark.scans.text_plan._begin", lambda file: 0)


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    "mistake",
    [
        None,
        what_spark_parsed_is_not_read,
        *(
            pytest.param(m, marks=pytest.mark.slow)
            for m in (a_range_is_read_twice, headers_are_read)
        ),
    ],
)
def test_a_lost_line_is_noticed(
    spark: SparkSession,
    mixed: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    some = mixed.select("k", "name", "day")
    if mistake is not None:
        mistake(monkeypatch)
    with wm.join(some, others(spark), "k", "left") as run:
        found = texts(run.to_df())
    assert (found == texts(some.join(others(spark), "k", "left"))) == (mistake is None)


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("in_waves", "finely")
def test_workers_are_killed_while_text_is_read(spark: SparkSession, mixed: DataFrame) -> None:
    right = others(spark)
    own = texts(mixed.join(right, "k", "full"))
    with killing(spark, random.Random(2)) as killed, wm.join(mixed, right, "k", "full") as run:
        assert joined(run) == own
    assert killed, "nobody was killed, and nothing shown"


def test_a_file_that_changes(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,2\n3,4\n")
    frame = spark.read.csv(str(tmp_path), schema="k int, v int")
    with wm.join(frame, others(spark), "k") as run:
        file.write_text("1,2\n3,5\n7,7\n")
        with pytest.raises(InputChanged, match=r"a\.csv has changed"):
            run.to_df()


def test_a_row_for_which_a_column_fails(spark: SparkSession, plain: DataFrame) -> None:
    frame = plain.selectExpr("k", "CAST(wide AS int) AS v")
    with (
        wm.join(frame, others(spark), "k") as run,
        pytest.raises(wm.errors.WatersmeetError, match="cannot be computed"),
    ):
        run.to_df()


# ---- what is left to Spark -----------------------------------------------------------------------


def test_the_second_kind_of_scan_and_types(spark: SparkSession, written: Path) -> None:
    frame = read(spark, written / "plain")
    assert refused(frame).startswith("column 'at' is timestamp")
    with settings(spark, legacy__timeParserPolicy="LEGACY"):
        assert "LEGACY" in refused(frame.select("day"))
        text_scan(frame.select("k"))
    with settings(spark, csv__parser__columnPruning__enabled="false"):
        assert "columnPruning" in refused(frame.select("k"))
    assert "round" in refused(frame.selectExpr("round(real, 1) AS r"))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mode": "FAILFAST"}, "option mode='FAILFAST'"),
        ({"multiLine": True}, "option multiline='true'"),
        ({"quote": "'"}, "option quote"),
        ({"comment": "#"}, "option 'comment'"),
        ({"sep": "||"}, "separated by '||'"),
        ({"sep": ",", "delimiter": ";"}, "options 'sep' and 'delimiter'"),
        ({"nullValue": "a,b"}, "option nullvalue='a,b'"),
        ({"enforceSchema": False}, "option enforceschema='false'"),
        ({"columnNameOfCorruptRecord": "name"}, "column 'name' of lines that are not"),
    ],
)
def test_options_that_are_left_to_spark(
    spark: SparkSession, written: Path, options: dict[str, Any], reason: str
) -> None:
    assert reason in refused(read(spark, written / "plain", **options).select("k"))


def test_files_that_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    numbers = spark.range(40).selectExpr("id", "concat('\"', id) AS name")
    numbers.select("id").write.csv(str(tmp_path / "packed"), compression="gzip")
    packed = spark.read.csv(str(tmp_path / "packed"), schema="id long")
    assert refused(packed) == "its files are compressed (.gz)"
    numbers.write.csv(str(tmp_path / "quotes"))
    quotes = spark.read.csv(str(tmp_path / "quotes"), schema="id long, name string")
    assert refused(quotes).startswith("many of its lines are not plain: a line has a quote")
    (tmp_path / "header").mkdir()
    (tmp_path / "header" / "a.csv").write_bytes(b"a\rb\n1\n")
    header = spark.read.csv(str(tmp_path / "header"), schema="a int", header=True)
    assert "a.csv has a carriage return inside" in refused(header)
