"""Spark's hash is XXH64 of each value's bytes, seeded by the hash of the values before it."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.kernels import spark_hash

NO_NULLS = np.empty(0, np.bool_)
seeds = st.integers(0, 2**64 - 1)


def seeded(seed: int, rows: int) -> NDArray[np.uint64]:
    return np.full(rows, seed, np.uint64)


def expected(seed: int, values: list[bytes], present: list[bool]) -> list[int]:
    return [
        xxhash.xxh64_intdigest(value, seed) if there else seed
        for value, there in zip(values, present, strict=True)
    ]


@given(seed=seeds, rows=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.booleans())))
def test_ints_are_four_bytes(seed: int, rows: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in rows], np.int32)
    present = [there for _, there in rows]
    hashes = seeded(seed, len(rows))
    spark_hash.take_ints(hashes, values, np.array(present, np.bool_))
    assert hashes.tolist() == expected(seed, [value.tobytes() for value in values], present)


@given(seed=seeds, rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.booleans())))
def test_longs_are_eight_bytes(seed: int, rows: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in rows], np.int64)
    present = [there for _, there in rows]
    hashes = seeded(seed, len(rows))
    spark_hash.take_longs(hashes, values, np.array(present, np.bool_))
    assert hashes.tolist() == expected(seed, [value.tobytes() for value in values], present)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@given(
    seed=seeds, rows=st.lists(st.tuples(st.binary(max_size=100), st.booleans())), before=st.binary()
)
def test_texts_are_their_bytes(
    kind: type[np.int32], seed: int, rows: list[tuple[bytes, bool]], before: bytes
) -> None:
    values, present = [value for value, _ in rows], [there for _, there in rows]
    data = np.frombuffer(before + b"".join(values), np.uint8)
    offsets = np.cumsum([len(before), *map(len, values)]).astype(kind)
    hashes = seeded(seed, len(rows))
    spark_hash.take_bytes(hashes, data, offsets, np.array(present, np.bool_))
    assert hashes.tolist() == expected(seed, values, present)


def as_java_has_it(value: int) -> bytes:
    """`BigInteger.toByteArray`: one bit for the sign beside those of the number."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


# Numbers of every length, and both sides of where one more byte is needed.
edges = st.builds(
    lambda sign, bits, off: sign * 2**bits + off,
    st.sampled_from([-1, 1]),
    st.integers(0, 126),
    st.integers(-2, 1),
)


@given(
    seed=seeds,
    rows=st.lists(st.tuples(edges | st.integers(-(2**127), 2**127 - 1), st.booleans())),
)
def test_wide_decimals_are_as_few_bytes_as_hold_them(
    seed: int, rows: list[tuple[int, bool]]
) -> None:
    values, present = [value for value, _ in rows], [there for _, there in rows]
    data = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    hashes = seeded(seed, len(rows))
    spark_hash.take_decimals(hashes, np.frombuffer(data, np.uint8), 16, np.array(present, np.bool_))
    assert hashes.tolist() == expected(seed, [as_java_has_it(value) for value in values], present)


@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(1, 2**31 - 1) | st.sampled_from([1, 2, 64]))
def test_the_instance_is_the_remainder_of_a_signed_hash(hashes: list[int], instances: int) -> None:
    assigned = spark_hash.instance_of(np.array(hashes, np.uint64), instances)
    signed = [value - 2**64 if value >= 2**63 else value for value in hashes]
    assert assigned.tolist() == [value % instances for value in signed]


@given(instances=st.integers(1, 9), data=st.data())
def test_groups_keep_the_order_of_their_rows(instances: int, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, instances - 1)))
    assigned = np.array(chosen, np.int32)
    order, offsets = spark_hash.group_by_instance(assigned, instances)
    groups = np.split(order, offsets[1:-1])
    assert offsets[0] == 0
    assert offsets[-1] == len(chosen)
    assert [group.tolist() for group in groups] == [
        np.flatnonzero(assigned == instance).tolist() for instance in range(instances)
    ]


def test_no_mask_means_no_nulls() -> None:
    values = np.arange(5)
    some, every = seeded(42, 5), seeded(42, 5)
    spark_hash.take_longs(some, values, NO_NULLS)
    spark_hash.take_longs(every, values, np.ones(5, np.bool_))
    assert some.tolist() == every.tolist()
