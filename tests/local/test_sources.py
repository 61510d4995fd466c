from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.local.sources import MAX_ROWS, Source, open_source, rows_per_batch
from watersmeet.rows.widths import total_bytes

TABLE = pa.table({"k": list(range(1000)), "name": [f"n{i}" for i in range(1000)]})


def opened(source: Any, *, batch_bytes: int = 2**20) -> Source:
    return open_source(source, word="left", batch_bytes=batch_bytes)


def content(source: Any) -> pa.Table:
    return pa.Table.from_batches(opened(source).batches())


def write(path: Path, table: pa.Table = TABLE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet" | ".pq":
            pq.write_table(table, path)
        case ".feather":
            feather.write_feather(table, path)
        case ".csv":
            csv.write_csv(table, path)
        case ".arrows":
            with pa.ipc.new_stream(path, table.schema) as stream:
                stream.write_table(table, max_chunksize=300)
        case _:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table, max_chunksize=300)
    return path


SUFFIXES = ["parquet", "pq", "arrow", "arrows", "ipc", "feather", "csv"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_known_by_its_extension(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"table.{suffix}")
    assert opened(path).schema == TABLE.schema
    assert content(path).equals(TABLE)
    assert content(str(path)).equals(TABLE)


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        TABLE.to_reader(max_chunksize=100),
        ds.dataset(TABLE),
        TABLE.to_pandas(),
        TABLE.combine_chunks().to_batches()[0],
        TABLE.to_batches(max_chunksize=100),
        iter(TABLE.to_batches(max_chunksize=100)),
        [TABLE.slice(0, 500), TABLE.slice(500)],
    ],
    ids=lambda source: type(source).__name__,
)
def test_what_is_in_memory_or_arrives(source: Any) -> None:
    assert content(source).replace_schema_metadata().equals(TABLE)


def test_only_iterators_do_not_know_their_columns() -> None:
    assert opened(TABLE).schema == TABLE.schema
    assert opened(TABLE.to_reader()).schema == TABLE.schema
    assert opened(iter(TABLE.to_batches())).schema is None


def test_opening_reads_nothing_from_an_iterator() -> None:
    def never() -> Iterator[pa.RecordBatch]:
        raise AssertionError("pulled")
        yield

    opened(never())


WIDTHS = {
    "short": [3] * 2_000,
    "long": [4_000] * 2_000,
    "longer and longer": list(range(0, 8_000, 4)),
    "some much longer": [100_000 if row % 100 == 99 else 0 for row in range(2_000)],
    "long ones last": [0] * 1_900 + [40_000] * 100,
}
KINDS = ["table", "parquet", "parquet of one value", "arrow", "dataset", "pandas", "csv"]


def as_kind(table: pa.Table, kind: str, folder: Path) -> Any:
    match kind:
        case "table":
            return table
        case "pandas":
            return table.to_pandas()
        case "dataset":
            return ds.dataset(write(folder / "a.parquet", table))
        case "parquet":
            pq.write_table(table, folder / "a.parquet", use_dictionary=False)
        case "arrow":
            with pa.ipc.new_file(folder / "a.arrow", table.schema) as file:
                file.write_table(table)
            return folder / "a.arrow"
        case "csv":
            return write(folder / "a.csv", table)
        case _:
            pq.write_table(table, folder / "a.parquet", row_group_size=1_000)
    return folder / "a.parquet"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS)
def test_what_we_cut_ourselves_is_of_the_wanted_size_whatever_its_rows(
    widths: list[int], kind: str, tmp_path: Path
) -> None:
    """By the data and not by its schema: a text may be of any length."""
    texts = ["x" * width for width in widths]
    table = pa.table({"k": range(len(texts)), "doc": texts})
    wanted = 2**20
    batches = list(opened(as_kind(table, kind, tmp_path), batch_bytes=wanted).batches())
    assert pa.Table.from_batches(batches).replace_schema_metadata().equals(table)
    # A batch was begun before its rows were known to be long, but never many of them.
    assert max(total_bytes(batch) for batch in batches) <= 8 * wanted


def test_a_table_is_cut_into_batches_of_the_wanted_size() -> None:
    batches = list(opened(TABLE, batch_bytes=4100).batches())
    assert max(map(total_bytes, batches)) <= 2 * 4100
    assert sum(map(len, batches)) == len(TABLE)
    assert len(batches) <= 10


def test_wide_rows_make_short_batches() -> None:
    assert rows_per_batch(pa.schema({"k": pa.int64()}), 2**30) == MAX_ROWS
    assert rows_per_batch(pa.schema({f"c{i}": pa.int64() for i in range(100)}), 9000) == 10
    assert rows_per_batch(pa.schema({"s": pa.struct({"a": pa.int64()})}), 10) == 1


def test_a_list_of_paths_is_read_in_order(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.parquet", TABLE.slice(n * 500, 500)) for n in range(2)]
    assert content(paths).equals(TABLE)
    assert content([*reversed(paths)])["k"][0].as_py() == 500


def test_a_directory_is_its_files_without_what_spark_leaves_beside_them(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", TABLE.slice(0, 500))
    write(tmp_path / "part-1.parquet", TABLE.slice(500))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").touch()
    write(tmp_path / "_temporary" / "part-2.parquet")
    assert content(tmp_path).equals(TABLE)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_partition_directories_become_columns(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / "year=2024" / "city=A%20B" / f"0.{suffix}", TABLE.slice(0, 2))
    write(
        tmp_path / "year=__HIVE_DEFAULT_PARTITION__" / "city=C" / f"0.{suffix}", TABLE.slice(2, 1)
    )
    assert content(tmp_path).select(["k", "year", "city"]).to_pylist() == [
        {"k": 0, "year": 2024, "city": "A B"},
        {"k": 1, "year": 2024, "city": "A B"},
        {"k": 2, "year": None, "city": "C"},
    ]
    assert opened(tmp_path).schema == content(tmp_path).schema


def test_types_of_the_first_csv_file_hold_for_the_others(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("k,v\n1,2.5\n")
    (tmp_path / "1.csv").write_text("k,v\n2,3\n")
    assert content(tmp_path).to_pydict() == {"k": [1, 2], "v": [2.5, 3.0]}


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"left=.*none\.parquet' does not exist"):
        opened(tmp_path / "none.parquet")


def test_an_extension_that_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "table.xyz").touch()
    with pytest.raises(InvalidArgument, match=r"Rename it to one of \.parquet"):
        opened(tmp_path / "table.xyz")


def test_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_text("k,v\n1,2\n")
    with pytest.raises(InvalidArgument, match="cannot be read as parquet"):
        opened(tmp_path / "table.parquet")


def test_a_directory_without_data_or_with_several_formats(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="holds no file"):
        opened(tmp_path)
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.csv")
    with pytest.raises(InvalidArgument, match="several formats"):
        opened(tmp_path)


def test_what_cannot_be_read_at_all() -> None:
    with pytest.raises(InvalidArgument, match="left is a int"):
        opened(42)


def test_an_iterator_of_something_else() -> None:
    with pytest.raises(SchemaError, match="yielded a dict"):
        list(opened([{"k": 1}]).batches())


def test_a_table_without_rows_still_shows_its_columns() -> None:
    (batch,) = opened([TABLE.slice(0, 0)]).batches()
    assert batch.schema == TABLE.schema
