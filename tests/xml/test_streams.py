"""Random streams in random chunks: the same rows, however they are cut."""

from __future__ import annotations

import pytest

from tests.xml.streams import Stream, follow


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_streams_are_their_rows_in_every_mode(first: int) -> None:
    count = 10 if first == 0 else 200
    for seed in range(first * 1000, first * 1000 + count):
        follow(seed)


def test_the_streams_have_everything() -> None:
    """Otherwise they would not be worth reading."""
    streams = [Stream(seed) for seed in range(40)]
    errors = {stream.error for stream in streams}
    assert {"", "cut off", " bytes (", "DOCTYPE"} < errors
    segments = [segment for stream in streams for segment in stream.segments]
    assert sum(segment.is_marker for segment in segments) > 20
    assert sum(segment.is_bad for segment in segments) > 20
