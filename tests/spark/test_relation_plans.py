"""Which DataFrames are plain scans, and what they are made of. All others say why they are not."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.scans import assert_read_alike, plain, read, refused
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.spark.scans.relation import arrow_schema, open_relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of two row groups."""
    made = tmp_path_factory.mktemp("plain") / "a table"
    made.mkdir()
    for number in range(2):
        first = number * 100
        ids = range(first, first + 100)
        data = pa.table(
            {"id": ids, "Name": [f"n{id}" for id in ids], "half": [id / 2 for id in ids]}
        )
        pq.write_table(data, made / f"part {number}.parquet", row_group_size=60)
    return made


@pytest.fixture
def frame(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder))


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def test_a_scan_knows_its_files_and_row_groups(frame: DataFrame) -> None:
    scan = plain(frame.where("half >= 10").select("id"))
    assert [Path(file.path).name for file in scan.files] == ["part 0.parquet", "part 1.parquet"]
    assert [(group.file, group.number, group.rows) for group in scan.row_groups] == [
        (0, 0, 60),
        (0, 1, 40),
        (1, 0, 60),
        (1, 1, 40),
    ]
    assert scan.rows == 200
    assert scan.nbytes < plain(frame).nbytes
    assert scan.describe().startswith("2 Parquet files, 4 row groups, 200 rows, filter ((half IS")


def test_a_scan_survives_the_way_to_a_task(frame: DataFrame) -> None:
    scan = plain(frame.where("half >= 10 AND Name LIKE 'n1%'").select("id"))
    assert read(pickle.loads(pickle.dumps(scan))).equals(read(scan))


def test_columns_may_be_chosen_reordered_renamed_and_repeated(frame: DataFrame) -> None:
    assert_read_alike(frame.selectExpr("half AS h", "id", "id AS again", "NAME"))
    assert_read_alike(frame.withColumnRenamed("Name", "id2").drop("half").toDF("x", "y"))


def test_the_order_of_rows_is_no_part_of_a_join(frame: DataFrame) -> None:
    chosen = frame.orderBy("half").select("id", "Name").where("id > 150")
    assert_read_alike(chosen.repartition(3, "id"))
    assert_read_alike(frame.coalesce(1).sortWithinPartitions("id").hint("rebalance"))


def test_a_file_that_is_named_twice_is_read_twice(spark: SparkSession, folder: Path) -> None:
    path = str(folder / "part 0.parquet")
    assert assert_read_alike(spark.read.parquet(path, path)).rows == 200


@pytest.mark.parametrize("name", ["100%25 #1?.parquet", "é&+;=,'\"\\ ü.parquet"])
def test_odd_names_of_files_and_folders_are_found(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    place = tmp_path / "a #b?%20" / "p=x#%25y"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), place / name)
    assert_read_alike(spark.read.parquet(str(tmp_path / "a #b?%20")))


def test_sql_and_views_over_files_are_plain(spark: SparkSession, folder: Path) -> None:
    assert_read_alike(spark.sql(f"SELECT id, Name n FROM parquet.`{folder}` WHERE half > 40"))


def test_tables_of_the_catalog_are_plain(spark: SparkSession, frame: DataFrame) -> None:
    frame.selectExpr("id", "Name", "id % 3 AS p").write.partitionBy("p").saveAsTable("made")
    frame.selectExpr("id", "Name").write.bucketBy(4, "id").saveAsTable("buckets")
    try:
        assert_read_alike(spark.table("made").where("p = 1 AND id > 50"))
        assert_read_alike(spark.table("buckets").where("id = 7"))
    finally:
        spark.sql("DROP TABLE made")
        spark.sql("DROP TABLE buckets")


def test_an_empty_table_has_no_files_and_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    scan = plain(spark.read.schema("a int, b string").parquet(str(tmp_path)))
    assert (scan.files, scan.rows, scan.schema.names) == ((), 0, ["a", "b"])


# -- Partitions ----------------------------------------------------------------------------------


