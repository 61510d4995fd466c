"""JSON files that our tasks read: Spark's own rows, whatever is in the files; and which are left to
it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark.scans import refused, rows, text_scan
from tests.spark.sql_types import settings, texts
from tests.spark.text_files import ROWS, joined, others, read_here, table
from watersmeet.spark.scans import json_plan
from watersmeet.spark.scans.text import SparkReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Each is a row for Spark, or several or none, and none of it is plain.
STRANGE = [
    '{"k":7,"name":"half \\ud83d","tiny":1}',
    '{"k":8,"k":9,"tiny":1}',
    '{"k":9,"tiny":200,"small":40000}',
    '{"k":"10","name":5,"some":{"a":[1, "\\u00e4"]}}',
    '{"k":11.0,"name":true,"odd":"true"}',
    '[{"k":12},{"k":13,"name":"two"}]',
    '{"k":14,"name":"cut',
    '{"k":15}{"k":16}',
    '{"k":16}\r{"k":17}',
    '\ufeff{"k":18}',
    '{"k":19,"single":"NaN","real":1e400,"money":"1.005"}',
    '{"k":20,"other":[1,}',
    '{"k":21,"day":"1999-1-1"}',
    '{"k":22,"day":"1500-01-01","long":-0,"real":-0,"single":12345678901234567890}',
    "{'k':23}",
    '{"k":24,"n\\u0061me":"a","tiny":5}',
    '{"k":25,"\\u006bk":1}',
    '{"k":26} /* 27 */',
    "null",
    "[]",
    "nothing",
]
BLANK = ["", " \t", "\r"]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Spark writes it; and with lines that are not plain; and by a column in paths."""
    made = tmp_path_factory.mktemp("objects")
    table(spark).write.json(str(made / "plain"))
    chosen, mixed = random.Random(5), made / "mixed"
    mixed.mkdir()
    for number, file in enumerate(sorted((made / "plain").glob("*.json"))):
        lines = file.read_text().splitlines()
        for strange in STRANGE[number::3] + chosen.sample(STRANGE, 3) + BLANK:
            lines.insert(chosen.randrange(len(lines)), strange)
        begin = ["\ufeff", "\n \n\ufeff", ""][number]
        end = "\n" if number else ""
        (mixed / f"{number}.json").write_bytes((begin + "\n".join(lines) + end).encode())
    by_path = table(spark).select("k", "name", sf.expr("tiny % 3 AS p"))
    by_path.write.partitionBy("p").json(str(made / "paths"))
    return made


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.schema(table(spark).schema).options(**options).json(str(path))


@pytest.fixture
def plain(spark: SparkSession, written: Path) -> DataFrame:
    """But for the column that we cannot read."""
    return read(spark, written / "plain").drop("at")


@pytest.fixture
def mixed(spark: SparkSession, written: Path) -> DataFrame:
    return read(spark, written / "mixed").drop("at")


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("finely")
def test_what_spark_has_written_is_read_as_spark_reads_it(plain: DataFrame) -> None:
    ours, theirs = read_here(text_scan(plain)), plain.toArrow()
    assert ours.schema.equals(theirs.schema.remove_metadata())
    assert rows(ours) == rows(theirs)
    some = plain.where("real > 30 and name like '%1%'").selectExpr("day", "k + 1 AS k", "money")
    scan = text_scan(some)
    # Only what is asked for is parsed.
    assert len(scan.layout.kinds) == 5
    assert rows(read_here(scan)) == rows(some.toArrow())


@pytest.mark.usefixtures("finely")
def test_columns_in_paths_and_names(spark: SparkSession, written: Path, tmp_path: Path) -> None:
    frame = spark.read.json(str(written / "paths"), schema="k int, name string, p int")
    some = frame.where("p = 1 and k > 3").select("name", "p", "k")
    scan = text_scan(some)
    assert 0 < len(scan.files) < len(text_scan(frame).files)
    assert scan.reader.where == "((k IS NOT NULL)) AND ((k > 3))"
    assert rows(read_here(scan, many=2)) == rows(some.toArrow())
    assert refused(frame.select("p")) == "none of the columns in its files is asked for"
    # Names are those of members, letter for letter, whatever they are.
    lines = ['{"k":1,"K":2,"a.b":3}', '{"copy":"x","a`b":4}', '{"ö":5,"K":6}'] * 9
    (tmp_path / "a.json").write_text("\n".join(lines))
    schema = "`ö` int, k int, `a.b` int, `a``b` int, copy string"
    frame = spark.read.json(str(tmp_path), schema=schema)
    assert rows(read_here(text_scan(frame), many=5)) == rows(frame.toArrow())
    (tmp_path / "a.json").write_text("\n".join([*lines, '{"k":1,"k":7,"ö":8,"a.b":9}']))
    frame = spark.read.json(str(tmp_path), schema=schema).where("`a.b` = 9")
    with wm.join(frame, others(spark), "k", "left") as run:
        assert texts(run.to_df()) == texts(frame.join(others(spark), "k", "left"))
        assert "1 line parsed by Spark" in " ".join(run.explain().split())
    assert refused(spark.read.json(str(tmp_path), schema='`a"b` int')) == "it has a column 'a\"b'"


