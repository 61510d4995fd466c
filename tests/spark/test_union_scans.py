"""Unions with text files in a branch: each branch read in its own way, and Spark's own rows."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import watersmeet as wm
from tests.spark import sql_types
from tests.spark.scans import plain, read_text, refused, rows, text_scan, union_scan
from tests.spark.sql_types import texts
from tests.spark.test_random_plans_killed import killing
from watersmeet.errors import FunctionFailed, InputChanged
from watersmeet.spark.scans.scan import PlainScan
from watersmeet.spark.scans.union import Piece, UnionScan
from watersmeet.spark.text_partitions import TextPartitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Tables = dict[str, DataFrame]
COLUMNS = (
    "id", "CAST(id % 7 AS int) AS k", "concat('t, ', id) AS text", "CAST(id / 4 AS float) AS part",
    "IF(id % 5 = 0, NULL, date_add(DATE'2024-02-28', CAST(id AS int))) AS day",
)  # fmt: skip
COLUMN_NAMES = ["id", "k", "text", "part", "day"]
# Of the form of no table, as Spark reads it: quotes in quotes, too few and too many fields, numbers
# that are none.
STRANGE = ['900,3,"he said ""no""",1.5,2024-01-01', "901,4", "x,5,t,2.5,", "902,6,t,1,,more"]
# A member twice, a value of another kind, an object without its end, and a list of objects.
STRANGE_OBJECTS = [
    '{"id":7,"k":3,"k":1}',
    '{"k":4,"id":"x"}',
    '{"id":9,"k":5',
    '[{"id":8,"k":5}]',
]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark has written; beside `text`, files with lines that are not plain."""
    made = tmp_path_factory.mktemp("unions")
    table = spark.range(0, 300, 1, 3).selectExpr(*COLUMNS)
    table.write.csv(str(made / "text"), header=True)
    table.where("id % 3 = 0").write.csv(str(made / "other"), sep=";", nullValue="none")
    table.where("id > 200").write.parquet(str(made / "files"))
    spark.range(0, 60, 1, 2).selectExpr(
        "CAST(id AS int) AS id", "CAST(id % 9 AS bigint) AS k", "id / 8 AS part"
    ).write.parquet(str(made / "wide"))
    table.where("id < 100").write.json(str(made / "objects"))
    (made / "odd").mkdir()
    for number, file in enumerate(sorted((made / "objects").glob("*.json"))):
        lines = [*file.read_text().splitlines()[:20], *STRANGE_OBJECTS]
        (made / f"odd/{number}.json").write_text("\n".join(lines))
    by_path = spark.range(0, 90, 1, 1).selectExpr("id", "concat('p', id) AS text", "id % 3 AS k")
    by_path.write.partitionBy("k").csv(str(made / "paths"))
    (made / "mixed").mkdir()
    for number, file in enumerate(sorted((made / "text").glob("*.csv"))):
        header, *lines = file.read_text().splitlines()
        lines[7 * number : 7 * number] = STRANGE[: number + 2]
        (made / f"mixed/{number}.csv").write_text("\n".join([header, *lines]))
    return made


@pytest.fixture
def tables(spark: SparkSession, folder: Path) -> Tables:
    schema = "id bigint, k int, text string, part float, day date"
    reader = spark.read.schema(schema)
    return {
        "text": reader.csv(str(folder / "text"), header=True),
        "mixed": reader.csv(str(folder / "mixed"), header=True),
        "other": reader.csv(str(folder / "other"), sep=";", nullValue="none"),
        "objects": spark.read.schema(schema).json(str(folder / "objects")),
        "odd": spark.read.schema(schema).json(str(folder / "odd")),
        "paths": spark.read.csv(str(folder / "paths"), schema="id bigint, text string, k int"),
        "files": spark.read.parquet(str(folder / "files")),
        "wide": spark.read.parquet(str(folder / "wide")),
    }


def others(spark: SparkSession) -> DataFrame:
    return spark.range(0, 40, 1, 2).selectExpr("CAST(id % 11 AS int) AS k", "id AS other")


@pytest.fixture
def finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut wherever, and row groups into pieces."""
    monkeypatch.setattr("watersmeet.spark.scans.text._LEAST_BYTES", 1)
    monkeypatch.setattr("watersmeet.spark.scans.scan._LEAST_ROWS", 1)
    # However many lines are left to Spark.
    monkeypatch.setattr("watersmeet.spark.scans.text_plan._MOST_REFUSED", 1.0)