def test_partition_columns_have_the_values_that_spark_infers(
    spark: SparkSession, tmp_path: Path
) -> None:
    for path in [
        "n=1/day=2024-02-29/text=a%20b%2Fc/at=2024-01-01 00%3A00%3A00/d=1.50",
        "n=10/day=2023-01-01/text=1/at=2024-10-27 02%3A30%3A00/d=2.5",
        "n=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__"
        "/text=__HIVE_DEFAULT_PARTITION__/at=__HIVE_DEFAULT_PARTITION__/d=3",
    ]:
        place = tmp_path / path
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), place / "data.parquet")
        (place / "_SUCCESS").touch()
        # A summary, which Spark lists and does not read.
        pq.write_metadata(pa.schema({"id": pa.int64()}), place / "_metadata")
    frame = spark.read.parquet(str(tmp_path))
    kinds = [kind for _, kind in frame.dtypes]
    assert kinds == ["bigint", "int", "date", "string", "timestamp", "double"]
    assert_read_alike(frame)
    assert_read_alike(frame.select("day"))
    assert_read_alike(frame.selectExpr("text AS t", "n").where("n IS NULL OR n > 5"))


def test_empty_files_have_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    for path in ("p=1", "p=2"):
        (tmp_path / path).mkdir()
        (tmp_path / path / "empty.parquet").touch()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "p=1" / "data.parquet")
    frame = spark.read.schema("id bigint, p int").parquet(str(tmp_path))
    assert len(assert_read_alike(frame).files) == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("tinyint", "7"),
        ("bigint", "5000000000"),
        ("decimal(10,2)", "1.25"),
        ("boolean", "true"),
        ("float", "0.1"),
        ("double", "NaN"),
        ("timestamp_ntz", "2024-01-01 10:00:00"),
        ("string", "07"),
        ("binary", "ab"),
    ],
)
def test_partition_columns_have_the_type_that_the_reader_asks_for(
    spark: SparkSession, tmp_path: Path, kind: str, value: str
) -> None:
    place = tmp_path / f"p={value}"
    place.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), place / "data.parquet")
    assert_read_alike(spark.read.schema(f"id bigint, p {kind}").parquet(str(tmp_path)))


def test_files_that_the_filter_rules_out_by_their_path_are_not_opened(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.range(60).selectExpr("id", "id % 3 AS p", "id % 2 AS q").coalesce(1)
    frame.write.partitionBy("p", "q").parquet(str(tmp_path / "t"))
    chosen = spark.read.parquet(str(tmp_path / "t")).where("p != 1 AND (q = 0 OR p = 2) AND id > 9")
    scan = assert_read_alike(chosen)
    assert {file.partition for file in scan.files} == {(0, 0), (2, 0), (2, 1)}


def test_a_column_in_files_and_in_their_paths_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "id=1").mkdir()
    pq.write_table(pa.table({"id": [5], "x": [1]}), tmp_path / "id=1" / "data.parquet")
    assert "several columns 'id'" in refused(spark.read.parquet(str(tmp_path)))


# -- Files that differ ---------------------------------------------------------------------------


def test_columns_that_some_files_lack_are_null_there(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "old": ["o"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"new": [0.5], "ID": [2]}), tmp_path / "2.parquet")
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path))
    assert set(frame.columns) >= {"id", "old", "new"}
    assert_read_alike(frame)
    wider = spark.read.schema("absent int, id bigint, list array<int>").parquet(str(tmp_path))
    assert_read_alike(wider)
    assert_read_alike(wider.select("absent"))


def test_files_of_narrower_types_are_widened(spark: SparkSession, tmp_path: Path) -> None:
    for number, kind in enumerate([pa.int32(), pa.int64(), pa.int16()]):
        pq.write_table(pa.table({"n": pa.array([1, None], kind)}), tmp_path / f"{number}.parquet")
    assert_read_alike(spark.read.schema("n bigint").parquet(str(tmp_path)))


def test_one_unreadable_file_refuses_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"n": ["text"]}), tmp_path / "2.parquet")
    frame = spark.read.schema("n bigint").parquet(str(tmp_path))
    assert "column 'n' is BYTE_ARRAY" in refused(frame)
    (tmp_path / "2.parquet").write_bytes(b"PAR1 and nothing else")
    assert "2.parquet cannot be read" in refused(
        spark.read.schema("n bigint").parquet(str(tmp_path))
    )


