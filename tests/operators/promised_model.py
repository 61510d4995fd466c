"""Joins with promises against a model that keeps everything, row by row, in plain Python.

A random stream is played to a `PromisedJoin` between random saves, restores, stalls and changes of
memory. The model knows which rows break a promise; which rows may still find a partner, so that
they may be kept; and with which values the result is done, so that it must have said so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import watersmeet as wm
from tests.operators.test_promised import resources, rows_there
from tests.promises.model import Model, rank
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import make_promised, restore_promised
from watersmeet.operators.promised.join import sides_with_one_partner
from watersmeet.promises.kinds import Clustered, Ordered, Punctuated, Unique, Watermark
from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing.schedule import StateFolder

L, R = Side
Row = dict[str, Any]
FAR = 1000
"""Less than all values by so much, and more than all."""
WIDTH = 3


@dataclass(frozen=True)
class Kind:
    """What rows are joined on."""

    on: Any
    keys: tuple[tuple[str, str], ...]
    band: bool = False
    times: bool = False
    """Whether `t` is a time, and not a whole number."""


KINDS = {
    "equal": Kind(["k"], (("k", "k"),)),
    "names": Kind([("k", "t")], (("k", "t"),)),
    "two columns": Kind(["k", "t"], (("k", "k"), ("t", "t"))),
    "band": Kind(["k", wm.within("t", WIDTH)], (("k", "k"),), band=True),
    "times": Kind(
        ["k", wm.within("t", timedelta(seconds=WIDTH))], (("k", "k"),), band=True, times=True
    ),
}


def promises_of(random: Random, kind: Kind, side: Side) -> list[Any]:
    """Some promises about one side, at most one of each kind."""
    name = "left" if side is L else "right"
    keys = [pair[side] for pair in kind.keys]
    columns = [*keys, "t"] if kind.band else keys
    asc = random.random() < 0.8
    key = random.choice(keys)
    some: list[Any] = []
    if random.random() < 0.25:
        some.append(wm.unique(name, random.choice([None, key])))
    if random.random() < 0.2:
        some.append(wm.clustered(name, random.choice([None, key])))
    if random.random() < 0.4:
        column = random.choice(columns)
        if kind.times and column == "t":
            some.append(wm.watermark(name, "t", timedelta(seconds=random.randrange(3))))
        else:
            some.append(wm.ordered(name, column, asc, slack=random.choice([None, 2])))
    if random.random() < 0.7:
        column = random.choice(columns)
        hows: list[Any] = ["equal", "equal", (None, "hi"), ("lo", "hi")]
        if kind.times and column == "t":
            hows = ["equal"]
        elif column == keys[0]:
            hows.append("ks")
        pattern: dict[str, Any] = {column: random.choice(hows)}
        if len(keys) > 1 and random.random() < 0.6:
            pattern = dict.fromkeys(keys, "equal")
        some.append(wm.punctuated(name, "mark", pattern))
    return some


@dataclass
class Player:
    """One join, what it was given, and what it said."""

    seed: int
    kind_name: str
    how: str
    directory: Path
    given: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))
    """Rows that broke no promise, in the order in which they came."""
    found: Counter[Any] = field(default_factory=Counter)
    markers: list[dict[str, tuple[Any, Any]]] = field(default_factory=list)
    broken: int = 0

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed} {self.kind_name} {self.how}")
        self.kind = KINDS[self.kind_name]
        while True:
            self.promises = [*self._promises(L), *self._promises(R)]
            self.schema = JoinSchema.resolve(*self._schemas(), self.kind.on, self.how)
            try:
                self.marked = MarkedOutput.of(self.schema, self.promises, "is_marker")
                break
            except wm.errors.InvalidArgument:
                continue  # Nothing can be passed on: other promises.
        self.falls = any(isinstance(each, Ordered) and not each.ascending for each in self.promises)
        mine = [[each for each in self.promises if each.side is side] for side in Side]
        self.models = [
            Model(
                mine[side],
                [pair[side] for pair in self.kind.keys],
                {
                    place: (_is_marker, ["k", "t"])
                    for place, each in enumerate(mine[side])
                    if isinstance(each, Punctuated)
                },
            )
            for side in Side
        ]
        self.one_partner = sides_with_one_partner(self.schema, self.promises)
        self.has_markers = [any(isinstance(each, Punctuated) for each in some) for some in mine]
        self.directory.mkdir()
        self.area = StateFolder(self.directory / "state")
        self.settings: dict[str, Any] = {
            "on_broken": "drop",
            "purge": self.random.choice(["memory", 3, "output_rate"]),
            "passed_on": self.marked.subjects,
        }
        self.algorithm = self.random.choice(["rpj", "rpj", "xjoin", "pmj"])
        self.join = make_promised(
            self.algorithm, self.schema, self.promises, **resources(self.directory), **self.settings
        )

    def _promises(self, side: Side) -> list[Any]:
        return promises_of(self.random, self.kind, side)

    def _schemas(self) -> tuple[pa.Schema, pa.Schema]:
        time = pa.timestamp("s") if self.kind.times else pa.int32()
        fields = {"k": pa.int32(), "t": time, "mark": pa.bool_(), "lo": pa.int32()}
        fields |= {"hi": pa.int32(), "ks": pa.list_(pa.int32())}
        return pa.schema({**fields, "a": pa.int64()}), pa.schema({**fields, "b": pa.int64()})

    # ---- rows and calls -------------------------------------------------------------------------

    def time(self, second: int) -> Any:
        return datetime.fromtimestamp(second + FAR, UTC).replace(tzinfo=None)

    def _value(self, column: str, number: int) -> Any:
        return self.time(number) if self.kind.times and column == "t" else number

    def rows(self, side: Side, turn: int) -> list[Row]:
        random, rows = self.random, []
        base = -turn if self.falls else turn
        near = base // 3
        for _ in range(random.randrange(1, 5)):
            row: Row = {
                "k": near + random.randrange(-2, 3),
                "t": self._value("t", near + random.randrange(-2, 3)),
                "mark": None, "lo": None, "hi": None, "ks": None,
                "ab"[side]: random.randrange(10**6),
            }  # fmt: skip
            if random.random() < 0.05:
                row["k"] = None
            if self.has_markers[side] and random.random() < 0.4:
                behind = near - random.randrange(5)
                row |= {"mark": True, "k": behind, "t": self._value("t", behind)}
                row |= {"lo": behind - 1, "hi": behind + 1, "ks": [behind, behind - 2]}
                if random.random() < 0.2:
                    row["t"] = None
            rows.append(row)
        return rows

    def push(self, side: Side, turn: int) -> None:
        rows = self.rows(side, turn)
        # A marker row that says that nothing comes any more ends all tests, so there is none.
        rows = [row for row in rows if not (row["mark"] and row["k"] is None)]
        if not rows:
            return
        verdicts = self.models[side].take(rows)
        self.broken += sum(map(bool, verdicts))
        good = [row for row, why in zip(rows, verdicts, strict=True) if not why and not row["mark"]]
        self.given[side].extend(good)
        batch = pa.RecordBatch.from_pylist(rows, self._schemas()[side])
        self.take(self.join.push(side, batch))

    def take(self, found: Iterator[Matches]) -> None:
        for matches in found:
            for row in self.schema.materialise(matches).to_pylist():
                said = [each for each in self.markers if _fits(each, row)]
                assert not said, f"{row} came after {said}"
                self.found[_shown(row)] += 1

    def pass_on(self) -> None:
        markers = self.marked.markers(self.join.pass_on())
        for row in [] if markers is None else markers.to_pylist():
            assert row.pop("is_marker") is True
            said: dict[str, tuple[Any, Any]] = {}
            for name, how in self.marked.pattern.items():
                low, high = (name, name) if how == "equal" else how
                ends = (low and row[low], high and row[high])
                if ends != (None, None):
                    said[name] = ends
            assert said, row
            self.markers.append(said)

    def restart(self) -> None:
        manifest = json.loads(json.dumps(self.join.save(self.area)))
        if self.random.random() < 0.7:
            self.join.close()
            self.join = restore_promised(
                self.algorithm, self.schema, self.promises, area=self.area, manifest=manifest,
                **resources(self.directory), **self.settings,
            )  # fmt: skip

    def play(self, turns: int = 45) -> None:
        for turn in range(turns):
            for side in self.random.sample(list(Side), 2):
                if self.random.random() < 0.8:
                    self.push(side, turn)
                if self.random.random() < 0.5:
                    self.pass_on()
            chance = self.random.random()
            if chance < 0.15:
                self.restart()
            elif chance < 0.25:
                pauses = iter([False] * self.random.randrange(3))
                self.take(self.join.idle(lambda pauses=pauses: next(pauses, True)))  # type: ignore[misc]
            elif chance < 0.3:
                self.take(self.join.lend(self.random.choice([0, 2**24])))
            elif chance < 0.35:
                self.take(self.join.resize(self.random.choice([2**25, 2**26])))
            elif chance < 0.5:
                self.look()
        self.look()
        for side in Side:
            self.take(self.join.end(side))
            self.pass_on()
        self.take(self.join.finish())
        self.pass_on()
        assert self.join.metrics.broken_promises == self.broken
        assert self.found == Counter(map(_shown, self.expected()))
        self.check_due(kept=((), ()))
        self.join.close()

    def look(self) -> None:
        """All that may go has gone, and all that can be said has been."""
        self.take(self.join.settle())
        for _ in range(2):  # What is on disk is read when nothing has come since the last time.
            self.take(self.join.tidy())
        self.pass_on()
        kept = ([*self.may_be_kept(L)], [*self.may_be_kept(R)])
        if self.algorithm != "pmj":  # It joins rows, and lets go of them, only after it spilled.
            # Semi and anti joins drop left rows that found a partner when they are many.
            most = [*self.may_be_kept(L, found=True)] if self.how in ("semi", "anti") else kept[L]
            there = rows_there(self.join)
            assert there <= len(most) + len(kept[R]), "more rows than promises allow"
            self.check_due(kept)

    # ---- what the model knows -------------------------------------------------------------------

    def matches(self, left: Row, right: Row) -> bool:
        for mine, other in self.kind.keys:
            if left[mine] is None or left[mine] != right[other]:
                return False
        if self.kind.band:
            wide = timedelta(seconds=WIDTH) if self.kind.times else WIDTH
            return bool(abs(left["t"] - right["t"]) <= wide)
        return True

    def expected(self) -> Iterator[Row]:
        how = JoinType.parse(self.how)
        names = self.schema.output.names
        met: tuple[set[int], set[int]] = (set(), set())
        for i, left in enumerate(self.given[L]):
            for j, right in enumerate(self.given[R]):
                if self.matches(left, right):
                    met[L].add(i)
                    met[R].add(j)
                    if how.emits_pairs:
                        yield self._joined(left, right, names)
            if (how is JoinType.SEMI and i in met[L]) or (
                how.keeps_unmatched(L) and i not in met[L]
            ):
                yield self._joined(left, None, names)
        for j, right in enumerate(self.given[R]):
            if how.keeps_unmatched(R) and j not in met[R]:
                yield self._joined(None, right, names)

    def _joined(self, left: Row | None, right: Row | None, names: list[str]) -> Row:
        shared = {mine for mine, other in self.kind.keys if mine == other}
        row: Row = {}
        for name in names:
            mine = name.removesuffix("_right")
            if name in shared:
                row[name] = (left or right or {})[name]
            elif name == "b" or name != mine:
                row[name] = None if right is None else right[mine]
            else:
                row[name] = None if left is None else left[name]
        return row

    def promised(self, side: Side, said: Row) -> bool:
        """Whether a side has promised values of columns, taken together, and of no others."""
        model = self.models[side]
        for place, promise in enumerate(model.promises):
            state = model.state[place]
            match promise:
                case Unique(_, columns):
                    names: Iterable[str] = columns or model.keys
                    if set(names) == set(said) and tuple(rank(said[n]) for n in names) in state:
                        return True
                case Clustered(_, column):
                    names = [column] if column else model.keys
                    values = tuple(rank(said[n]) for n in names if n in said)
                    if set(names) == set(said) and values in state["ended"]:
                        return True
                case Ordered(_, column) | Watermark(_, column):
                    is_it = [column] == [*said] and state is not None
                    if is_it and model._beyond(promise, said[column], state):
                        return True
                case Punctuated():
                    for pattern in state:
                        if set(pattern) == set(said) and model._fits(pattern, said):
                            return True
        return False

    def may_be_kept(self, side: Side, *, found: bool = False) -> Iterator[Row]:
        """Rows for which a partner may still come, but for those whose first partner decides;
        with `found` these, too, in semi and anti joins."""
        others = self.given[side.other]
        decides = side in self.one_partner or (
            side is L and self.how in ("semi", "anti") and not found
        )
        for row in self.given[side]:
            if any(row[pair[side]] is None for pair in self.kind.keys):
                continue
            if decides and any(
                self.matches(*((row, each) if side is L else (each, row))) for each in others
            ):
                continue
            if not self._has_no_partner_to_come(side, row):
                yield row

    def _has_no_partner_to_come(self, side: Side, row: Row) -> bool:
        other = side.other
        whole = {pair[other]: row[pair[side]] for pair in self.kind.keys}
        if self.promised(other, whole):
            return True
        if any(self.promised(other, {name: value}) for name, value in whole.items()):
            return True
        if self.kind.band:
            step: Any = timedelta(seconds=1) if self.kind.times else 1
            reach = [row["t"] + n * step for n in range(-WIDTH, WIDTH + 1)]
            return all(self.promised(other, {"t": value}) for value in reach)
        return False

    # ---- what must have been said ---------------------------------------------------------------

    def subjects(self) -> Iterator[tuple[tuple[str, ...], list[dict[Side, str]], tuple[Side, ...]]]:
        """Columns of the result; the columns of the sides that they show; and the sides that must
        be done, any one of them if none is given."""
        how = JoinType.parse(self.how)
        alone = tuple(side for side in Side if how.keeps_unmatched(side))
        groups = [[pair] for pair in self.kind.keys]
        if len(self.kind.keys) > 1:
            groups.append(list(self.kind.keys))
        for group in groups:
            shown = [{L: mine, R: other} for mine, other in group]
            if all(mine == other for mine, other in group):
                yield tuple(mine for mine, _ in group), shown, alone
                continue
            ((mine, other),) = group
            yield (mine,), shown, tuple(side for side in alone if side is L)
            if how.emits_pairs:
                yield (f"{other}_right",), shown, tuple(side for side in alone if side is R)
        if self.kind.band:
            yield ("t",), [{L: "t"}], (L,)
            if how.emits_pairs:
                yield ("t_right",), [{R: "t"}], (R,)

    def check_due(self, kept: tuple[Iterable[Row], Iterable[Row]]) -> None:
        for names, shown, alone in self.subjects():
            if any(name not in self.marked.pattern for name in names):
                continue
            if len(names) > 1 and any(self.marked.pattern[name] != "equal" for name in names):
                continue  # Then single columns are passed on, and not keys.
            domain = [*range(-30, 31)]
            if len(names) > 1:
                pairs = [(k, t) for k in range(-20, 21) for t in range(k - 4, k + 5)]
                due = [each for each in pairs if self._is_done(each, shown, alone, kept)]
                for pair in due:
                    assert self._was_said(dict(zip(names, pair, strict=True))), (names, pair)
                continue
            (name,) = names
            values = [self._value(name.removesuffix("_right"), n) for n in domain]
            if self.kind.times and name.startswith("t"):
                ends = [self.time(-FAR // 2), self.time(FAR)]
            else:
                ends = [-FAR, FAR]
            how = self.marked.pattern[name]
            if how == (name, None):
                values = [ends[1], *reversed(values)]
            elif how != "equal":
                values = [ends[0], *values]
            in_order = how in ((name, None), (None, name))
            for value in values:
                done = self._is_done((value,), shown, alone, kept)
                if in_order and not done:
                    break
                if done:
                    assert self._was_said({name: value}), (name, value)

    def _is_done(
        self,
        values: tuple[Any, ...],
        shown: list[dict[Side, str]],
        alone: tuple[Side, ...],
        kept: tuple[Iterable[Row], Iterable[Row]],
    ) -> bool:
        done: dict[Side, bool] = {}
        for side in shown[0]:
            said = {each[side]: value for each, value in zip(shown, values, strict=True)}
            has = any(all(row[n] == v for n, v in said.items()) for row in kept[side])
            done[side] = not has and self.promised(side, said)
        return all(done[side] for side in alone) if alone else any(done.values())

    def _was_said(self, row: Row) -> bool:
        return any(_fits(each, row) for each in self.markers if set(each) <= set(row))


def _is_marker(row: Row) -> bool:
    return bool(row["mark"])


def _fits(said: dict[str, tuple[Any, Any]], row: Row) -> bool:
    for name, (low, high) in said.items():
        value = row[name]
        if (
            value is None
            or (low is not None and value < low)
            or (high is not None and value > high)
        ):
            return False
    return True


def _shown(row: Row) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row.values())