def told(run: Any) -> str:
    return " ".join(run.explain().split())


def joined(run: Any) -> list[str]:
    return sorted(text for wave in run for text in texts(wave.rows))


# ---- values --------------------------------------------------------------------------------------

UNIONS: dict[str, tuple[int, Callable[[Tables], DataFrame]]] = {
    "of text and Parquet": (2, lambda t: t["text"].union(t["files"])),
    "of Parquet and text": (2, lambda t: t["files"].union(t["text"])),
    "of two kinds of text": (2, lambda t: t["text"].union(t["other"])),
    "of lines of both kinds and Parquet": (
        3, lambda t: t["text"].union(t["objects"]).union(t["files"]).where("k < 5")
    ),
    "of text with itself": (2, lambda t: t["text"].union(t["text"])),
    "of three": (3, lambda t: t["other"].union(t["files"]).union(t["text"])),
    "of many": (
        9,
        lambda t: reduce(DataFrame.union, [t["text"], *[t["files"], t["other"]] * 4]),
    ),
    "by name": (2, lambda t: t["text"].unionByName(t["files"].select(*reversed(COLUMN_NAMES)))),
    "with missing columns": (
        3,
        lambda t: t["text"].drop("day").unionByName(t["wide"], allowMissingColumns=True)
        .unionByName(t["paths"], allowMissingColumns=True),
    ),
    "whose types are widened": (
        2, lambda t: t["text"].select("id", "k", "part").unionByName(t["wide"])
    ),
    "whose first branch is widened": (
        2, lambda t: t["wide"].unionByName(t["text"].select("id", "k", "part"))
    ),
    "of paths and files": (
        3,
        lambda t: t["paths"].select("k", "id").union(t["files"].select("k", "id"))
        .union(t["other"].selectExpr("k + 100", "id")),
    ),
    "with filters on both levels": (
        2, lambda t: t["text"].where("k > 2").union(t["files"].where("text LIKE '%3'"))
        .where("id > 40 AND day IS NOT NULL"),
    ),
    "with columns above": (
        2,
        lambda t: t["text"].union(t["files"])
        .selectExpr("concat(text, '!') AS name", "k * 2 AS double", "id").where("double <> 4"),
    ),
    "with constants": (
        2,
        lambda t: t["text"].withColumn("year", sf.lit("2024"))
        .union(t["files"].withColumn("year", sf.lit("2025"))),
    ),
    "of constants alone": (
        2, lambda t: t["text"].selectExpr("1 AS x").union(t["files"].selectExpr("2"))
    ),
    "of a branch without rows": (
        2, lambda t: t["text"].union(t["files"].where("id < 200 AND k = 6"))
    ),
    "of a branch whose paths are ruled out": (
        2, lambda t: t["paths"].where("k = 7").select("id").union(t["files"].select("id")),
    ),
    "of no files": (
        2, lambda t: t["paths"].where("k = 7").union(t["paths"].where("k = 8"))
    ),
    "sorted and repartitioned": (
        2, lambda t: t["text"].orderBy("id").union(t["files"].repartition(3)).orderBy("part")
    ),
    "below a union": (
        3,
        lambda t: t["text"].union(t["files"]).selectExpr("id + 1 AS id", "k").where("id % 2 = 0")
        .union(t["wide"].selectExpr("CAST(id AS bigint)", "CAST(k AS int)")).where("k > 0"),
    ),
    "in SQL": (
        2,
        lambda t: t["text"].sparkSession.sql(
            "SELECT id, day FROM {a} UNION ALL SELECT k, day FROM {b} WHERE k IN (1, 2)",
            a=t["text"], b=t["files"],
        ),
    ),
}  # fmt: skip


# The others take the same way as one of these.
QUICK = {
    "of text and Parquet", "of text with itself", "of many", "by name", "with missing columns",
    "whose types are widened", "with filters on both levels", "with columns above",
    "of constants alone", "of a branch whose paths are ruled out", "of no files", "below a union",
}  # fmt: skip


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in UNIONS],
)
def test_a_union_is_read_as_spark_reads_it(tables: Tables, name: str) -> None:
    branches, make = UNIONS[name]
    frame = make(tables)
    scan, theirs = union_scan(frame), frame.toArrow()
    assert len(scan.branches) == branches
    ours = read_text(pickle.loads(pickle.dumps(scan)))
    assert ours.schema.equals(theirs.schema.remove_metadata())
    assert rows(ours) == rows(theirs)


