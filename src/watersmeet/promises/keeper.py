"""The promise keeper: checks rows against what was promised, and tells the join what is promised.

Whoever joins gives each batch to the keeper first, joins the rows that come back, and then applies
the promises that come with them. A promise is never about rows of its own batch or of one before.

What is checked where a batch has an order is what would be found if its rows came one by one; a row
that breaks a promise is as good as not there for all the others. Where a batch has no order, as on
Spark, rows are checked against what batches before have promised; only a key that is unique must
be so within a batch, too. Watermarks rise after a batch, wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument, PromiseBroken, StateError
from watersmeet.kernels import promised
from watersmeet.model import Side
from watersmeet.promises.checking import check_promises, rules_of
from watersmeet.promises.heard import Broken, Heard, Limits, Markers
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.promises.marker_rule import MarkerRule
from watersmeet.promises.order_rule import OrderRule
from watersmeet.promises.patterns import Said
from watersmeet.promises.remembered import REMEMBERED
from watersmeet.promises.rules import ClusteredRule, Rule, Step, UniqueRule
from watersmeet.promises.watched import Watched
from watersmeet.rows.on import name_of
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema

__all__ = ["ON_BROKEN", "Broken", "Heard", "Limits", "Markers", "PromiseKeeper"]

ON_BROKEN = ("fail", "drop", "quarantine")
"""What becomes of rows that break promises."""

Causes = NDArray[np.int64]
_VERSION = 1


class PromiseKeeper:
    """Keeps what was promised about both inputs of a join.

    `on_broken`: "fail" raises at the first row that breaks a promise, and changes nothing; "drop"
    and "quarantine" give these rows back beside the others. `ordered_batches`: whether the rows of
    a batch have an order. `remember`: how many separate ranges or values are kept of each promise.

    >>> import watersmeet as wm
    >>> news = pa.schema({"sno": pa.int64(), "title": pa.string()})
    >>> reads = pa.schema({"sno": pa.int64(), "over": pa.bool_()})
    >>> schema = JoinSchema.resolve(news, reads, "sno")
    >>> keeper = PromiseKeeper(schema, [wm.punctuated("right", "over", {"sno": "equal"})])
    >>> batch = pa.RecordBatch.from_pydict({"sno": [79, 81, 79], "over": [None, None, True]}, reads)
    >>> heard = keeper.take(Side.RIGHT, batch)
    >>> heard.rows.column("sno").to_pylist(), len(heard.promises)
    ([79, 81], 1)
    >>> keeper.take(Side.RIGHT, batch.slice(0, 1))
    Traceback (most recent call last):
    ...
    watersmeet.errors.PromiseBroken: A row of the right input breaks punctuated(when over): ...
    """

    def __init__(
        self,
        schema: JoinSchema,
        promises: Sequence[PromiseOfValues],
        *,
        on_broken: str = "fail",
        ordered_batches: bool = True,
        remember: int = REMEMBERED,
    ) -> None:
        if on_broken not in ON_BROKEN:
            raise InvalidArgument(
                f"on_broken={on_broken!r} says nothing about rows that break a promise.",
                remedy=f"Give one of {', '.join(map(repr, ON_BROKEN))}.",
            )
        self.schema = schema
        self.promises = check_promises(schema, promises)
        self.watched = Watched.of(schema, self.promises)
        self._fails = on_broken == "fail"
        self._ordered = ordered_batches
        self._rules = rules_of(self.watched, self.promises, ordered=ordered_batches, most=remember)
        self._words = tuple(rule.words for rule in self._rules)

    def take(self, side: Side, batch: pa.RecordBatch) -> Heard:
        """Check a batch of one side. What comes back is to be joined, then the promises applied."""
        rules = [rule for rule in self._rules if rule.side is side]
        if not rules or not batch.num_rows:
            return Heard(batch, [], None, [])
        stored = self.schema.accept(side, batch)
        marking = [rule for rule in rules if isinstance(rule, MarkerRule)]
        marks = [rule.marks(stored) for rule in marking]
        came = np.arange(batch.num_rows)
        rows = stored
        if marks and (marked := np.logical_or.reduce(marks)).any():
            came = np.flatnonzero(~marked)
            rows, batch = _at(stored, came), _at(batch, came)
        said = [
            (rule, _said(rule, stored, np.flatnonzero(mask)))
            for rule, mask in zip(marking, marks, strict=True)
            if mask.any()
        ]
        causes = self._causes(rules, rows, came, said)
        broken = None
        if (causes >= 0).any():
            if self._fails:
                raise self._failure(side, rows, batch, causes)
            index = np.flatnonzero(causes >= 0)
            broken = Broken(side, _at(batch, index), causes[index], self._words)
            good = np.flatnonzero(causes < 0)
            rows, batch = _at(rows, good), _at(batch, good)
        promises: list[Promise] = []
        markers: list[Markers] = []
        for rule in rules:
            promises += rule.accept(rows)
        for rule, what in said:
            its_rows = _at(stored, what.rows)
            promises += rule.hear(what, its_rows)
            markers.append(rule.markers(what, its_rows))
        self._let_go(rules)
        return Heard(batch, [(side, each) for each in promises], broken, markers)

    def _causes(
        self,
        rules: list[Rule],
        rows: pa.RecordBatch,
        came: Causes,
        said: list[tuple[MarkerRule, Said]],
    ) -> Causes:
        """For each row the number of the first promise that it breaks; -1 for none."""
        causes = np.full(rows.num_rows, -1, np.int64)
        if not rows.num_rows:
            return causes
        for rule in rules:
            mask = rule.prior(rows)
            if self._ordered:
                for speaker, what in said:
                    if speaker is rule:
                        later = speaker.among(rows, came, what)
                        mask = later if mask is None else mask | later
            if mask is not None:
                causes[mask & (causes < 0)] = rule.place
        steps = [(rule.place, step) for rule in rules if (step := rule.step(rows)) is not None]
        if steps:
            _find_broken([place for place, _ in steps], [step for _, step in steps], causes)
        return causes

    def _let_go(self, rules: list[Rule]) -> None:
        """Forget single values where order has promised all of them: so a unique key that also
        rises needs next to no memory."""
        for order in rules:
            if not isinstance(order, OrderRule) or (codes := order.promised_codes) is None:
                continue
            for rule in rules:
                if (
                    isinstance(rule, UniqueRule | ClusteredRule)
                    and rule.columns.names == (order.column,)
                    and rule.seen.line is not None
                ):
                    rule.seen.line.let_go(*codes)

    def _failure(
        self, side: Side, rows: pa.RecordBatch, batch: pa.RecordBatch, causes: Causes
    ) -> PromiseBroken:
        first = int(np.flatnonzero(causes >= 0)[0])
        rule = self._rules[causes[first]]
        values = cast(dict[str, object], batch.slice(first, 1).to_pylist()[0])
        shown = ", ".join(f"{name}={str(value)[:60]}" for name, value in values.items())
        return PromiseBroken(
            f"A row of the {name_of(side)} input breaks {rule.words}: "
            f"{rule.why(rows.slice(first, 1))}. The row is {shown[:400]}.",
            remedy='Correct the source or the promise, or leave such rows out: on_broken="drop" '
            'counts them, on_broken="quarantine" keeps them aside.',
            side=name_of(side),
            promise=rule.words,
            row=values,
        )

    @property
    def forgotten(self) -> dict[str, int]:
        """Of how many ranges or values rows are not checked any more, by promise: there were more
        than can be remembered."""
        return {rule.words: rule.forgotten for rule in self._rules if rule.forgotten}

    def save(self) -> dict[str, Any]:
        """All that was promised so far, for JSON."""
        return {
            "version": _VERSION,
            "promises": [f"{name_of(rule.side)}: {rule.words}" for rule in self._rules],
            "rules": [rule.save() for rule in self._rules],
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved by a keeper of the same promises."""
        mine = [f"{name_of(rule.side)}: {rule.words}" for rule in self._rules]
        if saved.get("version") != _VERSION or saved.get("promises") != mine:
            raise StateError(
                f"The state was saved with the promises {saved.get('promises')}, and not with "
                f"{mine}.",
                remedy="Give the promises with which it was saved, or begin with a new state.",
            )
        for rule, state in zip(self._rules, saved["rules"], strict=True):
            rule.load(state)


def _at(batch: pa.RecordBatch, index: Causes) -> pa.RecordBatch:
    return batch.take(pa.array(index))


def _said(rule: MarkerRule, stored: pa.RecordBatch, places: Causes) -> Said:
    """What marker rows at these places of a batch say, by their places in it."""
    said = rule.read(_at(stored, places))
    return Said(places[said.rows], said.limits, said.wanted)


def _find_broken(places: list[int], steps: list[Step], causes: Causes) -> None:
    """Check the rows of a batch one after the other."""
    groups = max(step.groups for step in steps)
    promised.find_broken(
        np.array([step.kind for step in steps], np.int64),
        np.array(places, np.int64),
        np.stack([step.codes for step in steps]).astype(np.uint64),
        np.stack([step.floors for step in steps]).astype(np.uint64),
        np.stack([step.present for step in steps]),
        np.array([step.bound for step in steps], np.uint64),
        np.array([step.current for step in steps], np.int64),
        np.zeros((len(steps), max(groups, 1)), np.bool_),
        causes,
    )
