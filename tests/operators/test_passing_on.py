"""Which promises joins pass on: the paper's examples, all types, two joins in a row, mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.contract.test_planted_bugs import Bug
from tests.operators.promised_model import Player
from tests.operators.test_promised import NEWS, ONE_TO_MANY, READS, Found, news, reads, rows_there
from tests.operators.test_promised import resources as few_rows
from watersmeet.errors import StateError
from watersmeet.model import Side
from watersmeet.operators.family import make_promised, restore_promised
from watersmeet.operators.progressive import join as progressive
from watersmeet.operators.promised.join import PromisedJoin
from watersmeet.promises.marked import MarkedOutput
from watersmeet.promises.passing import Passing
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing.schedule import StateFolder

L, R = Side


class Marked:
    """A join whose sources promise something, and its result with marker rows."""

    def __init__(
        self, left: pa.Schema, right: pa.Schema, on: Any, promises: list[Any], directory: Path,
        *, how: str = "inner", purge: str | int = "memory",
    ) -> None:  # fmt: skip
        self.schema = JoinSchema.resolve(left, right, on, how)
        self.output = MarkedOutput.of(self.schema, promises, "is_marker")
        self.join = make_promised(
            "rpj", self.schema, promises, **few_rows(directory), purge=purge,
            passed_on=self.output.subjects,
        )  # fmt: skip

    def push(self, side: Side, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [*self.rows(self.join.push(side, batch))]

    def rows(self, found: Iterator[Matches]) -> Iterator[pa.RecordBatch]:
        for matches in found:
            yield self.output.rows(self.schema.materialise(matches))
        markers = self.output.markers(self.join.pass_on())
        if markers is not None:
            yield markers

    def told(self, side: Side, batch: pa.RecordBatch, column: str) -> list[Any]:
        """The values of which marker rows speak after a batch."""
        return values_told(self.push(side, batch), column)

    def finish(self) -> list[pa.RecordBatch]:
        ended = [batch for side in Side for batch in self.rows(self.join.end(side))]
        ended += self.rows(self.join.finish())
        self.join.close()
        return ended


def values_told(batches: list[pa.RecordBatch], column: str) -> list[Any]:
    rows = [row for batch in batches for row in batch.to_pylist() if row["is_marker"]]
    return [row[column] for row in rows]


# ---- the paper ----------------------------------------------------------------------------------


def test_a_punctuation_of_the_many_is_passed_on_when_the_one_has_gone(tmp_path: Path) -> None:
    """The substream of section 6.1, with its P(3) and P(4): news 3 comes before its accesses, and
    news 4 after all of them (1-NP)."""
    marked = Marked(NEWS, READS, "sno", ONE_TO_MANY, tmp_path)
    assert marked.output.pattern == {"sno": "equal"}
    assert marked.push(L, news(3, 5, 7, 9, 12)) == []
    before = [(n, 1) for n in (9, 12, 5, 11, 7, 4, 12, 6, 4, 7, 3, 12)]
    batches = marked.push(R, reads(*before, (3, None)))
    assert values_told(batches, "sno") == [3]
    assert batches[-1].column("is_marker").to_pylist() == [True], "after the rows that it follows"
    after = [(n, 2) for n in (5, 11, 10, 7, 4, 7, 4, 9, 12)]
    # Accesses of news 4 wait: results with 4 are still to come, though none of its accesses are.
    assert marked.told(R, reads(*after, (4, None), (8, 2)), "sno") == []
    # Some of them were spilled: the marker waits for their results.
    batches = marked.push(L, news(4))
    for call in (marked.join.settle, marked.join.tidy, marked.join.tidy):
        batches += marked.rows(call())
    assert sum(len(each) for each in batches) == 4 + 1
    assert batches[-1].column("is_marker").to_pylist() == [True]
    assert values_told(batches, "sno") == [4]


def test_of_many_to_many_both_punctuations_are_waited_for(tmp_path: Path) -> None:
    """Section 4.2: "once a punctuation arrives from ISa, the corresponding punctuation would be
    expected from ISb"; and a value that one input never had is past when it says so (N-NP)."""
    both = [wm.punctuated(side, "over", {"sno": "equal"}) for side in ("left", "right")]
    marked = Marked(READS, READS, "sno", both, tmp_path)
    assert marked.told(L, reads((1, 1), (1, 2), (1, None)), "sno") == []
    assert marked.told(R, reads((1, 3)), "sno") == []
    assert marked.told(R, reads((1, 4), (1, None)), "sno") == [1]
    assert marked.told(L, reads((2, None)), "sno") == [2]
    assert marked.told(R, reads((2, None)), "sno") == [], "once"


