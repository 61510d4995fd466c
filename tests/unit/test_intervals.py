"""Intervals: how they are written, what they mean, and that codes find all that overlap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.unit.test_edges import FAR, Found, Sides, as_kind, cents, viewed, whole
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.bands import Band
from watersmeet.rows.edges import ByBucketThenKey
from watersmeet.rows.interval_order import ByKeyThenClass
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.on import On
from watersmeet.rows.schema import JoinSchema

LEAST, MOST = -(2**63), 2**63 - 1
Values = list[tuple[Any, Any]]
"""Intervals as two numbers; Python orders them as Spark does, once NaN is `Largest`."""


def partners_of(asked: Overlap, left: Values, right: Values) -> Found:
    """The literal condition, pair by pair."""

    def before(low: Any, high: Any, *, strict: bool) -> bool:
        return bool(low < high) if strict else bool(low <= high)

    return np.array(
        [
            [
                before(start, until, strict=asked.left_open)
                and before(since, end, strict=asked.right_open)
                for since, until in right
            ]
            for start, end in left
        ],
        np.bool_,
    ).reshape(len(left), len(right))


def batch_of(start: pa.Array, end: pa.Array, key: pa.DataType) -> pa.RecordBatch:
    keys = pa.array([n % 3 for n in range(len(start))]).cast(key)
    return pa.record_batch({"k": keys, "s": start, "e": end})


def check_all(asked: Overlap, batches: list[pa.RecordBatch], partners: Found) -> None:
    """Alone, and beside equal keys: found by the codes of either side, whatever is skipped."""
    check(Sides.of(asked, *batches), partners)
    keys = [batch.column("k").to_pylist() for batch in batches]
    same = np.array([[mine == other for other in keys[1]] for mine in keys[0]], np.bool_)
    check(Sides.of(["k", asked], *batches), partners & same)


def check(sides: Sides, partners: Found) -> None:
    for side in Side:
        found = sides.found(side)
        assert not (partners & ~found).any(), f"not within reach of the {side.name}"
        check_blocks(sides, side, partners)
    assert (sides.decided(found) == partners).all(), "decided wrongly"


def check_blocks(sides: Sides, side: Side, partners: Found) -> None:
    """Blocks of a few neighbours in order of their codes: those that have partners are read
    together."""
    cuts, ends = [], []
    for rows, size in ((sides.rows[side], 2), (sides.rows[side.other], 3)):
        order = np.argsort(rows.codes, kind="stable")
        cut = [order[at : at + size] for at in range(0, len(order), size)]
        cuts.append(cut)
        ends.append((rows.codes[[each[0] for each in cut]], rows.codes[[each[-1] for each in cut]]))
    pairs = partners if side is Side.LEFT else partners.T
    for first, last, block in zip(*ends[0], cuts[0], strict=True):
        read = sides.edge.can_meet(side, (np.array([first]), np.array([last])), ends[1])
        needed = np.array([pairs[np.ix_(block, other)].any() for other in cuts[1]], np.bool_)
        assert not (needed & ~read).any(), "partners in a block that is not read"


# ---- codes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A type, with arrays of it from whole numbers."""

    kind: pa.DataType
    array: Callable[[list[int], pa.DataType], pa.Array]
    most: int = MOST


KINDS = {
    "int8": Kind(pa.int8(), whole, 127),
    "int64": Kind(pa.int64(), whole),
    "decimal": Kind(pa.decimal128(18, 2), cents, 10**18 - 1),
    "date": Kind(pa.date32(), viewed, 2**31 - 1),
    "timestamp": Kind(pa.timestamp("us", "UTC"), viewed),
    "long decimals": Kind(pa.decimal128(30, 2), cents),
    "unsigned": Kind(pa.uint64(), lambda steps, kind: pa.array([abs(n) for n in steps], kind)),
}
NEAR = st.integers(-9, 9)
# Where lengths change their class, and where starts begin again, alone and beside a key.
LENGTHS = st.builds(
    lambda bits, near: 2**bits + near, st.integers(0, 63), st.integers(-1, 1)
) | st.integers(-3, 9)
TURNS = st.sampled_from([2**37, 2**38, 2**57, 2**58, -(2**37), -(2**57)])
OPEN = st.tuples(st.booleans(), st.booleans())