# With them Spark leaves little above a union, and no union in another.
RULES = ["PushProjectionThroughUnion", "PushDownPredicates", "CombineUnions", "ColumnPruning"]


@pytest.mark.usefixtures("finely")
def test_what_spark_leaves_above_a_union_is_done_to_each_branch(
    spark: SparkSession, tables: Tables
) -> None:
    rules = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in RULES)
    with sql_types.settings(spark, optimizer__excludedRules=rules):
        for name in ("with filters on both levels", "with columns above", "below a union"):
            branches, make = UNIONS[name]
            frame = make(tables)
            scan = union_scan(frame)
            assert len(scan.branches) == branches, name
            assert rows(read_text(scan)) == rows(frame.toArrow()), name


# What CSV files can have and our tasks read -> the type that a Parquet file has instead.
KINDS = {
    "tinyint": "smallint",
    "smallint": "tinyint",
    "int": "bigint",
    "bigint": "double",
    "float": "double",
    "double": "float",
    "decimal_small": "decimal_finer",
    "decimal": "int",
    "decimal_wide": "decimal_whole",
    "string": "string",
    "boolean": "boolean",
    "date": "date",
}
MORE = [("true", False), ("false", True), ("false", False)]


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    ("ansi", "text_first"),
    [("true", True), *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)],
)
def test_types_that_spark_casts_are_cast_alike(
    spark: SparkSession, tmp_path: Path, ansi: str, text_first: bool
) -> None:
    """Some of the values are plain in a line, others are not."""

    def valued(kinds: Iterable[str]) -> DataFrame:
        given = [(name, *sql_types.TYPES[kind]) for name, kind in zip(KINDS, kinds, strict=True)]
        selected = (
            ", ".join(f"CAST({values[n]} AS {kind}) AS {name}" for name, kind, values in given)
            for n in range(3)
        )
        return spark.sql(
            " UNION ALL ".join(f"SELECT {n} AS n, {s}" for n, s in enumerate(selected))
        )

    stored = valued(KINDS)
    stored.write.csv(str(tmp_path / "text"))
    valued(KINDS.values()).write.parquet(str(tmp_path / "files"))
    text = spark.read.schema(stored.schema).csv(str(tmp_path / "text"))
    files = spark.read.parquet(str(tmp_path / "files"))
    right = spark.range(3).selectExpr("CAST(id AS int) AS n")
    left = text.union(files) if text_first else files.union(text)
    with sql_types.settings(spark, ansi__enabled=ansi), wm.join(left, right, "n") as run:
        assert texts(run.to_df()) == texts(left.join(right, "n"))
        assert "left file path: a union of 2 branches: " in told(run)


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize("many", [1, 7, 40])
def test_partitions_have_a_part_of_each_branch_and_every_part_once(
    tables: Tables, many: int
) -> None:
    scan = union_scan(tables["text"].union(tables["files"]).union(tables["other"]))
    partitions = scan.cut(many)
    assert len(partitions) == many
    assert scan.rows == sum(branch.rows for branch in scan.branches) > 400
    for number in (0, 2):
        assert all(any(p.branch == number for p in pieces) for pieces in partitions)
    found = Counter(piece for pieces in partitions for piece in pieces)
    assert set(found.values()) == {1}
    for number, branch in enumerate(scan.branches):
        parts = {piece.part for piece in found if piece.branch == number}
        assert parts == {part for each in branch.cut(many) for part in each}
    alone = text_scan(tables["text"])
    assert [[p.part for p in pieces] for pieces in UnionScan.of(alone).cut(many)] == [
        list(ranges) for ranges in alone.cut(many)
    ]