def test_clusters_and_orders_are_passed_on_as_they_end(tmp_path: Path) -> None:
    """Sections 4.3 and 5.4: 1-NC, and ordered arrival as a special case of it."""
    marked = Marked(NEWS, READS, "sno", [wm.unique("left"), wm.clustered("right")], tmp_path)
    marked.push(L, news(1, 2, 3))
    assert marked.told(R, reads((2, 1), (2, 2)), "sno") == []
    assert marked.told(R, reads((1, 1)), "sno") == [2]
    ordered = [wm.ordered(side, "sno") for side in ("left", "right")]
    marked = Marked(NEWS, READS, "sno", ordered, tmp_path)
    assert marked.output.pattern == {"sno": (None, "sno")}
    marked.push(L, news(1, 4, 7))
    assert marked.told(R, reads((4, 1)), "sno") == [3], "no more left ones below 7: but 4 waits"
    assert marked.told(R, reads((6, 1)), "sno") == [6], "and 6 cannot come any more on the left"


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_rows_without_a_partner_come_before_the_marker(how: str, tmp_path: Path) -> None:
    both = [wm.punctuated(side, "over", {"sno": "equal"}) for side in ("left", "right")]
    marked = Marked(READS, READS, "sno", both, tmp_path, how=how)
    told = marked.told(L, reads((1, 1), (2, 2), (1, None)), "sno")
    assert told == []
    batches = marked.push(R, reads((1, None), (2, None), (3, 3)))
    lone = [row["sno"] for each in batches for row in each.to_pylist() if not row["is_marker"]]
    assert lone == ([] if how in ("right", "semi") else [1, 2])
    # Left rows with 2 may still come, which only some of these joins would report.
    assert sorted(values_told(batches, "sno")) == (
        [1] if how in ("left", "full", "anti") else [1, 2]
    )
    assert marked.told(L, reads((3, None)), "sno") == ([] if how in ("right", "full") else [3])


def test_in_a_band_each_column_passes_on_its_own_times(tmp_path: Path) -> None:
    events = pa.schema({"id": pa.int64(), "at": pa.timestamp("s", "UTC")})
    promises = [wm.watermark(side, "at", "2 seconds") for side in ("left", "right")]
    on: Any = ["id", wm.within("at", "5 seconds")]
    marked = Marked(events, events, on, promises, tmp_path)
    assert marked.output.pattern == {"at": (None, "at"), "at_right": (None, "at_right")}

    def came(second: int) -> pa.RecordBatch:
        times = pa.array([second], pa.int64()).cast(pa.timestamp("s", "UTC"))
        return pa.RecordBatch.from_arrays([pa.array([1]), times], schema=events)

    def told(batches: list[pa.RecordBatch]) -> list[tuple[Any, Any]]:
        rows = [row for each in batches for row in each.to_pylist() if row["is_marker"]]
        assert all(row["id"] is None for row in rows)
        seconds = [[row[name] and row[name].timestamp() for name in TIMES] for row in rows]
        return [(at, at_right) for at, at_right in seconds]

    # Up to 2 seconds before the latest time, or up to a row that waits.
    assert told(marked.push(L, came(100))) == [(97, None)]
    assert told(marked.push(R, came(103))) == [(None, 100)]
    assert told(marked.push(L, came(120))) == [(99, None)], "100 waits for times up to 105"
    # All left rows go: right ones come from 128 on, and 120 waits for times up to 125.
    assert told(marked.push(R, came(130))) == [(117, None), (None, 127)]


TIMES = ("at", "at_right")

# ---- types --------------------------------------------------------------------------------------

TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 0, 127]),
    (pa.uint16(), [0, 65535]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.bool_(), [False, True]),
    (pa.float64(), [-0.5, float("-inf"), 1e300]),
    (pa.float32(), [-0.5, 0.25]),
    (pa.date32(), [date(1960, 1, 2), date(2030, 5, 6)]),
    (pa.time64("us"), [time(1, 2, 3, 4)]),
    (pa.timestamp("ms"), [datetime(1969, 1, 1, 0, 0, 0, 1000), datetime(2024, 2, 29)]),
    (pa.duration("s"), [timedelta(seconds=-5)]),
    (pa.decimal128(9, 2), [Decimal("-1.25"), Decimal("3.00")]),
    (pa.decimal128(18, 4), [Decimal("-12345678901234.5678")]),
    (pa.string(), ["", "a", "sevenby", "ä"]),
    (pa.binary(), [b"\x00", b"\xff\xfe"]),
    (pa.dictionary(pa.int32(), pa.string()), ["x", "y"]),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_values_come_back_from_codes(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    """As they came, alone and as part of a key of two columns that fits 64 bits."""
    columns = pa.schema({"k": kind, "n": pa.int8(), "over": pa.bool_()})
    rows = [{"k": value, "n": -3, "over": True} for value in values]
    batch = pa.RecordBatch.from_pylist(rows, columns)
    for on in (["k"], ["n", "k"]):
        promises = [wm.punctuated("left", "over", dict.fromkeys(on, "equal"))]
        marked = Marked(columns, columns, on, promises, tmp_path)
        if len(on) == 2 and not marked.schema.equal.codes_decide:
            assert marked.push(L, batch) == []
            marked.join.close()
            continue
        (told,) = marked.push(L, batch)
        assert told.schema.field("k").type == marked.schema.output.field("k").type
        key = lambda value: str(value)  # noqa: E731
        assert sorted(told.column("k").to_pylist(), key=key) == sorted(values, key=key)
        assert told.column("n").to_pylist() == (
            [-3] * len(values) if len(on) == 2 else [None] * len(values)
        )
        marked.join.close()


@pytest.mark.parametrize("ascending", [True, False])
def test_an_order_of_numbers_with_fractions_is_never_passed_on_too_far(
    ascending: bool, tmp_path: Path
) -> None:
    columns = pa.schema({"x": pa.float32()})
    marked = Marked(columns, columns, "x", [wm.ordered("left", "x", ascending)], tmp_path)
    assert marked.output.pattern == {"x": (None, "x") if ascending else ("x", None)}
    batch = pa.record_batch(
        [pa.array([1.5, 0.1], pa.float32()).take([1, 0] if ascending else [0, 1])], ["x"]
    )
    (told,) = marked.told(L, batch, "x")
    last = np.float32(0.1 if ascending else 1.5)  # The rows wait for partners, and hold it back.
    assert told == np.nextafter(last, np.float32(-np.inf if ascending else np.inf))


# ---- bounded, saved, chained --------------------------------------------------------------------


def test_a_second_join_is_bounded_by_what_the_first_passes_on(tmp_path: Path) -> None:
    """News and accesses, and then what was read with the advertisements beside it."""
    first = Marked(NEWS, READS, "sno", ONE_TO_MANY, tmp_path)
    shown = pa.schema({"sno": pa.int64(), "advertisement": pa.int64()})
    chain: list[Any] = [
        wm.punctuated("left", "is_marker", first.output.pattern),
        wm.ordered("right", "sno", slack=3),
    ]
    schema = JoinSchema.resolve(first.output.schema, shown, "sno", "left")
    second = make_promised("rpj", schema, chain, **few_rows(tmp_path), purge="memory")
    found, expected = Found(schema), 0
    for turn in range(30):
        batches = first.push(L, news(turn))
        accesses = [(sno, turn) for sno in range(max(turn - 2, 0), turn + 1)]
        over = [(turn - 2, None)] if turn >= 2 else []
        batches += first.push(R, reads(*accesses, *over))
        expected += len(accesses)
        for batch in batches:
            found.take(second.push(L, batch))
        found.take(
            second.push(R, pa.record_batch({"sno": [turn], "advertisement": [turn]}, schema=shown))
        )
        found.take(second.tidy())
        # The advertisements of news that are still read, and what was read of the last four.
        assert rows_there(second) <= 4 + 3 * 4
        assert rows_there(first.join) <= 4
    for batch in first.finish():
        found.take(second.push(L, batch))
    for side in Side:
        found.take(second.end(side))
    found.take(second.finish())
    assert sum(found.rows.values()) == expected
    assert all(row[0] == row[-1] for row in found.rows), "each with the advertisement of its news"
    second.close()


def test_what_is_remembered_stays_small(tmp_path: Path) -> None:
    both = [wm.punctuated(side, "over", {"sno": "equal"}) for side in ("left", "right")]
    marked = Marked(READS, READS, "sno", both, tmp_path)
    for turn in range(50):
        for side in Side:
            marked.push(side, reads((turn, 1), (turn, None)))
    assert marked.join.passing is not None
    saved = marked.join.passing.save()
    assert not marked.join.passing.waits
    assert [len(ranges) for _, _, ranges in saved["heard"]] == [1, 1]
    keys = pa.schema({"a": pa.int32(), "b": pa.int32(), "over": pa.bool_()})
    two = [wm.punctuated(side, "over", {"a": "equal", "b": "equal"}) for side in ("left", "right")]
    marked = Marked(keys, keys, ["a", "b"], two, tmp_path)
    for turn in range(10):
        batch = pa.record_batch({"a": [turn], "b": [-turn], "over": [True]}, schema=keys)
        assert marked.told(L, batch, "b") == [-turn]
        assert marked.told(R, batch, "b") == []
    assert marked.join.passing is not None
    assert marked.join.passing.save()["heard"] == [], (
        "hashes have no neighbours: they are forgotten"
    )


def test_a_state_without_punctuations_cannot_go_on_with_them(tmp_path: Path) -> None:
    schema = JoinSchema.resolve(NEWS, READS, "sno")
    area = StateFolder(tmp_path / "state")
    join = make_promised("rpj", schema, ONE_TO_MANY, **few_rows(tmp_path))
    manifest = join.save(area)
    join.close()
    subjects = MarkedOutput.of(schema, ONE_TO_MANY, "m").subjects
    with pytest.raises(StateError, match="passes no punctuations on"):
        restore_promised(
            "rpj", schema, ONE_TO_MANY, area=area, manifest=manifest, passed_on=subjects,
            **few_rows(tmp_path),
        )  # fmt: skip


def test_rows_that_are_dropped_when_they_come_are_counted(tmp_path: Path) -> None:
    """Section 4.3: on-the-fly dropping, and purging."""
    marked = Marked(NEWS, READS, "sno", ONE_TO_MANY, tmp_path)
    marked.push(L, news(1))
    marked.push(R, reads((1, 1), (1, 2), (1, None), (2, 1)))
    metrics = marked.join.metrics
    # Both accesses of 1 met their only partner. News 1 had been kept, and 2 is.
    assert (metrics.dropped_on_arrival, metrics.rows_purged, rows_there(marked.join)) == (2, 1, 1)


# ---- mistakes made on purpose -------------------------------------------------------------------

# Each with the type of the join that notices it.
BUGS = {
    "what is kept holds nothing back": Bug(
        "inner", (Passing, "_let_go"), "_outside(held, kept(side, number, held))", "held"
    ),
    "what is spilled is forgotten": Bug(
        "inner", (progressive, "kept_codes"), "found.append(spans)", "pass"
    ),
    "one side is enough for a full join": Bug(
        "full",
        (Passing, "_passed"),
        "self._done(s.other, subject.number, new[s]) for s in Side",
        "new[s] for s in Side",
    ),
    "either side is enough for an outer join": Bug(
        "left",
        (Passing, "_passed"),
        "elif subject.alone or len(subject.sides) == 1:",
        "elif len(subject.sides) == 1:",
    ),
    "an order is passed on beyond what is held back": Bug(
        "inner", (Passing, "_done"), "_outside(promised, self._held.of(side, number))", "promised"
    ),
    "what was held back is lost over a restart": Bug(
        "inner", (Passing, "load"), 'self._held = Promises.load(saved["held"])', "pass"
    ),
    "promises are not heard": Bug(
        "inner", (PromisedJoin, "punctuate"), "self.passing.hear(Side(input), promise)", "pass"
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_model_notices(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        play_some(BUGS[name].algorithm, tmp_path)


def play_some(how: str, directory: Path) -> None:
    test_a_punctuation_of_the_many_is_passed_on_when_the_one_has_gone(directory)
    for seed in range(12):
        Player(seed, "equal", how, directory / str(seed)).play(turns=25)