COLUMNS = [(("s", "e"), ("s", "e")), (("s", "s"), ("s", "e")), (("s", "e"), ("e", "e"))]
"""Two intervals, a point on the left, a point on the right."""


@pytest.mark.parametrize("name", KINDS)
def test_intervals_of_whole_numbers_are_found(name: str) -> None:
    check_whole_numbers(KINDS[name], settings(max_examples=8))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_more_intervals_of_whole_numbers_are_found(name: str) -> None:
    check_whole_numbers(KINDS[name], settings(max_examples=500))


def check_whole_numbers(kind: Kind, search: settings) -> None:
    least = -kind.most if kind.most != MOST else LEAST

    @search
    @given(
        opened=OPEN, columns=st.sampled_from(COLUMNS),
        anchors=st.lists(NEAR | FAR | TURNS, min_size=1, max_size=2),
        lengths=st.lists(LENGTHS, min_size=2, max_size=4), near=st.lists(NEAR, max_size=3),
    )  # fmt: skip
    @example((False, False), COLUMNS[0], [LEAST, MOST], [MOST, 2**64, 0], [0, 1, -1])
    @example((False, False), COLUMNS[1], [2**57], [2**57, 2**58 - 1, 2**58, 1], [0, 1, -1])
    @example((True, True), COLUMNS[2], [0], [1, 2, 3, 4], [0, 1, 2, 3, 4])
    def found(
        opened: tuple[bool, bool],
        columns: tuple[tuple[str, str], tuple[str, str]],
        anchors: list[int],
        lengths: list[int],
        near: list[int],
    ) -> None:
        sides: list[list[tuple[int, int]]] = [[], []]
        for number, length in enumerate(lengths):
            for anchor in anchors:
                side = sides[number % 2]
                side.append((anchor, anchor + length))
                # Intervals that end or start just where that one does, or beside it.
                sides[1 - number % 2] += [(anchor + length + n, anchor + 2 * length) for n in near]
                sides[1 - number % 2] += [(anchor + n - length, anchor + n) for n in near]
        batches, values = [], []
        for side in sides:
            cut = [
                [min(max(n, least), kind.most) for n in ends] for ends in zip(*side, strict=True)
            ]
            if kind.kind == pa.uint64():
                cut = [[abs(n) for n in ends] for ends in cut]
            arrays = [kind.array(ends, kind.kind) for ends in cut]
            batches.append(batch_of(arrays[0], arrays[1], pa.int32()))
            values.append(list(zip(cut[0], cut[1], strict=True)))
        asked = Overlap(columns[0], columns[1], *opened)
        left, right = (
            [_named(each, names) for each in ends]
            for ends, names in zip(values, columns, strict=True)
        )
        check_all(asked, batches, partners_of(asked, left, right))

    found()


SMALL = [(start, start + length) for start in range(-2, 7) for length in (0, 1, 2, 3, 4, 8, -1, -3)]


def test_small_intervals_are_found() -> None:
    """All that start, end or change their class beside each other."""
    start, end = (pa.array(ends) for ends in zip(*SMALL, strict=True))
    for columns in COLUMNS:
        asked = Overlap(columns[0], columns[1])
        left, right = ([_named(ends, names) for ends in SMALL] for names in columns)
        check_all(asked, [batch_of(start, end, pa.int32())] * 2, partners_of(asked, left, right))


def test_a_block_of_many_classes_or_keys_is_read_for_each() -> None:
    start, end = (pa.array(ends) for ends in zip(*SMALL, strict=True))
    batch = batch_of(start, end, pa.int32())
    asked = wm.overlaps(("s", "e"), ("s", "e"))
    beside: On = ["k", asked]
    for on in (asked, beside):
        sides = Sides.of(on, batch, batch)
        codes = np.sort(sides.rows[0].codes)
        everything = codes[:1], codes[-1:]
        assert sides.edge.can_meet(Side.LEFT, everything, (codes, codes)).all()
        assert sides.edge.can_meet(Side.LEFT, (codes, codes), (codes, codes)).all()
        for code in codes:
            one = np.array([code]), np.array([code])
            assert sides.edge.can_meet(Side.LEFT, one, everything).all()