@pytest.mark.parametrize("many", [1, 2, 5, 40])
def test_parquet_is_cut_between_row_groups_and_large_ones_are_cut(
    spark: SparkSession, tmp_path: Path, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet.spark.scans.scan._LEAST_ROWS", 100)
    sizes = [1, 4_000, 10, 10, 600, 5, 100]
    for number, size in enumerate(sizes):
        pq.write_table(pa.table({"id": range(size)}), tmp_path / f"{number}.parquet")
    scan = plain(spark.read.parquet(str(tmp_path)))
    cuts = scan.cut(many)
    assert len(cuts) <= many
    splits = [split for each in cuts for split in each]
    for group in scan.row_groups:
        mine = [split for split in splits if split.file == group.file]
        assert [split.start for split in mine[1:]] == [split.stop for split in mine[:-1]]
        assert (mine[0].start, mine[-1].stop) == (0, group.rows)
        assert len(mine) <= 4
    assert max(Counter(split.file for split in splits).values()) == min(many, 4)


def test_many_branches_are_told_in_few_words(tables: Tables) -> None:
    text = tables["text"].select("id")
    many = [tables["files"].select("id"), *(text.where(f"id <> {n}") for n in range(9))]
    scan = union_scan(reduce(DataFrame.union, many))
    words = scan.describe()
    assert words.startswith("a union of 10 branches: 2 Parquet files, ")
    assert "; 3 CSV files, " in words
    assert words.endswith("; and 4 more")
    last = scan.branches[-1]
    assert not isinstance(last, PlainScan)
    last.tally.lines[last.cut(1)[0][0]] = 5
    last.tally.reason = "a line has a quote"
    assert scan.describe().endswith(
        "; and 4 more, 5 lines parsed by Spark (first, a line has a quote)"
    )


# ---- joins ---------------------------------------------------------------------------------------


def mingled(tables: Tables) -> DataFrame:
    """Text of two kinds, one of them in two branches, with lines that Spark must parse for both."""
    mixed, other = tables["mixed"], tables["other"]
    united = mixed.union(tables["files"]).union(mixed.where("k > 2")).union(other)
    return united.select("id", "k", "text", "day")


def again(tables: Tables) -> DataFrame:
    united = tables["wide"].union(tables["text"].select("id", "k", "part"))
    return united.selectExpr("CAST(k AS int) AS k", "id AS again").where("again < 60")


@pytest.mark.usefixtures("in_waves", "finely")
@pytest.mark.parametrize(
    "how",
    ["full", *(pytest.param(how, marks=pytest.mark.slow) for how in ("inner", "left", "anti"))],
)
def test_unions_are_joined_in_waves_and_lines_that_are_not_plain_with_them(
    tables: Tables, tmp_path: Path, how: str
) -> None:
    left, right = mingled(tables), again(tables)
    with wm.join(left, right, "k", how, storage=tmp_path) as run:
        progress = [wave.progress for wave in run]
        assert len(progress) == 4
        assert progress[0].rows_read[0] < progress[-1].rows_read[0] == progress[-1].rows_total[0]
        own = left.join(right, "k", f"left_{how}" if how == "anti" else how)
        assert texts(run.to_df()) == texts(own)
        words = told(run)
        assert "left file path: a union of 4 branches: 3 CSV files, " in words
        assert words.count("lines parsed by Spark (first, ") == 2
        assert "partitions computed some at a time in random order right file path: a " in words
        kept = [file.name for file in tmp_path.rglob("*") if file.is_file()]
        assert not [name for name in kept if name.startswith(("lines", "parsed"))], kept


@pytest.mark.usefixtures("in_waves", "finely")
def test_objects_that_are_not_plain_are_parsed_with_the_filters_of_their_branch(
    spark: SparkSession, tables: Tables
) -> None:
    """Of a member that is there twice, the first decides in Spark if it is filtered by."""
    odd, other = tables["odd"], others(spark)
    for first, second in [("k > 2", "k < 4"), ("k < 4", "k > 2"), ("id < 50", "k IS NULL")]:
        left = odd.where(first).union(tables["files"]).union(odd.where(second)).select("id", "k")
        with wm.join(left, other, "k", "left", instances=2) as run:
            assert joined(run) == texts(left.join(other, "k", "left"))
            assert "parsed by Spark (first, " in told(run)
            assert "left file path: a union of 3 branches: 1 JSON file, " in told(run)


@pytest.mark.usefixtures("small")
def test_small_unions_are_joined_by_the_driver(tables: Tables) -> None:
    left, right = tables["text"].union(tables["files"]), again(tables)
    with wm.join(left, right, "k") as run:
        assert texts(run.to_df()) == texts(left.join(right, "k"))
        assert "in the driver's process" in told(run)
        assert "row path" not in told(run)


@pytest.mark.slow
@pytest.mark.usefixtures("finely")
def test_joins_of_many_and_bands_over_unions(spark: SparkSession, tables: Tables) -> None:
    """All of a side is read before its rows are divided."""
    left, right = mingled(tables).select("id", "k"), others(spark)
    with wm.join_many({"a": left, "b": again(tables), "c": right}, "k") as run:
        own = left.join(again(tables), "k").join(right, "k")
        columns = ["id", "again", "other"]
        assert texts(run.to_df().select(*columns)) == texts(own.select(*columns))
        assert "a file path: a union of 4 branches: " in told(run)
    band = left.where("k is not null").selectExpr("k AS b", "id")
    with wm.join(right, band, wm.within(("k", "b"), 1)) as run:
        assert texts(run.to_df()) == texts(right.join(band, sf.expr("abs(k - b) <= 1")))
        assert "right file path: a union of 4 branches: " in told(run)


@pytest.mark.usefixtures("finely")
def test_aggregates_over_unions_look_before_they_are_exact(tables: Tables, tmp_path: Path) -> None:
    left, right = mingled(tables), again(tables)
    given: dict[str, Any] = {"storage": tmp_path, "group_by": "day"}
    with wm.aggregate(left, right, on="k", n=wm.count(), s=wm.sum("id + again"), **given) as run:
        looks = list(run)
        assert len(looks) > 1
        assert 0 < looks[0].fraction < 0.7
        grouped = left.join(right, "k").groupBy("day")
        own = grouped.agg(sf.count("*").alias("n"), sf.expr("sum(id + again)").alias("s"))
        assert texts(run.to_df()) == texts(own)
        words = told(run)
        assert "file path: a union of 4 branches: 3 CSV files, " in words
        assert "64 partitions of text, read some partitions at a time" in words
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("finely")
def test_functions_of_the_users_above_a_union_and_in_a_branch(
    spark: SparkSession, tables: Tables
) -> None:
    doubled = sf.udf(lambda k: None if k is None else 2 * k, "int")
    odd = sf.udf(lambda k: k is not None and k % 2 == 1, "boolean")
    first = tables["mixed"].select("id", "k", doubled("k").alias("twice"))
    united = first.union(tables["files"].selectExpr("id", "k", "k + 100"))
    left = united.where(odd("k")).withColumn("again", doubled("twice"))
    with wm.join(left, others(spark), "k") as run:
        found = texts(run.to_df())
        assert "left file path: a union of 2 branches: " in told(run)
    # What the functions do, in words of Spark's, as its own calls of them take seconds.
    mixed = tables["mixed"].selectExpr("id", "k", "2 * k AS twice")
    united = mixed.union(tables["files"].selectExpr("id", "k", "k + 100"))
    own = united.where("k % 2 = 1").withColumn("again", sf.expr("2 * twice"))
    assert found == texts(own.join(others(spark), "k"))


def test_a_function_that_fails_in_a_branch(spark: SparkSession, tables: Tables) -> None:
    # Without annotations, by which Spark would choose how it is called.
    def fails(k):  # type: ignore[no-untyped-def]
        raise ValueError(f"not {k}")

    failing = sf.udf(fails, "int")
    bad = tables["text"].union(tables["files"].withColumn("k", failing("k")))
    with wm.join(bad, others(spark), "k") as run, pytest.raises(FunctionFailed, match="not "):
        run.to_df()


# ---- mistakes that would be noticed --------------------------------------------------------------


def a_branch_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one partition."""
    as_it_is = UnionScan.cut

    def cut(self: UnionScan, many: int) -> list[tuple[Piece, ...]]:
        first, *rest = as_it_is(self, many)
        return [tuple(piece for piece in first if piece.branch != 1), *rest]

    monkeypatch.setattr(UnionScan, "cut", cut)


def a_row_group_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = PlainScan.cut

    def cut(self: PlainScan, many: int) -> list[tuple[Any, ...]]:
        splits = [type(s)(s.file, s.row_group, 0, s.stop) for each in as_it_is(self, many)
                  for s in each]  # fmt: skip
        return [(split,) for split in splits[:many]]

    monkeypatch.setattr(PlainScan, "cut", cut)


def lines_are_parsed_for_one_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that read the same files."""
    as_it_is = TextPartitions._parsed

    def parsed(self: TextPartitions[Any], *given: Any, **more: Any) -> Any:
        found = as_it_is(self, *given, **more)
        return {piece: files for piece, files in found.items() if piece.branch != 2}

    monkeypatch.setattr(TextPartitions, "_parsed", parsed)


@pytest.mark.usefixtures("finely")
@pytest.mark.parametrize(
    "mistake",
    [
        a_branch_is_left_out,
        *(
            pytest.param(mistake, marks=pytest.mark.slow)
            for mistake in (
                None,
                a_row_group_is_read_from_its_beginning,
                lines_are_parsed_for_one_branch,
            )
        ),
    ],
)
def test_a_row_that_is_lost_or_comes_twice_is_noticed(
    spark: SparkSession,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    left, right = mingled(tables), others(spark)
    if mistake is not None:
        mistake(monkeypatch)
    with wm.join(left, right, "k", "left") as run:
        found = texts(run.to_df())
    assert (found == texts(left.join(right, "k", "left"))) == (mistake is None)


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("in_waves", "finely")
@pytest.mark.parametrize("seed", range(4))
def test_workers_are_killed_while_a_union_is_read(
    spark: SparkSession, tables: Tables, seed: int
) -> None:
    left, right = mingled(tables), again(tables)
    own = texts(left.join(right, "k", "full"))
    with killing(spark, random.Random(seed)) as killed, wm.join(left, right, "k", "full") as run:
        assert joined(run) == own
    assert killed, "nobody was killed, and nothing shown"


@pytest.mark.parametrize("changed", ["text.csv", "files.parquet"])
def test_a_file_of_a_branch_that_changes(spark: SparkSession, tmp_path: Path, changed: str) -> None:
    (tmp_path / "text.csv").write_text("1,2\n3,4\n")
    pq.write_table(pa.table({"k": pa.array([5], pa.int32()), "v": [6]}), tmp_path / "files.parquet")
    text = spark.read.csv(str(tmp_path / "text.csv"), schema="k int, v long")
    left = text.union(spark.read.parquet(str(tmp_path / "files.parquet")))
    with wm.join(left, others(spark), "k") as run:
        (tmp_path / changed).write_bytes(b"other")
        with pytest.raises(InputChanged, match=f"{changed} has changed"):
            run.to_df()


# ---- what is left to Spark -----------------------------------------------------------------------


def test_a_branch_that_is_left_to_spark_is_named(
    spark: SparkSession, tables: Tables, folder: Path, tmp_path: Path
) -> None:
    text, files = tables["text"], tables["files"]
    name = "branch {} of {} in its union is not read from its files: {}".format
    reader = spark.read.schema(text.schema)
    mode = reader.csv(str(folder / "text"), header=True, mode="DROPMALFORMED")
    assert refused(text.union(mode)) == name(
        2, 2, "it is read with the option mode='DROPMALFORMED'"
    )
    assert refused(mode.union(files)).startswith(name(1, 2, "it is read with the option mode="))
    assert refused(tables["mixed"].union(files)).startswith(
        name(1, 2, "many of its lines are not plain: a line has ")
    )
    assert refused(files.union(text).union(text.groupBy(*text.columns).count().drop("count"))) == (
        name(3, 3, "its plan has a node Aggregate")
    )
    assert refused(files.union(text.selectExpr("id", "k", "text", "round(part, 1)", "day"))) == (
        name(2, 2, "column 'round(part, 1)' is computed with round(part, 1), which may have "
             "other values outside Spark")
    )  # fmt: skip
    moments = spark.read.schema("at timestamp").csv(str(folder / "text"))
    moment = files.selectExpr("CAST(day AS timestamp) AS at").union(moments)
    assert refused(moment).startswith(name(2, 2, "column 'at' is timestamp"))
    files.write.orc(str(tmp_path / "orc"))
    orc = spark.read.orc(str(tmp_path / "orc"))
    assert refused(text.union(orc)) == name(2, 2, "its format is ORC, not plain Parquet")
    assert refused(text.union(files).limit(3)) == "its plan has a node GlobalLimit"
    with sql_types.settings(spark, parquet__int96TimestampConversion="true"):
        assert "int96TimestampConversion is not false" in refused(text.union(files))
        union_scan(text.union(text))


def test_calendars_are_asked_of_parquet_branches_alone(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """Arrow does not note which calendar its days are in."""
    pq.write_table(pa.table({"day": pa.array([0, -10_000], pa.date32())}), tmp_path / "a.parquet")
    text, days = tables["text"].select("day"), spark.read.parquet(str(tmp_path))
    assert rows(read_text(union_scan(text.union(days)))) == rows(text.union(days).toArrow())
    with sql_types.settings(spark, parquet__datetimeRebaseModeInRead="LEGACY"):
        words = refused(text.union(days))
        assert words.startswith("branch 2 of 2 in its union is not read from its files: ")
        assert "has days or instants that may be in the calendar of before 1582" in words
        union_scan(text.union(text))
