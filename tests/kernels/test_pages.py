"""Pages that Snappy made: the bytes that Arrow makes of them, or nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.kernels import pages

SNAPPY = pa.Codec("snappy")
GUARD = 64
_RANDOM = np.random.default_rng(3)

CONTENTS = {
    "nothing": b"",
    "one byte": b"x",
    "a run of one byte": b"x" * 5000,
    "a run of three bytes": b"abc" * 4000,
    "no two alike": _RANDOM.bytes(70_000),
    "keys that rise": np.arange(1_000, 9_000, dtype=np.int64).tobytes(),
    "prices": _RANDOM.integers(90_000, 10_500_000, 40_000).tobytes(),
    "few prices": _RANDOM.integers(90_000, 90_300, 9_000).tobytes(),
    "days": _RANDOM.integers(8_000, 10_500, 9_000).astype(np.int32).tobytes(),
    "doubles": _RANDOM.gamma(2.0, 20.0, 9_000).round(2).tobytes(),
    "text": b"".join(b"order %d of %d; " % (n, n * n % 97) for n in range(4_000)),
    "far apart": _RANDOM.bytes(66_000) * 2,
}


def _inflated(stored: bytes, size: int) -> tuple[int, bytes]:
    """What is returned, and the bytes. Nothing is written before or behind them."""
    around: NDArray[np.uint8] = np.full(size + 2 * GUARD, 0xA5, np.uint8)
    written = pages.inflate(np.frombuffer(stored, np.uint8), around[GUARD : GUARD + size])
    assert (around[:GUARD] == 0xA5).all()
    assert (around[GUARD + size :] == 0xA5).all()
    return written, around[GUARD : GUARD + size].tobytes()


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_snappy_is_inflated(content: bytes) -> None:
    stored = SNAPPY.compress(content, asbytes=True)
    assert _inflated(stored, len(content)) == (len(content), content)


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=70), st.integers(1, 40)), min_size=1, max_size=60
    )
)
def test_whatever_repeats(parts: list[tuple[bytes, int]]) -> None:
    content = b"".join(part * times for part, times in parts)
    stored = SNAPPY.compress(content, asbytes=True)
    assert _inflated(stored, len(content)) == (len(content), content)


@pytest.mark.parametrize("other", [-1, 1])
def test_another_size_than_expected_is_refused(other: int) -> None:
    content = CONTENTS["few prices"]
    written, _ = _inflated(SNAPPY.compress(content, asbytes=True), len(content) + other)
    assert written == -1


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\x80",
        b"\x80" * 12,
        b"\x08\x1chalf",  # a literal of eight bytes, of which there are four
        b"\x08\xf4\x07\x00\x00\x00ab",
        b"\x08\xfc\xff\xff\xff\xff",  # a literal of four billion
        b"\x08\x00a\x01",  # a copy without its offset
        b"\x08\x00a\x0d\x02",  # from before the beginning
        b"\x08\x00a\x0d\x00",  # from where it goes
        b"\x08\x00a\x1d\x01",  # of more than there is room for
        b"\x08\x00a",
    ],
)
def test_what_is_no_snappy_is_refused(stored: bytes) -> None:
    assert _inflated(stored, 8)[0] == -1


@given(st.data())
def test_damaged_bytes_stay_inside(data: st.DataObject) -> None:
    """And what is taken for whole is what Arrow makes of it."""
    content = data.draw(st.sampled_from([CONTENTS["prices"][:4000], CONTENTS["text"][:4000]]))
    stored = bytearray(SNAPPY.compress(content, asbytes=True))
    for _ in range(data.draw(st.integers(1, 5))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    stored = stored[: data.draw(st.integers(1, len(stored)))]
    written, found = _inflated(bytes(stored), len(content))
    if written >= 0:
        assert SNAPPY.decompress(bytes(stored), len(content), asbytes=True) == found