def test_a_block_with_the_end_of_a_class_and_the_beginning_of_another_is_read() -> None:
    """For a value that only its second, its last or its middle row has to do with."""
    for value, block in (
        (250, [(1000, 1100), (50, 270)]),
        (150, [(1000, 1100), (0, 200), (400, 600)]),
        (1050, [(100, 200), (1000, 1100), (0, 200)]),
        (250, [(900, 901), (50, 270), (2000, 2**20)]),
        (250, [(900, 901), (0, 2**20)]),
    ):
        starts, ends = (pa.array(each) for each in zip(*block, strict=True))
        point = batch_of(pa.array([value]), pa.array([value]), pa.int32())
        sides = Sides.of(wm.between("s", "s", "e"), point, batch_of(starts, ends, pa.int32()))
        partners = [start <= value <= end for start, end in block]
        assert sum(partners) == 1
        check(sides, np.array([partners]))
        mine, others = (each.codes for each in sides.rows)
        assert (np.diff(others.astype(object)) > 0).all()
        one, other = (mine, mine), (others[:1], others[-1:])
        assert sides.edge.can_meet(Side.LEFT, one, other).all()
        assert sides.edge.can_meet(Side.RIGHT, other, one).all()


def test_a_block_from_the_first_code_to_the_last_is_read() -> None:
    """The first start of class 0 and the last one of the last class, with others between them."""
    block = [(-(2**57), -(2**57)), (5, 6), (2**57 - 1, 2**57 + 2**62)]
    starts, ends = (pa.array(each) for each in zip(*block, strict=True))
    one = batch_of(pa.array([6]), pa.array([7]), pa.int32())
    sides = Sides.of(wm.overlaps(("s", "e"), ("s", "e")), one, batch_of(starts, ends, pa.int32()))
    mine, others = (each.codes for each in sides.rows)
    assert [others[0], others[-1]] == [0, 2**64 - 1]
    check(sides, np.array([[False, True, False]]))
    assert sides.edge.can_meet(Side.RIGHT, (others[:1], others[-1:]), (mine, mine)).all()
    assert sides.edge.can_meet(Side.LEFT, (mine, mine), (others[:1], others[-1:])).all()


def test_an_interval_that_lacks_an_end_overlaps_nothing() -> None:
    starts, ends = pa.array([1, None, 3, 4]), pa.array([5, 6, None, 8])
    asked = wm.overlaps(("s", "e"), ("s", "e"))
    for start, end, valid in (
        (starts, ends, [True, False, False, True]),
        (starts.fill_null(2), ends, [True, True, False, True]),
        (starts, ends.fill_null(2), [True, False, True, True]),
    ):
        batch = batch_of(start, end, pa.int32())
        found = Sides.of(asked, batch, batch).rows[0].valid
        assert found is not None
        assert found.tolist() == valid


def _named(ends: tuple[int, int], names: tuple[str, str]) -> tuple[int, int]:
    return ends["se".index(names[0])], ends["se".index(names[1])]


FLOATS = st.sampled_from(
    [0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.1, 0.3, -1.5, 2.0**60]
) | st.floats(-100, 100, width=32)
FLOAT_KINDS = {
    "double": (pa.float64(),) * 4,
    "float": (pa.float32(),) * 4,
    "bigint in doubles": (pa.int64(), pa.int64(), pa.float64(), pa.float64()),
    "doubles and decimals": (pa.float64(), pa.float64(), pa.decimal128(9, 2), pa.float32()),
}


@pytest.mark.parametrize("name", FLOAT_KINDS)
def test_intervals_of_floating_point_numbers_are_found(name: str) -> None:
    check_floats(FLOAT_KINDS[name], settings(max_examples=15))


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOAT_KINDS)
def test_many_more_intervals_of_floating_point_numbers_are_found(name: str) -> None:
    check_floats(FLOAT_KINDS[name], settings(max_examples=500))