def test_case_matters_when_the_session_says_so(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"Id": [1], "iD": [2]}), tmp_path / "data.parquet")
    assert "several columns that could be 'id'" in refused(
        spark.read.schema("id bigint").parquet(str(tmp_path))
    )
    with setting(spark, "spark.sql.caseSensitive", "true"):
        assert_read_alike(spark.read.parquet(str(tmp_path)))
        assert_read_alike(spark.read.schema("id bigint, iD bigint").parquet(str(tmp_path)))


def test_names_with_dots_are_read(spark: SparkSession, tmp_path: Path) -> None:
    inner = pa.array([{"b": 1}, None], pa.struct({"b": pa.int32()}))
    pq.write_table(pa.table({"a.c": [1, 2], "a": inner, "x": [3, 4]}), tmp_path / "data.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert_read_alike(frame)
    assert_read_alike(frame.select("`a.c`"))
    assert_read_alike(frame.select("a"))


def test_days_of_the_old_calendar_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    old = "SELECT DATE '1500-01-01' AS day, TIMESTAMP '1500-01-01 00:00:00' AS at, 1 AS one"
    modes = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    }
    for name, value in modes.items():
        with setting(spark, name, value):
            spark.sql(old).write.parquet(str(tmp_path / name))
        frame = spark.read.parquet(str(tmp_path / name))
        assert "calendar" in refused(frame)
        assert_read_alike(frame.select("one"))


@pytest.mark.parametrize(
    ("version", "int96", "read"),
    [
        ("2.4.8", False, False),
        ("3.0.0", False, True),
        ("3.0.3", True, False),
        ("3.1.0", True, True),
    ],
)
def test_files_of_old_spark_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, version: str, int96: bool, read: bool
) -> None:
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    data = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    noted = data.replace_schema_metadata({"org.apache.spark.version": version})
    pq.write_table(noted, tmp_path / "data.parquet", use_deprecated_int96_timestamps=int96)
    frame = spark.read.parquet(str(tmp_path))
    if read:
        assert_read_alike(frame)
    else:
        assert "calendar" in refused(frame)


def test_who_rebases_files_of_others_leaves_their_days_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = pa.table({"day": [datetime.date(2024, 1, 1)], "one": [1]})
    pq.write_table(data, tmp_path / "data.parquet")
    with setting(spark, "spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"):
        frame = spark.read.parquet(str(tmp_path))
        assert "calendar" in refused(frame.select("day"))
        assert_read_alike(frame.select("one"))


# -- What is no plain scan -----------------------------------------------------------------------


def test_other_plans_are_left_to_spark(spark: SparkSession, frame: DataFrame) -> None:
    other = spark.createDataFrame([(1,)], "id bigint")
    assert refused(other) in (
        "its rows come from an RDD or a checkpoint",
        "its rows were given in the program",
    )
    assert refused(spark.range(3)) == "its plan has a node Range"
    assert refused(frame.groupBy("id").count()) == "its plan has a node Aggregate"
    assert refused(frame.join(other, "id")) == "its plan has a node Join"
    assert refused(frame.limit(5)) == "its plan has a node GlobalLimit"
    told = refused(frame.selectExpr("id", "upper(Name) AS loud"))
    assert told.startswith("column 'loud' is computed with upper(Name), which may have other")
    assert "_metadata" in refused(frame.select("id", "_metadata.file_name"))
    assert "_metadata" in refused(frame.select("id").where("_metadata.file_size > 1"))