# ---- lines that only Spark reads -----------------------------------------------------------------


@pytest.mark.usefixtures("in_waves", "finely")
def test_lines_that_are_not_plain_are_parsed_by_spark(
    spark: SparkSession, mixed: DataFrame, tmp_path: Path
) -> None:
    right = others(spark)
    with wm.join(mixed, right, "k", "left", storage=tmp_path) as run:
        assert joined(run) == texts(mixed.join(right, "k", "left"))
        told = " ".join(run.explain().split())
        assert "left file path: 3 JSON files, " in told
        assert "lines parsed by Spark (first, a line " in told
        assert "partitions computed some at a time in random order right row path" in told
        kept = [file.name for file in tmp_path.rglob("*") if file.is_file()]
        assert not [name for name in kept if name.startswith(("lines", "parsed"))], kept


@pytest.mark.usefixtures("finely")
def test_aggregates_over_objects(spark: SparkSession, mixed: DataFrame) -> None:
    frame, right = mixed.where("small > 70"), others(spark)
    asked: dict[str, Any] = {"n": wm.count(), "s": wm.sum("money * other"), "group_by": "odd"}
    with wm.aggregate(frame, right, on="k", **asked) as run:
        assert len(list(run)) > 1
        grouped = frame.join(right, "k").groupBy("odd")
        own = grouped.agg(sf.count("*").alias("n"), sf.expr("sum(money * other) AS s"))
        assert texts(run.to_df()) == texts(own)
        told = " ".join(run.explain().split())
        assert "file path: 3 JSON files, " in told
        assert "partitions of text, read some partitions at a time" in told
        assert "parsed by Spark" in told