def check_floats(kinds: tuple[pa.DataType, ...], search: settings) -> None:

    def ordered(values: pa.Array) -> list[tuple[bool, float]]:
        floats = [float(value) for value in values.to_pylist()]
        return [(value != value, 0.0 if value != value else value) for value in floats]

    @search
    @given(opened=OPEN, ends=st.lists(FLOATS, min_size=2, max_size=10))
    @example((False, False), [math.nan, -math.nan, math.inf, 1.0])
    def found(opened: tuple[bool, bool], ends: list[float]) -> None:
        starts, stops = [*ends, *ends], [*ends[1:], ends[0], *ends]
        arrays = [
            as_kind(values, kind) for values, kind in zip((starts, stops) * 2, kinds, strict=True)
        ]
        batches = [batch_of(arrays[0], arrays[1], pa.string())]
        batches.append(batch_of(arrays[2], arrays[3], pa.string()))
        left, right = (
            list(zip(ordered(pair[0]), ordered(pair[1]), strict=True))
            for pair in (arrays[:2], arrays[2:])
        )
        asked = Overlap(("s", "e"), ("s", "e"), *opened)
        check_all(asked, batches, partners_of(asked, left, right))

    found()


def test_few_that_do_not_overlap_are_looked_at_however_lengths_differ() -> None:
    random = np.random.default_rng(5)

    def side() -> pa.RecordBatch:
        start = random.integers(-(2 * 10**5), 2 * 10**5, 400)
        # Starts of both signs: there is no turn between them.
        length = (10 ** random.uniform(0, 4, 400)).astype(np.int64)
        length[::20] *= -1
        return batch_of(pa.array(start), pa.array(start + length), pa.int64())

    for asked in (wm.overlaps(("s", "e"), ("s", "e")), wm.between("s", "s", "e")):
        beside: On = ["k", asked]
        for on in (asked, beside):
            sides = Sides.of(on, side(), side())
            for end in Side:
                candidates = sides.found(end)
                partners = sides.decided(candidates)
                assert 0 < candidates.sum() < 2.5 * partners.sum()


def test_only_the_classes_that_are_there_are_looked_at() -> None:
    ends = pa.array([3, 9, 2000])
    batch = batch_of(pa.array([1, 5, 7]), ends, pa.int64())
    alone: On = wm.overlaps(("s", "e"), ("s", "e"))
    beside: On = ["k", wm.overlaps(("s", "e"), ("s", "e"))]
    for on in (alone, beside):
        sides = Sides.of(on, batch, batch)
        codes = sides.rows[0].codes
        present = sides.edge.order.classes(codes)
        assert present.bit_count() == 3
        assert len(list(sides.edge.reaches(Side.LEFT, codes, present))) == 3
        assert not list(sides.edge.reaches(Side.LEFT, codes, 0))


def test_a_band_with_two_ends_decides_the_order_beside_an_interval() -> None:
    batch = batch_of(pa.array([1, 5, 7]), pa.array([3, 9, 20]), pa.int64())
    near, asked = Band("s", "s", low=-2, high=2), wm.overlaps(("s", "e"), ("s", "e"))
    assert isinstance(Sides.of(["k", near, asked], batch, batch).edge.order, ByBucketThenKey)
    above = Band("s", "s", low=0)
    assert isinstance(Sides.of(["k", above, asked], batch, batch).edge.order, ByKeyThenClass)
    for band, expected in (
        (near, [(1, 0, 0), (0, 1, 1), (0, 1, 1)]),
        (above, [(1, 0, 0), (0, 1, 0), (0, 1, 1)]),
    ):
        Sides.of([band, asked], batch, batch).check(np.array(expected, np.bool_))


