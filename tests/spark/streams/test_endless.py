"""A join that goes on for ever leaves no more behind after many batches than after some."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.endless import Drive


@pytest.mark.parametrize("batches", [1_200, pytest.param(12_000, marks=pytest.mark.slow)])
def test_what_a_batch_leaves_behind_does_not_grow_with_their_number(
    batches: int, tmp_path: Path
) -> None:
    drive = Drive(tmp_path / "drive")
    drive.run([batches // 4, batches])
    first, last = drive.looks
    assert not drive.broken()
    assert last.files <= first.files
    # Stamps and counts have more digits.
    assert last.manifest_bytes < 1.05 * first.manifest_bytes
    assert last.state_bytes < 1.05 * first.state_bytes
