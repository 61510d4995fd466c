"""Functions of the user's in joins and aggregates are called by tasks, and named if they fail."""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions

import watersmeet as wm
from tests.spark.scans import rows, text_scan
from watersmeet.errors import SourceFailed, WorkerLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Some of them have no types.
sf: Any = functions
pytestmark = pytest.mark.spark


def tripled(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 3)


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two tables in 8 files each, a key and a value of each by functions."""
    found = []
    for number, (many, step) in enumerate([(4_000, 7), (1_000, 3)]):
        path = str(tmp_path_factory.mktemp("called") / str(number))
        text = f"cast(id * {step} % 500 AS int) AS item", f"id % 50 + {number} AS v{number}"
        spark.range(0, many, 1, 8).selectExpr("id", *text).write.parquet(path)
        read_back = spark.read.parquet(path)
        key = sf.udf(lambda item: f"k{item % 400}", "string")
        triple = sf.arrow_udf(tripled, "bigint")
        found.append(
            read_back.select(key("item").alias("k"), triple(f"v{number}").alias(f"v{number}"))
        )
    return tuple(found)


@pytest.mark.parametrize("how", ["inner", pytest.param("full", marks=pytest.mark.slow), "anti"])
def test_joins_of_tables_with_functions_are_sparks_own(sides: Any, how: str) -> None:
    left, right = sides
    theirs = rows(left.join(right, "k", how).toArrow())
    with wm.join(left, right, "k", how) as run:
        found = sum((rows(wave.rows.toArrow()) for wave in run), start=type(theirs)())
        assert "k computed as <lambda>(item)" in " ".join(run.explain().split())
    assert found == theirs


def test_the_driver_does_not_call_functions(sides: Any) -> None:
    left, right = sides
    where = sf.udf(lambda v: os.getpid(), "bigint")
    with wm.join(left.withColumn("where", where("v0")), right, "k") as run:
        places = {row["where"] for row in run.to_df().select("where").distinct().collect()}
    assert os.getpid() not in places


def test_an_aggregate_over_a_function_is_sparks_own(sides: Any) -> None:
    left, right = sides
    with wm.aggregate(left, right, "k", total=wm.sum("v0 * v1"), n=wm.count()) as run:
        ours = run.to_df(run.exact()).first()
        assert "file path" in run.explain()
    theirs = left.join(right, "k").agg(sf.sum(sf.expr("v0 * v1")), sf.count("*")).first()
    assert ours is not None
    assert tuple(ours) == tuple(theirs)


def test_a_function_of_the_side_that_is_kept_is_called_once_for_a_row(
    spark: SparkSession, sides: Any, tmp_path: Any
) -> None:
    noted = tmp_path / "called"

    def note(value: int) -> int:
        with noted.open("a") as out:
            out.write(f"{value}\n")
        return value

    spark.range(0, 300, 1, 13).selectExpr("id AS v", "CAST(id AS string) AS k").write.parquet(
        str(tmp_path / "few")
    )
    few = spark.read.parquet(str(tmp_path / "few"))
    right = few.select(
        sf.concat(sf.lit("k"), "k").alias("k"),
        sf.udf(note, "bigint", useArrow=True)("v").alias("v"),
    )
    left, _ = sides
    with wm.aggregate(left, right, "k", total=wm.sum("v0 * v"), n=wm.count(), seed=3) as run:
        assert "right      " in run.explain()
        assert "read first" in run.explain()
        ours = run.to_df(run.exact()).first()
    assert sorted(map(int, noted.read_text().split())) == list(range(300))
    theirs = left.join(right, "k").agg(sf.sum(sf.expr("v0 * v")), sf.count("*")).first()
    assert ours is not None
    assert tuple(ours) == tuple(theirs)


@pytest.mark.parametrize("call", ["join", "aggregate"])
def test_a_function_that_ends_its_process_is_an_error_without_javas_stack(
    sides: Any, call: str
) -> None:
    left, right = sides
    ended = sf.udf(lambda v: os._exit(3), "int")("v0")
    called = left.withColumn("e", ended)

    def run() -> None:
        if call == "join":
            wm.join(called, right, "k").to_df()
        else:
            wm.aggregate(called, right, "k", n=wm.sum("e")).exact()

    with pytest.raises(WorkerLost, match="ended in the middle of a task") as caught:
        run()
    assert "java" not in str(caught.value).lower()


@pytest.mark.slow
@pytest.mark.parametrize("call", ["join", "aggregate"])
def test_a_function_that_never_returns_ends_with_the_run(
    sides: Any, tmp_path: Any, call: str
) -> None:
    left, right = sides
    called = tmp_path / "called"
    os.mkfifo(called)

    def never(value: int) -> int:
        with called.open("w") as out:
            out.write(f"{os.getpid()}\n")
        threading.Event().wait()
        return value

    frame = left.withColumn("e", sf.udf(never, "bigint", useArrow=True)("v0"))
    run: Any = (
        wm.join(frame, right, "k")
        if call == "join"
        else wm.aggregate(frame, right, "k", n=wm.sum("e"))
    )
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.extend(run))
    asking.start()
    with called.open() as told:
        worker = os.pidfd_open(int(told.readline()))
    run.stop()
    asking.join(60)
    assert not asking.is_alive()
    assert not found
    run.close()
    # Spark lets a worker go on for two seconds.
    ended, _, _ = select.select([worker], [], [], 60)
    os.close(worker)
    assert ended


def test_a_function_that_fails_is_named_with_what_it_said(sides: Any) -> None:
    left, right = sides

    def failing(v: int) -> int:
        raise LookupError("no such thing")

    failed = sf.udf(failing, "int", useArrow=True)("v0")
    with (
        wm.join(left.withColumn("e", failed), right, "k") as run,
        pytest.raises(SourceFailed, match=r"failing\(.*LookupError: no such thing") as caught,
    ):
        run.to_df()
    assert "Mend the function" in caught.value.remedy


def test_lines_of_csv_files_are_given_to_functions(spark: SparkSession, tmp_path: Any) -> None:
    spark.range(0, 500, 1, 2).selectExpr("id", "id % 9 AS v").write.csv(str(tmp_path / "lines"))
    lines = spark.read.schema("id bigint, v int").csv(str(tmp_path / "lines"))
    more = sf.udf(lambda value: value + 1, "int")
    left = lines.select("id", more("v").alias("v"))
    assert "v computed as <lambda>(v)" in text_scan(left).describe()
    with wm.join(left, lines.select("id"), "id") as run:
        assert rows(run.to_df().toArrow()) == rows(left.join(lines.select("id"), "id").toArrow())


def test_lines_that_are_not_plain_do_not_have_others_called_once_more(
    spark: SparkSession, tmp_path: Any
) -> None:
    (tmp_path / "lines").mkdir()
    plain_lines = "".join(f"{number},{number % 9}\n" for number in range(4_000))
    (tmp_path / "lines" / "a.csv").write_text(f'{plain_lines}4000,"1""2"\n')
    lines = spark.read.schema("id int, v string").csv(str(tmp_path / "lines"))
    noted = tmp_path / "called"

    def note(number: int) -> int:
        with noted.open("a") as out:
            out.write(f"{number}\n")
        return number

    left = lines.select(sf.udf(note, "int", useArrow=True)("id").alias("id"), "v")
    ids = spark.range(4_001).selectExpr("CAST(id AS int) AS id")
    with wm.join(left, ids, "id") as run:
        assert run.to_df().count() == 4_001
        assert "1 line parsed by Spark" in " ".join(run.explain().split())
    # The first time ends at the line that is not plain.
    assert len(noted.read_text().split()) <= 2 * 4_001