# ---- how they are written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (wm.between("p", "low", "high"), "low <= p <= high"),
        (wm.between("p", ("low", "high"), low_open=True), "low < p <= high"),
        (wm.between(("low", "high"), "p", high_open=True), "low <= p < high"),
        (wm.overlaps(("s", "e"), ("f", "t")), "s to e overlaps f to t"),
        (
            wm.overlaps(("s", "e"), ("f", "t"), open=True),
            "s to e overlaps f to t by more than an end",
        ),
    ],
    ids=str,
)
def test_they_have_words(asked: Overlap, words: str) -> None:
    assert str(asked) == words


@pytest.mark.parametrize(
    "arguments",
    [
        ("p", "low"),
        (("low", "high"), "p", "q"),
        (("a", "b"), ("c", "d")),
        ("p", 3, 4),
        ("p", "low", 5),
    ],
    ids=str,
)
def test_between_says_how_it_is_written(arguments: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"wm\.between\(\"price\", \"low\", \"high\"\)"):
        wm.between(*arguments)


@pytest.mark.parametrize(
    "arguments", [("s", "e"), (("s", "e"), "f"), (("s",), ("f", "t"))], ids=str
)
def test_overlaps_says_how_it_is_written(arguments: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"wm\.overlaps\(\(\"start\", \"end\"\)"):
        wm.overlaps(*arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: wm.between("p", "low", "low"),
        lambda: wm.between(("low", "low"), "p"),
        lambda: wm.overlaps(("s", "s"), ("f", "t")),
        lambda: wm.overlaps(("s", "e"), ("f", "f")),
    ],
)
def test_an_interval_has_two_columns(make: Callable[[], Overlap]) -> None:
    with pytest.raises(InvalidArgument, match="Both ends of an interval are the column"):
        make()


POINTS = pa.schema({"p": pa.int64(), "text": pa.string(), "flag": pa.bool_(), "at": pa.date32()})
RANGES = pa.schema(
    {"low": pa.int64(), "high": pa.int64(), "day": pa.date32(), "name": pa.string(),
     "moment": pa.timestamp("us", "UTC"), "pair": pa.struct({"x": pa.int64()}), "yes": pa.bool_()}
)  # fmt: skip


@pytest.mark.parametrize(
    ("on", "said"),
    [
        (wm.between("p", "low", "nope"), "right input has no column 'nope'"),
        (wm.between("q", "low", "high"), "left input has no column 'q'"),
        (wm.between(("low", "high"), "p"), r'other sides.*wm\.between\("p", \("low", "high"\)\)'),
        (
            wm.overlaps(("low", "high"), ("p", "at")),
            r'wm\.overlaps\(\("p", "at"\), \("low", "high"\)',
        ),
        (wm.between("text", "name", "high"), "'text' is neither a number nor"),
        (wm.between("p", "low", "name"), "There is no interval of 'p'"),
        (wm.between("flag", "yes", "high"), "'flag' is neither a number nor"),
        (wm.between("p", "pair", "high"), "struct"),
        (wm.between("p", "day", "high"), "There is no interval of 'day' .* and 'p'"),
        (wm.between("at", "day", "moment"), "time zone"),
    ],
    ids=str,
)
def test_columns_that_cannot_be_compared_are_refused(on: Overlap, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        JoinSchema.resolve(POINTS, RANGES, on)


def test_each_comparison_has_the_type_that_spark_has_for_it() -> None:
    """The largest bigint is not above its neighbour as a double, and is so as a bigint."""
    batch = pa.record_batch({"p": pa.array([MOST, MOST - 1])})
    bounds = pa.record_batch({"low": pa.array([MOST]), "high": pa.array([float(MOST)])})
    sides = Sides.of(wm.between("p", "low", "high"), batch, bounds)
    sides.check(np.array([[True], [False]]))


def test_decimals_with_too_many_digits_together_are_compared_pair_by_pair() -> None:
    left = pa.record_batch({"p": pa.array([5, 6], pa.int32())})
    right = pa.record_batch(
        {
            "low": pa.array([Decimal(5)], pa.decimal128(38, 0)),
            "high": pa.array([Decimal("5.5")], pa.decimal128(20, 18)),
        }
    )
    sides = Sides.of(wm.between("p", "low", "high"), left, right)
    sides.check(np.array([[True], [False]]))