def test_cached_rows_are_left_to_spark(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.parquet(str(folder)).select("id").cache()
    try:
        assert refused(frame) == "it is cached"
    finally:
        frame.unpersist(blocking=True)


def test_other_formats_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.orc(str(tmp_path / "orc"))
    frame = spark.read.schema("id bigint").orc(str(tmp_path / "orc"))
    assert refused(frame) == "its format is ORC, not plain Parquet"


def test_scans_of_the_second_kind_are_left_to_spark(spark: SparkSession, folder: Path) -> None:
    with setting(spark, "spark.sql.sources.useV1SourceList", ""):
        assert "DataSourceV2" in refused(spark.read.parquet(str(folder)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.parquet.fieldId.read.enabled", "true"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
    ],
)
def test_settings_that_change_what_is_read_are_left_to_spark(
    spark: SparkSession, frame: DataFrame, name: str, value: str
) -> None:
    with setting(spark, name, value):
        assert refused(frame) == f"{name} is not false"


@pytest.mark.parametrize("name", ["ignoreCorruptFiles", "datetimeRebaseMode", "anything"])
def test_options_that_we_do_not_know_are_left_to_spark(
    spark: SparkSession, folder: Path, name: str
) -> None:
    value = "CORRECTED" if "Mode" in name else "true"
    frame = spark.read.option(name, value).parquet(str(folder))
    assert refused(frame) == f"it is read with the option {name.lower()!r}"


def test_options_that_choose_files_are_followed(spark: SparkSession, folder: Path) -> None:
    chosen = spark.read.option("pathGlobFilter", "*1.parquet").parquet(str(folder))
    assert assert_read_alike(chosen).rows == 100
    deep = spark.read.option("recursiveFileLookup", "true").parquet(str(folder.parent))
    assert assert_read_alike(deep).rows == 200


def test_files_that_may_be_encrypted_are_left_to_spark(
    spark: SparkSession, frame: DataFrame
) -> None:
    with setting(spark, "parquet.crypto.factory.class", "some.Factory"):
        assert "encrypted" in refused(frame)


def test_padded_text_is_padded(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE padded (c CHAR(5), v VARCHAR(5)) USING parquet")
    try:
        spark.sql("INSERT INTO padded VALUES ('a', 'a'), ('ab', NULL)")
        assert_read_alike(spark.table("padded"))
        assert_read_alike(spark.table("padded").where("c = 'ab'"))
    finally:
        spark.sql("DROP TABLE padded")


def test_filters_by_a_collation_are_left_to_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE collated (c STRING COLLATE UTF8_LCASE, n INT) USING parquet")
    try:
        spark.sql("INSERT INTO collated VALUES ('a', 1), ('A', 2)")
        assert refused(spark.table("collated").where("c = 'a'").select("n")) == (
            "column 'c' has a collation"
        )
        assert_read_alike(spark.table("collated").select("n"))
    finally:
        spark.sql("DROP TABLE collated")


def test_defaults_for_files_without_the_column_are_left_to_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE grown (a INT) USING parquet")
    try:
        spark.sql("INSERT INTO grown VALUES (1)")
        spark.sql("ALTER TABLE grown ADD COLUMN b INT DEFAULT 42")
        assert spark.table("grown").collect()[0]["b"] == 42
        assert refused(spark.table("grown")) == "column 'b' has a default for files that lack it"
        assert_read_alike(spark.table("grown").select("a"))
    finally:
        spark.sql("DROP TABLE grown")


def test_row_numbers_that_spark_makes_up_are_left_to_it(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.schema("id bigint, _tmp_metadata_row_index bigint").parquet(str(folder))
    assert "makes column '_tmp_metadata_row_index' up" in refused(frame)


def test_a_file_that_went_before_it_was_opened_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(2):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"{number}.parquet")
    frame = spark.read.parquet(str(tmp_path))
    (tmp_path / "0.parquet").unlink()
    assert "0.parquet cannot be opened" in refused(frame)


# -- What cannot be joined at all ----------------------------------------------------------------


def test_a_stream_is_pointed_to_the_other_call(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidArgument, match="join_streams"):
        open_relation(stream, argument="left")


def test_what_is_no_dataframe_is_named() -> None:
    given: Any = pa.table({"a": [1]})
    with pytest.raises(InvalidArgument, match="right is a Table"):
        open_relation(given, argument="right")


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["1 AS a", "2 AS a"], "several columns named 'a'"),
        (["NULL AS nothing"], "'nothing' .* void"),
        (["parse_json('1') AS v"], "'v' .* variant"),
        (["array(named_struct('x', INTERVAL 1 YEAR)) AS i"], "'i' .* interval year"),
        (["'a' COLLATE UTF8_LCASE AS c"], "'c' .* string collate UTF8_LCASE"),
    ],
)
def test_columns_that_cannot_travel_are_named(
    spark: SparkSession, columns: list[str], complaint: str
) -> None:
    with pytest.raises(SchemaError, match=complaint):
        arrow_schema(spark.range(1).selectExpr(*columns), argument="left")
