"""Joins whose sources promise, in values, what they will not send any more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.contract.test_planted_bugs import Bug
from watersmeet.errors import InvalidArgument, PromiseBroken
from watersmeet.model import Side
from watersmeet.operators.family import make_promised, restore_promised
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.promised.join import PromisedJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.promises.keeper import Broken
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import StateFolder

L, R = Side
NEWS = pa.schema({"sno": pa.int64(), "title": pa.string()})
READS = pa.schema({"sno": pa.int64(), "who": pa.int64(), "over": pa.bool_()})
ONE_TO_MANY: list[PromiseOfValues] = [
    wm.unique("left"),
    wm.punctuated("right", "over", {"sno": "equal"}),
]
FEW_ROWS = Tuning(partitions=2, costs=Costs(random=0.01, sequential=0.001), memory_rows=12)


def resources(directory: Path) -> dict[str, Any]:
    return {"memory": MemoryAccount(2**26), "spill": SpillArea(directory), "tuning": FEW_ROWS}


def rows_there(join: PromisedJoin) -> int:
    assert isinstance(join.inner, ProgressiveJoin)
    workspace = join.inner.workspace
    return sum(map(len, workspace.memory.tables)) + int(workspace.expected.on_disk.sum())


class Found:
    def __init__(self, schema: JoinSchema) -> None:
        self._schema = schema
        self.rows: Counter[tuple[Any, ...]] = Counter()

    def take(self, matches: Iterator[Matches]) -> None:
        for each in matches:
            columns = self._schema.materialise(each).to_pydict().values()
            self.rows.update(zip(*columns, strict=True))


def reads(*rows: tuple[int, int | None]) -> pa.RecordBatch:
    """Accesses (item, user); no user: a punctuation."""
    columns = {
        "sno": [sno for sno, _ in rows],
        "who": [who for _, who in rows],
        "over": [who is None for _, who in rows],
    }
    return pa.RecordBatch.from_pydict(columns, READS)


def news(*items: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"sno": items, "title": [f"n{n}" for n in items]}, NEWS)


@pytest.mark.parametrize("purge", ["memory", "output_rate", 3])
@pytest.mark.parametrize("how", ["inner", "full"])
def test_one_to_many_with_punctuations(how: str, purge: str | int, tmp_path: Path) -> None:
    """The running example (MJoin, sections 2 and 5.3): some items are published before and some
    after they are read; what is over leaves nothing behind."""
    schema = JoinSchema.resolve(NEWS, READS, "sno", how)
    settings: dict[str, Any] = {"purge": purge, "on_broken": "drop"}
    join = make_promised("rpj", schema, ONE_TO_MANY, **resources(tmp_path), **settings)
    found, area, expected = Found(schema), StateFolder(tmp_path / "state"), Counter[Any]()
    for turn in range(30):
        early = turn % 2 == 0
        if early:
            found.take(join.push(L, news(turn)))
        accesses = [(sno, 10 * turn + sno) for sno in range(max(turn - 2, 0), turn + 1)]
        over = [(turn - 2, None)] if turn >= 2 else []
        found.take(join.push(R, reads(*accesses, *over)))
        expected.update((sno, f"n{sno}", who, False) for sno, who in accesses)
        if not early:
            found.take(join.push(L, news(turn)))
        found.take(join.push(R, reads((turn - 5, 1))) if turn >= 5 else iter(()))  # broken
        found.take(join.settle())
        found.take(join.tidy())
        assert rows_there(join) <= 4
        manifest = json.loads(json.dumps(join.save(area)))
        if turn % 4 == 3:
            join.close()
            join = restore_promised(
                "rpj", schema, ONE_TO_MANY, area=area, manifest=manifest,
                **resources(tmp_path), **settings,
            )  # fmt: skip
    assert sum(join.broken.values()) == join.metrics.broken_promises == 25
    for side in Side:
        found.take(join.end(side))
    found.take(join.finish())
    assert found.rows == expected
    join.close()


def test_a_broken_promise_fails_or_is_set_aside(tmp_path: Path) -> None:
    schema = JoinSchema.resolve(NEWS, READS, "sno")
    aside: list[Broken] = []
    for on_broken in ("fail", "quarantine"):
        join = make_promised(
            "rpj", schema, ONE_TO_MANY, **resources(tmp_path), on_broken=on_broken,
            set_aside=aside.append,
        )  # fmt: skip
        list(join.push(R, reads((79, 1), (79, None))))
        late = join.push(R, reads((79, 2)))
        if on_broken == "fail":
            with pytest.raises(PromiseBroken, match="79"):
                list(late)
        else:
            list(late)
        join.close()
    assert [each.rows.to_pylist() for each in aside] == [[{"sno": 79, "who": 2, "over": False}]]


EVENTS = pa.schema({"id": pa.int64(), "at": pa.timestamp("us")})
WATERMARKS = [wm.watermark("left", "at", "3 seconds"), wm.watermark("right", "at", "3 seconds")]


def events(*rows: tuple[int, int]) -> pa.RecordBatch:
    times = [timedelta(seconds=at) // timedelta(microseconds=1) for _, at in rows]
    columns = [pa.array([id for id, _ in rows]), pa.array(times).cast(pa.timestamp("us"))]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def test_an_interval_join_holds_band_and_delay_and_says_no_match_once(tmp_path: Path) -> None:
    """Each second a row comes on either side, some up to 3 seconds late; the band is 5 seconds."""
    on: Any = ["id", wm.within("at", "5 seconds")]
    schema = JoinSchema.resolve(EVENTS, EVENTS, on, "left")
    join = make_promised("rpj", schema, WATERMARKS, **resources(tmp_path), purge="memory")
    found = Found(schema)
    sent: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for second in range(120):
        for side in Side:
            alone = side is L and second % 5 == 0
            row = (1000 + second if alone else second % (4 + side), second - second % 3)
            sent[side].append(row)
            found.take(join.push(side, events(row)))
        found.take(join.settle())
        found.take(join.tidy())
        # A row stays until the other side's latest time is past its own by band and delay.
        assert rows_there(join) <= 2 * (5 + 3 + 3)
    answered = sum(found.rows.values())
    pairs = [
        (mine, other)
        for mine in sent[L]
        for other in sent[R]
        if mine[0] == other[0] and abs(mine[1] - other[1]) <= 5
    ]
    lone = set(sent[L]) - {mine for mine, _ in pairs}
    assert len(lone) > 20
    assert answered >= len(pairs) + sum(row in lone and row[1] < 105 for row in sent[L])
    for side in Side:
        found.take(join.end(side))
    found.take(join.finish())
    assert sum(found.rows.values()) == len(pairs) + sum(row in lone for row in sent[L])
    join.close()


def test_an_algorithm_without_use_for_promises_is_refused(tmp_path: Path) -> None:
    schema = JoinSchema.resolve(NEWS, READS, "sno")
    with pytest.raises(InvalidArgument, match=r"'diner' can make no use of promises.*rpj"):
        make_promised("diner", schema, ONE_TO_MANY, **resources(tmp_path))
    with pytest.raises(InvalidArgument, match="does not say when to purge"):
        make_promised("rpj", schema, ONE_TO_MANY, **resources(tmp_path), purge="never")


KINDS: dict[str, list[PromiseOfValues]] = {
    "clustered (1-NC)": [wm.unique("left"), wm.clustered("right")],
    "ordered": [wm.ordered(side, "sno") for side in ("left", "right")],
    "punctuated on both sides": [
        wm.punctuated(side, "over", {"sno": "equal"}) for side in ("left", "right")
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_past_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    """Two left rows of each number, or one if they are unique, and three right ones, a turn later
    in every other turn; and a number that only the right side has."""
    schema = JoinSchema.resolve(READS, READS, "sno", "full")
    join = make_promised("rpj", schema, KINDS[kind], **resources(tmp_path), purge="memory")
    found, many = Found(schema), 1 if "1-NC" in kind else 2
    for turn in range(40):
        over = [(2 * turn, None), (2 * turn + 1, None)] if kind.startswith("punct") else []
        mine = reads(*[(2 * turn, n) for n in range(many)], *over)
        others = reads(*[(2 * turn, n) for n in range(3)], (2 * turn + 1, 9), *over)
        arrivals = [(L, mine), (R, others)]
        for side, batch in arrivals if turn % 2 else reversed(arrivals):
            found.take(join.push(side, batch))
        found.take(join.settle())
        found.take(join.tidy())
        # What the last turn brought, and with unique keys also numbers that the left never has.
        alone = turn + 1 if "1-NC" in kind else 0
        assert rows_there(join) <= many + 4 + alone
    for side in Side:
        found.take(join.end(side))
    found.take(join.finish())
    assert sum(found.rows.values()) == 40 * (3 * many + 1)
    join.close()


# ---- mistakes made on purpose -------------------------------------------------------------------

BUGS = {
    "a promise is applied before the rows of its batch": Bug(
        "rpj",
        (PromisedJoin, "push"),
        "yield from self.inner.push(input, heard.rows)",
        "yield from (m for s, p in heard.promises for m in self.punctuate(s, p)); "
        "yield from self.inner.push(input, heard.rows)",
    ),
    "what was promised is not checked any more after a restart": Bug(
        "rpj",
        (PromisedJoin, "load"),
        'self.keeper.load(saved["keeper"])',
        "pass",
    ),
    "promises are checked and not told": Bug(
        "rpj",
        (PromisedJoin, "push"),
        "yield from self.punctuate(side, promise)",
        "yield from ()",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_these_tests_notice(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_one_to_many_with_punctuations("full", "memory", tmp_path)
