"""What the instances of a join of streams promise together, and what each checks of its own rows.

A rule of the promise keeper takes in all rows of a batch at once, and an instance sees only some
of them. But of those rows it needs few: the one with the latest time, or one of each value. An
instance notes these in its version, and the rule of every instance takes in what all have noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.promises.heard import Broken
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.promises.kinds import PromiseOfValues, Punctuated
from watersmeet.promises.marker_rule import MarkerRule
from watersmeet.promises.order_rule import OrderRule
from watersmeet.promises.rules import ClusteredRule, Rule, UniqueRule
from watersmeet.promises.values import present
from watersmeet.rows.batch_text import batch_from_text, batch_to_text
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema

Told = list[tuple[Side, Promise]]
Said = dict[str, str]
"""By the place of a promise, rows of which it needs to know, as Arrow's stream in base 64."""


class Checked(NamedTuple):
    rows: pa.RecordBatch
    broken: Broken | None


class BatchPromises(PromiseKeeper):
    """The keeper of one instance in one batch."""

    def __init__(
        self, schema: JoinSchema, promises: Sequence[PromiseOfValues], *, on_broken: str
    ) -> None:
        super().__init__(schema, in_our_words(promises), on_broken=on_broken, ordered_batches=False)
        self._marking = [rule for rule in self._rules if isinstance(rule, MarkerRule)]
        self._own: Told = []
        """What rows of this batch promise to this instance alone."""
        self._noted: dict[int, pa.RecordBatch] = {}

    def check(self, side: Side, batch: pa.RecordBatch) -> Checked:
        """Check rows against what batches before have promised, and note what they promise."""
        rules = [rule for rule in self._rules if rule.side is side]
        if not rules:
            return Checked(batch, None)
        rows = self.schema.accept(side, batch)
        causes = self._causes(rules, rows, np.arange(len(rows)), [])
        broken = None
        if (causes >= 0).any():
            if self._fails:
                raise self._failure(side, rows, batch, causes)
            gone = pa.array(causes >= 0)
            broken = Broken(side, batch.filter(gone), causes[causes >= 0], self._words)
            good = pa.array(causes < 0)
            rows, batch = rows.filter(good), batch.filter(good)
        for rule in rules:
            if isinstance(rule, UniqueRule):
                # All rows with the same key are in this instance.
                self._own += [(side, each) for each in rule.accept(rows)]
            elif not isinstance(rule, MarkerRule) and len(rows):
                self._note(rule, rows)
        return Checked(batch, broken)

    def _note(self, rule: Rule, rows: pa.RecordBatch) -> None:
        few = _without_others(rule, _telling(rule, rows))
        before = self._noted.get(rule.place)
        if before is not None:
            few = _telling(rule, _together([before, few]))
        self._noted[rule.place] = few

    def mark(self, number: int, rows: pa.RecordBatch) -> Told:
        """What marker rows of the promise of this number, among those that have any, say."""
        rule = self._marking[number]
        stored = self.schema.accept(rule.side, rows)
        said = rule.read(stored)
        made = rule.hear(said, stored.take(pa.array(said.rows)))
        return [(rule.side, each) for each in made]

    def seen(self) -> Told:
        """What the rows of this batch promise to this instance alone, after all of them."""
        own, self._own = self._own, []
        return own

    def said(self) -> Said:
        """What the rows of this instance say that others need to know."""
        return {str(place): batch_to_text(rows) for place, rows in sorted(self._noted.items())}

    @property
    def is_news(self) -> bool:
        """Whether the next batch has to be told what the rows of this one say."""
        for rule in self._rules:
            noted = self._noted.get(rule.place)
            if noted is not None and (not isinstance(rule, OrderRule) or rule.is_further(noted)):
                return True
        return False

    def hear(self, said: Sequence[Said]) -> Told:
        """What the rows of the batch before promise, by what all instances have noted of them."""
        told: Told = []
        for rule in self._rules:
            place = str(rule.place)
            noted = [batch_from_text(each[place]) for each in said if place in each]
            if noted:
                told += [(rule.side, each) for each in rule.accept(_together(noted))]
        for side in Side:
            self._let_go([rule for rule in self._rules if rule.side is side])
        return told


def in_our_words(promises: Sequence[PromiseOfValues]) -> list[PromiseOfValues]:
    """The promises as the keeper knows them: Spark has told marker rows from data, by conditions
    that the keeper need not understand."""
    return [
        replace(each, when=f"{place} = {place}", called=str(each.when))
        if isinstance(each, Punctuated)
        else each
        for place, each in enumerate(promises)
    ]


def _telling(rule: Rule, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The few of these rows that say as much as all of them."""
    if isinstance(rule, OrderRule):
        return rule.furthest(rows)
    assert isinstance(rule, ClusteredRule)
    values = rule.columns.plain(rows)
    index = np.flatnonzero(present(values))
    numbers = values.take(pa.array(index)).dictionary_encode().indices.to_numpy()
    return rows.take(pa.array(index[np.unique(numbers, return_index=True)[1]]))


def _without_others(rule: Rule, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with nothing in columns that the rule does not look at."""
    names = (rule.column,) if isinstance(rule, OrderRule) else rule.columns.names  # type: ignore[attr-defined]
    columns = [
        column if field.name in names else pa.nulls(len(rows), field.type)
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    fields = [field.with_nullable(True) for field in rows.schema]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
    return whole
