"""Lines belong to the range in which they begin, wherever a file is cut."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.delimited import ranges
from watersmeet.delimited.ranges import lines_between


class _Dribbling(io.BytesIO):
    """A file that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(3, size or 0))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"a",
        b"a\n",
        b"a\nbcd\n\n\nefghijk\r\nl",
        b"\n\nabc",
        b"x" * 20 + b"\n" + b"y" * 9,
    ],
)
def test_two_ranges_have_each_line_once_wherever_they_meet(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_AHEAD", 2)
    size = len(text)
    for first in range(size + 1):
        for second in range(first, size + 1):
            got = [
                lines_between(_Dribbling(text), start, stop, size=size).to_pybytes()
                for start, stop in pairwise((0, first, second, size + 5))
            ]
            assert b"".join(got) == text


@given(st.text("ab\n", max_size=60), st.lists(st.integers(0, 60), max_size=9))
def test_ranges_have_just_the_lines_that_begin_in_them(text: str, cuts: list[int]) -> None:
    data = text.encode()
    begins = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    lines = data.splitlines(keepends=True)
    for start, stop in pairwise(sorted({0, len(data), *cuts})):
        wanted = b"".join(
            line for begin, line in zip(begins, lines, strict=False) if start <= begin < stop
        )
        got = lines_between(io.BytesIO(data), start, stop, size=len(data))
        assert got.to_pybytes() == wanted


def test_a_file_that_has_become_shorter_is_noticed() -> None:
    with pytest.raises(EOFError):
        lines_between(io.BytesIO(b"ab\n"), 0, 10, size=10)
