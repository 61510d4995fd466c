"""A stream enriched from a master table, against Spark's own join of both."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.enrich.running import Enrichment
from tests.spark.sql_types import REFUSED_KEYS, REFUSED_PAYLOADS, TYPES, texts, write_tables
from tests.spark.streams.running import LEFT, RIGHT, Rows, counted
from watersmeet.operators.family import ENRICHING

pytestmark = pytest.mark.spark

WIDE = RIGHT.append_column("wide", pa.array(["x" * 3000] * len(RIGHT)))


@pytest.mark.parametrize(
    ("how", "algorithm"),
    [
        ("left", "auto"),
        *(pytest.param(how, "auto", marks=pytest.mark.slow) for how in ("inner", "semi", "anti")),
        *(
            pytest.param("left", name, marks=pytest.mark.slow)
            for name in ENRICHING
            if name != "cmeshjoin"
        ),
    ],
)
def test_a_master_that_is_larger_than_memory(
    spark: SparkSession, tmp_path: Path, how: str, algorithm: str
) -> None:
    """Several rows of a key, null keys, and the least memory there is."""
    streams = Enrichment(spark, tmp_path, {"on": "k", "memory": "2MB", "instances": 2})
    streams.write(LEFT, WIDE, batches=2)
    expected = streams.expected(how)
    assert streams.run(how=how, algorithm=algorithm) == expected
    records = wm.stream_metrics(tmp_path / "state")
    assert sum(record["rows_in"][0] for record in records) == len(LEFT)
    assert records[-1]["owed"] == [0, 0]


KEYS = [name for name in TYPES if name not in REFUSED_KEYS]
PAIRS = {
    "tinyint": "bigint", "int": "smallint", "decimal": "decimal_wide", "float": "double",
    "char": "char_longer", "varchar_longer": "varchar", "varchar": "string",
    "date": "date", "timestamp": "timestamp", "days": "hours",
}  # fmt: skip


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> str:
    write_tables(spark, "enrich_types")
    return "enrich_types"


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [{key: key for key in KEYS}, PAIRS])
def test_keys_of_every_type_in_tables_that_spark_wrote(
    spark: SparkSession, database: str, tmp_path: Path, pairs: dict[str, str]
) -> None:
    stream = spark.readStream.table(f"{database}.lefts").drop(*REFUSED_PAYLOADS)
    master = spark.table(f"{database}.rights").drop(*REFUSED_PAYLOADS)
    master = master.withColumnsRenamed({name: f"r_{name}" for name in master.columns})
    on = {left: f"r_{right}" for left, right in pairs.items()}
    joined = wm.enrich(stream, master, on=on, how="left", state=tmp_path / "state")
    plain = spark.table(f"{database}.lefts").drop(*REFUSED_PAYLOADS)
    matches = [plain[left] == master[right] for left, right in on.items()]
    own = plain.join(master, matches, "left")
    assert [(f.name, f.dataType, f.metadata) for f in joined.schema] == [
        (f.name, f.dataType, f.metadata) for f in own.schema
    ]
    writer = joined.writeStream.format("memory").queryName("typed").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = texts(spark.table("typed"))
    assert found == texts(own)
    assert sum("r_id=0" in row for row in found) == 2


@pytest.mark.slow
def test_a_query_goes_on_with_the_version_it_has(enrichment: Enrichment) -> None:
    assert enrichment.run() == enrichment.expected()
    enrichment.add("left", LEFT.slice(0, 200), "more")
    assert enrichment.run() == enrichment.expected()
    assert enrichment.versions_laid_down == [0]


@pytest.mark.slow  # test_versions.py has the master change while the query runs
def test_a_query_that_is_started_again_meets_what_the_master_has_become(
    enrichment: Enrichment,
) -> None:
    """The rows that came before have met the first version, all later ones meet the second."""
    first = enrichment.run(version_column="met")
    enrichment.replace_master(RIGHT.slice(0, 500))
    more = LEFT.slice(0, 200).set_column(1, "a", pa.array(range(10**6, 10**6 + 200)))
    enrichment.add("left", more, "more")
    second = enrichment.run(version_column="met") - first
    assert enrichment.versions_laid_down == [0, 1]
    (old,), (new,) = ({row[-1] for row in rows} for rows in (first, second))
    assert old < new
    assert Rows(row[:-1] for row in second.elements()) == counted(
        enrichment.spark.createDataFrame(more).join(enrichment.master(), "k")
    )


def test_a_condition_and_columns_as_keys(enrichment: Enrichment) -> None:
    stream, master = enrichment.stream("left"), enrichment.master().withColumnRenamed("k", "j")
    joined = wm.enrich(
        stream,
        master,
        stream.k == master.j,
        "semi",
        condition=master.b > stream.a,
        state=enrichment.path / "state",
        ticks=None,
    )
    enrichment.start(joined).awaitTermination()
    plain = enrichment.spark.read.parquet(str(enrichment.path / "left"))
    own = plain.join(master, (plain.k == master.j) & (master.b > plain.a), "left_semi")
    assert texts(enrichment.spark.read.parquet(str(enrichment.path / "out"))) == texts(own)
