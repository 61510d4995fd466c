"""A keeper of promises in plain Python, row by row, that remembers everything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from watersmeet.promises.kinds import (
    Clustered,
    Equality,
    FromTo,
    OneOf,
    Ordered,
    PromiseOfValues,
    Punctuated,
    Unique,
    Watermark,
)

Row = dict[str, Any]


def rank(value: Any) -> Any:
    """What values are compared by: NaN is the largest number, and there is one zero."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    if isinstance(value, Decimal):
        return value
    return value.encode() if isinstance(value, str) else value


def _plus(ranked: Any, slack: Any) -> Any:
    """The rank of a value plus a slack."""
    return (ranked[0], ranked[1] + slack) if isinstance(ranked, tuple) else ranked + slack


@dataclass
class Model:
    """The promises about one side; `keys` are the columns that must be equal, and `markers` says
    of each punctuation which rows are its markers and what columns it may speak of."""

    promises: list[PromiseOfValues]
    keys: list[str]
    markers: dict[int, tuple[Callable[[Row], bool], list[str]]]
    ordered: bool = True
    state: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, promise in enumerate(self.promises):
            match promise:
                case Unique() | Punctuated():
                    self.state[place] = []
                case Clustered():
                    self.state[place] = {"open": [], "ended": []}
                case _:
                    self.state[place] = None

    def take(self, rows: list[Row]) -> list[set[int]]:
        """For each row the promises that it breaks; marker rows break none."""
        if self.ordered:
            found = []
            for row in rows:
                broken = self._broken(row)
                found.append(broken)
                if not broken:
                    self._accept(row)
            self._end_of_batch([row for row, b in zip(rows, found, strict=True) if not b])
            return found
        found = [self._broken(row) for row in rows]
        for place, promise in enumerate(self.promises):
            if isinstance(promise, Clustered):
                self._find_several_open(place, promise, rows, found)
        seen: dict[int, list[Any]] = {
            p: list(s)
            for p, s in self.state.items()
            if s is not None and isinstance(self.promises[p], Unique)
        }
        for row, broken in zip(rows, found, strict=True):
            if self.is_marker(row):
                continue
            for place, known in seen.items():
                value = self._value(self.promises[place], row)
                if value is not None and value in known:
                    broken.add(place)
            if not broken:
                for place, known in seen.items():
                    known.append(self._value(self.promises[place], row))
        good = [row for row, broken in zip(rows, found, strict=True) if not broken]
        for row in good:
            self._accept(row)
        self._end_of_batch(good)
        return found

    def is_marker(self, row: Row) -> bool:
        return any(marks(row) for marks, _ in self.markers.values())

    def _value(self, promise: PromiseOfValues, row: Row) -> Any:
        """What a promise is about, or None where something is null."""
        match promise:
            case Unique(_, columns):
                names = list(columns or self.keys)
            case Clustered(_, column):
                names = [column] if column else self.keys
            case Ordered(_, column) | Watermark(_, column):
                names = [column]
            case _:
                raise AssertionError
        values = [row[name] for name in names]
        return None if None in values else tuple(rank(value) for value in values)

    def _broken(self, row: Row) -> set[int]:
        if self.is_marker(row):
            return set()
        broken = set()
        for place, promise in enumerate(self.promises):
            if isinstance(promise, Punctuated):
                if any(self._fits(pattern, row) for pattern in self.state[place]):
                    broken.add(place)
                continue
            value = self._value(promise, row)
            if value is not None and self._promised(place, promise, value):
                broken.add(place)
        return broken

    def _promised(self, place: int, promise: PromiseOfValues, value: Any) -> bool:
        state = self.state[place]
        match promise:
            case Unique():
                return value in state
            case Clustered():
                return value in state["ended"]
            case Ordered() | Watermark():
                return state is not None and self._beyond(promise, value[0], state)
        raise AssertionError

    def _beyond(self, promise: Ordered | Watermark, value: Any, furthest: Any) -> bool:
        slack: Any = promise.slack if isinstance(promise, Ordered) else promise.delay
        falls = isinstance(promise, Ordered) and not promise.ascending
        bound = furthest
        if slack is not None:
            bound = _plus(furthest, slack if falls else -slack)
        return bool(value > bound if falls else value < bound)

    def _fits(self, pattern: dict[str, tuple[Any, Any]], row: Row) -> bool:
        for name, (low, high) in pattern.items():
            value = row[name]
            if value is None:
                return False
            if low is not None and rank(value) < rank(low):
                return False
            if high is not None and rank(value) > rank(high):
                return False
        return True

    def _accept(self, row: Row) -> None:
        for place, promise in enumerate(self.promises):
            if isinstance(promise, Punctuated):
                marks, columns = self.markers[place]
                if marks(row):
                    self.state[place] += self._patterns(promise, columns, row)
                continue
            if self.is_marker(row):
                continue
            value = self._value(promise, row)
            if value is None:
                continue
            match promise:
                case Unique():
                    self.state[place].append(value)
                case Clustered() if self.ordered:
                    state = self.state[place]
                    if state["open"] and state["open"] != [value]:
                        state["ended"] += state["open"]
                    state["open"] = [value]
                case Ordered():
                    self._raise(place, promise, value[0])

    def _raise(self, place: int, promise: Ordered | Watermark, value: Any) -> None:
        falls = isinstance(promise, Ordered) and not promise.ascending
        before = self.state[place]
        if before is None or (value < before if falls else value > before):
            self.state[place] = value

    def _end_of_batch(self, good: list[Row]) -> None:
        rows = [row for row in good if not self.is_marker(row)]
        for place, promise in enumerate(self.promises):
            if isinstance(promise, Watermark):
                for row in rows:
                    if (value := self._value(promise, row)) is not None:
                        self._raise(place, promise, value[0])
            elif isinstance(promise, Clustered) and not self.ordered:
                came = [v for row in rows if (v := self._value(promise, row)) is not None]
                state = self.state[place]
                new = [value for value in came if value not in state["open"]]
                stays = new or came
                if came:
                    state["ended"] += [v for v in state["open"] + came if v not in stays]
                    state["open"] = stays

    def _find_several_open(
        self, place: int, promise: Clustered, rows: list[Row], found: list[set[int]]
    ) -> None:
        """Of several open values that come again, all but one had ended."""
        values = [None if self.is_marker(row) else self._value(promise, row) for row in rows]
        again = sorted({v for v in values if v is not None and v in self.state[place]["open"]})
        for value, broken in zip(values, found, strict=True):
            if value in again[1:]:
                broken.add(place)

    def _patterns(
        self, promise: Punctuated, columns: list[str], row: Row
    ) -> list[dict[str, tuple[Any, Any]]]:
        """The boxes that a marker row speaks of."""
        patterns: list[dict[str, tuple[Any, Any]]] = [{}]
        hows = promise.pattern or tuple((name, Equality()) for name in columns)
        for name, how in hows:
            match how:
                case Equality():
                    choices = [(row[name], row[name])]
                case FromTo(low, high):
                    choices = [(low and row[low], high and row[high])]
                case OneOf(column):
                    values = row[column]
                    choices = (
                        [(None, None)]
                        if values is None
                        else [(v, v) for v in values if v is not None]
                    )
            patterns = [
                each | ({} if choice == (None, None) else {name: choice})
                for each in patterns
                for choice in choices
            ]
        return [
            each
            for each in patterns
            if all(
                low is None or high is None or rank(low) <= rank(high)
                for low, high in each.values()
            )
        ]

    def alone(self, column: str, value: Any) -> bool:
        """Whether no more rows come that have a value in a column, whatever else they have."""
        for place, promise in enumerate(self.promises):
            if isinstance(promise, Punctuated):
                if any(
                    set(pattern) <= {column} and self._fits(pattern, {column: value})
                    for pattern in self.state[place]
                ):
                    return True
                continue
            names = getattr(promise, "columns", None) or [getattr(promise, "column", None)]
            mine = list(names) == [column] or (names == [None] and self.keys == [column])
            if mine and self._promised(place, promise, (rank(value),)):
                return True
        return False