def copies_are_read_without_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_plan, "_where", lambda table: "")


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    "mistake", [None, pytest.param(copies_are_read_without_filters, marks=pytest.mark.slow)]
)
def test_filters_that_are_given_to_sparks_reader(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    """A member that is there twice counts once for a filter, and a line ends where a filter says
    no, whatever is wrong behind that."""
    lines = ['{"k":1,"k":2,"v":1}', '{"k":2,"k":1,"v":2}', '{"k":3,"v":nothing', '{"v":3,"k":3']
    lines += ['{"k":2,"v":4}', '{"v":5}', '{"k":null,"v":6}']
    (tmp_path / "a.json").write_text("\n".join(lines * 20))
    frame = spark.read.json(str(tmp_path), schema="k int, v int").alias("x")
    if mistake is not None:
        mistake(monkeypatch)
    found = []
    for condition in ("x.k = 2", "k IS NULL"):
        some = frame.where(condition)
        text_scan(some)
        with wm.join(some, others(spark), "k", "left") as run:
            found.append(texts(run.to_df()) == texts(some.join(others(spark), "k", "left")))
    assert all(found) == (mistake is None), found


def copies_begin_with_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which Hadoop takes a mark away."""
    given = SparkReader.__init__

    def made(self: SparkReader, **values: Any) -> None:
        given(self, **values | {"head": b""})

    monkeypatch.setattr(SparkReader, "__init__", made)


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    "mistake", [None, pytest.param(copies_begin_with_lines, marks=pytest.mark.slow)]
)
def test_marks_inside_a_file(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    """Where Spark is told the encoding, a line that begins with one is no object."""
    lines = ['\ufeff{"k":1}', '{"k":2}', '\ufeff{"k":3}', '{"k":4}']
    (tmp_path / "a.json").write_text("\n".join(lines))
    (tmp_path / "b.json").write_text("\n".join(lines[1:]))
    frame = spark.read.json(str(tmp_path), schema="k int", encoding="UTF-8")
    if mistake is not None:
        mistake(monkeypatch)
    text_scan(frame)
    with wm.join(frame, others(spark), "k", "left") as run:
        found = texts(run.to_df())
    assert (found == texts(frame.join(others(spark), "k", "left"))) == (mistake is None)


@pytest.mark.slow
@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize("seed", range(24))
def test_files_of_random_lines(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Line ends, marks and lines of all kinds, wherever they are, and however many of them are not
    plain; with filters, and without those."""
    chosen = random.Random(seed)
    kind = chosen.choice(["double", "decimal(7,2)", "date", "boolean"])
    strange = chosen.choice([0.0, 0.01, 0.1, 0.5])
    simple = {
        "double": "-1.5",
        "decimal(7,2)": "99999.99",
        "date": '"2024-02-29"',
        "boolean": "true",
    }
    usual = [simple[kind], "null"]
    odd = [
        "NaN",
        "-0",
        '"a\\"b"',
        "\\",
        "+3",
        "1e400",
        '"2024-2-3"',
        "\x00",
        "\r",
        "",
        "1 2",
        '"5"',
    ]
    odd += ["\ufeff", '"', "[1]", "{}", "TRUE", "٣", "01", "{", "]"]
    is_given = chosen.random() < 0.5

    def value() -> str:
        return chosen.choice(odd if chosen.random() < strange else usual)

    def line() -> str:
        if chosen.random() < 0.03:
            return chosen.choice(
                ["", " ", "\ufeff", "\t", "{}", "1", '"', "[]", '[{"k":1},{"v":2}]']
            )
        text = chosen.choice(['"ä"', '""', "null", value()])
        members = [f'"k":{chosen.randrange(30)}', f'"v":{value()}', f'"s":{text}']
        if chosen.random() < 0.1:
            members.append(f'"{chosen.choice("kvsx")}":{value()}')
        chosen.shuffle(members)
        return "{" + ",".join(members) + "}" * (chosen.random() > strange / 5)

    for number in range(3):
        lines = [line() for _ in range(chosen.randrange(400))]
        end = chosen.choice(["\n", "\r\n"])
        text = chosen.choice(["", "", "\ufeff", "\n", "\n\ufeff", " \n"]) + end.join(lines)
        (tmp_path / f"{number}.json").write_bytes((text + chosen.choice(["", end])).encode())
    reader = spark.read.options(encoding="UTF-8") if is_given else spark.read
    frame = reader.json(str(tmp_path), schema=f"k int, v {kind}, s string")
    pushed = str(seed % 3 > 0).lower()
    with settings(spark, json__filterPushdown__enabled=pushed):
        for condition in ("true", "v IS NOT NULL", "k < 9 OR s IS NULL", "k IS NULL"):
            some = frame.where(condition)
            text_scan(some)
            with wm.join(some, others(spark), "k", "left") as run:
                assert texts(run.to_df()) == texts(some.join(others(spark), "k", "left"))


# ---- what is left to Spark -----------------------------------------------------------------------


def test_types_and_settings_that_are_left_to_spark(spark: SparkSession, written: Path) -> None:
    frame = read(spark, written / "plain")
    assert refused(frame).startswith("column 'at' is timestamp")
    with settings(spark, legacy__timeParserPolicy="LEGACY"):
        assert "LEGACY" in refused(frame.select("day"))
        text_scan(frame.select("k"))
    with settings(spark, files__ignoreCorruptFiles="true"):
        assert "ignoreCorruptFiles" in refused(frame.select("k"))
    # Spark leaves out lines that are longer.
    longest = "mapreduce.input.linerecordreader.line.maxlength"
    spark.conf.set(longest, "80")
    try:
        assert refused(frame.select("k")) == f"{longest} is set"
        assert frame.count() < ROWS
    finally:
        spark.conf.unset(longest)
    with settings(spark, sources__useV1SourceList=""):
        assert "DataSourceV2" in refused(read(spark, written / "plain").select("k"))
    assert "many of its lines are not plain: a line " in refused(
        read(spark, written / "mixed").drop("at")
    )
    nested = spark.read.json(str(written / "plain"), schema="k int, some array<int>, name binary")
    assert refused(nested.select("some")).startswith("column 'some' is list<")
    assert refused(nested.select("name")).startswith("column 'name' is binary")
    text_scan(nested.select("k"))


def test_defaults_of_columns_are_left_to_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE objects_with_default (k INT, d INT DEFAULT 5) USING json")
    try:
        frame = spark.table("objects_with_default")
        assert "column 'd' has a default" in refused(frame)
    finally:
        spark.sql("DROP TABLE objects_with_default")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mode": "FAILFAST"}, "option mode='FAILFAST'"),
        ({"mode": "DROPMALFORMED"}, "option mode='DROPMALFORMED'"),
        ({"multiLine": True}, "option multiline='true'"),
        ({"encoding": "UTF-16LE", "lineSep": "\n"}, "option 'linesep'"),
        ({"encoding": "ISO-8859-1"}, "option encoding='ISO-8859-1'"),
        ({"locale": "de"}, "option 'locale'"),
        ({"dateFormat": "yyyy-MM-dd"}, "it has dates, and is read with the option 'dateformat'"),
        ({"columnNameOfCorruptRecord": "name"}, "column 'name' of lines that are not"),
        ({"allowComments": True, "primitivesAsString": True}, ""),
    ],
)
def test_options(spark: SparkSession, written: Path, options: dict[str, Any], reason: str) -> None:
    frame = read(spark, written / "plain", **options).select("k", "day")
    if reason:
        assert reason in refused(frame)
    else:
        text_scan(frame)
