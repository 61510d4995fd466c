"""A join's resident memory, measured by another process, against the memory it was given.

`make bench` measures the same up to a cap of 1 GB; these are the sizes that take seconds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.cases import MB, Case, Input, Places
from benchmarks.checksum import expected
from benchmarks.outside import Watched, measure

# What a join may hold beyond its cap: allocators' slack and buffers of Arrow's readers.
ALLOWANCE = 64 * MB

SHAPES = {
    "narrow": Input(rows=0, distinct=0),
    "strings": Input(rows=0, distinct=0, key="string", text_bytes=48),
    "wide": Input(rows=0, distinct=0, extra_ints=6, text_bytes=192, batch_rows=5_000),
}


@pytest.mark.parametrize(
    ("algorithm", "cap_mb", "kind", "multiple"),
    [
        ("rpj", 32, "narrow", 2),
        pytest.param("rpj", 32, "strings", 3, marks=pytest.mark.slow),
        ("xjoin", 32, "wide", 5),
        # Joins nothing on arrival, and so holds other things in memory than the rest.
        ("pmj", 32, "wide", 5),
        pytest.param("rpj", 64, "wide", 4, marks=pytest.mark.slow),
        pytest.param("hmj", 32, "wide", 5, marks=pytest.mark.slow),
        pytest.param("xjoin", 64, "strings", 2, marks=pytest.mark.slow),
    ],
)
def test_stays_within_its_memory_on_inputs_several_times_as_large(
    algorithm: str, cap_mb: int, kind: str, multiple: int, tmp_path: Path
) -> None:
    cap, shape = cap_mb * MB, SHAPES[kind]
    rows = cap * multiple // 2 // shape.row_bytes
    case = Case(
        name="resident",
        engine="local",
        input=replace(shape, rows=rows, distinct=rows),
        source="generated",
        algorithm=algorithm,
        memory=cap,
        cores=2,
    )
    outcome = measure(case, Places(scratch=tmp_path), check=True)
    assert outcome.failure is None
    assert (outcome.rows_out, outcome.checksum) == expected(case.input)
    # More than the cap alone would mean that rows were held that nobody counted.
    assert outcome.peak_bytes <= cap + ALLOWANCE
    assert outcome.peak_bytes > cap // 4, "so little that the measurement must be wrong"


def test_a_process_that_takes_memory_is_seen_to_take_it() -> None:
    """The measurement itself: 100 MB that are touched for a moment are in the peak."""
    program = (
        "import sys\n"
        "print('{}', flush=True)\n"
        "sys.stdin.readline()\n"
        "held = b'x' * (100 << 20)\n"
        "del held\n"
        "print('{}', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with Watched(["-c", program]) as watched:
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        watched.hear()
        assert 95 * MB < watched.peak_bytes() < 110 * MB
