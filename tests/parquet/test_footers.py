"""What a footer says about row groups and columns, in one meaning for whoever asks."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.parquet.footers import Footer, each_footer

START = datetime(1969, 12, 31, 23, 59, 59)


def written(path: Path, table: pa.Table, **options: Any) -> Footer:
    pq.write_table(table, path / "t.parquet", row_group_size=4, **options)
    return Footer.read(path / "t.parquet")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_are_in_microseconds_whatever_the_file_counts(unit: str, tmp_path: Path) -> None:
    moments = pa.array([START + timedelta(seconds=n) for n in range(8)], pa.timestamp(unit))
    footer = written(tmp_path, pa.table({"at": moments}), version="2.6")
    assert footer.range(0, "at") == (-1_000_000, 2_000_000)
    assert footer.range(1, "at") == (3_000_000, 6_000_000)


def test_ends_in_nanoseconds_are_rounded_outwards(tmp_path: Path) -> None:
    footer = written(tmp_path, pa.table({"at": pa.array([-1, 1_001], pa.timestamp("ns"))}))
    assert footer.range(0, "at") == (-1, 2)


def test_numbers_and_days_are_as_they_are(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([3, None, -7, 5], pa.int8()),
            "large": pa.array([2**62, -(2**62), 0, 1], pa.int64()),
            "day": [date(1970, 1, 2), date(1970, 1, 1), date(1970, 1, 5), None],
        }
    )
    footer = written(tmp_path, table)
    assert footer.range(0, "small") == (-7, 5)
    assert footer.range(0, "large") == (-(2**62), 2**62)
    assert footer.range(0, "day") == (0, 4)
    assert footer.chunk(0, "small").nulls == 1
    assert footer.chunk(0, "day").ends == (date(1970, 1, 1), date(1970, 1, 5))


def test_what_has_no_such_number_has_no_range(tmp_path: Path) -> None:
    table = pa.table(
        {
            "real": [1.5, 2.5],
            "text": ["a", "b"],
            "unsigned": pa.array([1, 2**63], pa.uint64()),
            "inner": [{"k": 1}, {"k": 2}],
            "nulls": pa.array([None, None], pa.int32()),
        }
    )
    footer = written(tmp_path, table)
    assert [footer.range(0, name) for name in [*table.column_names, "absent"]] == [None] * 6
    assert footer.chunk(0, "real").ends == (1.5, 2.5)
    for name in ("inner", "absent"):
        chunk = footer.chunk(0, name)
        assert chunk.ends is None
        assert math.isnan(chunk.nulls)
        assert math.isnan(chunk.stored)


def test_a_column_is_not_taken_for_a_field_of_the_same_name(tmp_path: Path) -> None:
    table = pa.table({"s": [{"k": 100}, {"k": 200}], "k": [1, 2]})
    footer = written(tmp_path, table)
    assert footer.range(0, "k") == (1, 2)


def test_statistics_of_96_bit_timestamps_are_not_followed(tmp_path: Path) -> None:
    moments = pa.array([START, START + timedelta(days=1)], pa.timestamp("ns"))
    footer = written(tmp_path, pa.table({"at": moments}), use_deprecated_int96_timestamps=True)
    assert footer.range(0, "at") is None
    assert footer.chunk(0, "at").ends is None


def test_a_file_without_statistics_says_only_how_large_it_is(tmp_path: Path) -> None:
    footer = written(tmp_path, pa.table({"k": [1, 2, 3]}), write_statistics=False)
    assert footer.range(0, "k") is None
    assert (footer.row_groups, footer.rows(0)) == (1, 3)
    assert footer.chunk(0, "k").stored > 0


def test_sizes_are_those_of_the_columns_with_all_that_is_nested_in_them(tmp_path: Path) -> None:
    nested = [{"x": n, "y": [n] * 9} for n in range(8)]
    table = pa.table({"k": range(8), "s": nested, "s2": range(8), "a.b": range(8)})
    footer = written(tmp_path, table)
    parts = [list(footer.sizes([name])) for name in table.column_names]
    together = [sum(sizes) for sizes in zip(*parts, strict=True)]
    assert list(footer.sizes(table.column_names)) == together
    assert all(size > 0 for sizes in parts for size in sizes)
    assert list(footer.sizes([])) == [0, 0]


def test_several_files_are_read_in_their_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.parquet" for n in range(20)]
    for n, path in enumerate(paths):
        pq.write_table(pa.table({"k": [n]}), path)
    footers = each_footer(Footer.read, paths)
    assert [footer.range(0, "k") for footer in footers] == [(n, n) for n in range(20)]
