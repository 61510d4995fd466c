"""A worker keeps one thing between its tasks, and lets go of it before another is made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watersmeet.spark import cache


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    yield
    cache.take(("nobody's", 0, 0))


def test_what_is_kept_is_made_once() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(len(made))
        return made.copy()

    first = cache.kept(("a", 0, 0), make)
    assert cache.kept(("a", 0, 0), make) is first
    assert cache.kept(("b", 0, 0), make) == [0, 1]
    assert cache.kept(("a", 0, 0), make) == [0, 1, 2]


def test_the_former_is_closed_before_the_next_is_made_where_there_is_anything_to_close() -> None:
    events: list[str] = []

    class Operator:
        def close(self) -> None:
            events.append("closed")

    def make() -> object:
        events.append("made")
        return object()

    cache.keep(("a", 0, 0), Operator())
    cache.kept(("b", 0, 0), make)
    cache.kept(("c", 0, 0), make)
    assert events == ["closed", "made", "made"]


def test_nothing_is_kept_of_what_could_not_be_made() -> None:
    def fail() -> object:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        cache.kept(("a", 0, 0), fail)
    assert cache.take(("a", 0, 0)) is None
