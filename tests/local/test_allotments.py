"""How instances of one join get memory, and give it back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watersmeet.local.allotments import Allotments

asked = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2_000)), max_size=60)


def test_what_is_free_goes_to_who_needs_it() -> None:
    allotments = Allotments(1_000, instances=2, most=900, least=50)
    assert allotments.ask(0, 700) == 700 + 500 // 8
    assert allotments.ask(0, 5_000) == 900
    assert allotments.ask(1, 10) == 10 + 500 // 8


def test_who_has_more_than_an_even_part_gives_it_back_to_who_needs_it() -> None:
    allotments = Allotments(1_000, instances=2, most=900, least=50)
    allotments.ask(0, 5_000)
    assert allotments.ask(1, 400) == 100
    assert allotments.is_short(1)
    assert allotments.must_give(0)
    assert allotments.ask(0, 5_000) == 500
    assert allotments.ask(1, 400) == 100, "nothing is free before it was given back"
    allotments.gave_back(0, 500)
    assert allotments.ask(1, 400) == 400 + 500 // 8
    assert not allotments.must_give(0)


def test_what_is_lent_to_input_is_taken_from_all() -> None:
    allotments = Allotments(1_000, instances=2, most=900, least=50)
    for instance in (0, 1):
        allotments.ask(instance, 400)
    allotments.lend(600)
    for instance in (0, 1):
        assert allotments.must_give(instance)
        assert allotments.ask(instance, 400) == 200
        allotments.gave_back(instance, 200)
        assert not allotments.must_give(instance)


@given(asked)
def test_together_they_have_no_more_than_there_is(asks: list[tuple[int, int]]) -> None:
    allotments = Allotments(1_000, instances=3, most=900, least=50)
    held = [50, 50, 50]
    for instance, nbytes in asks:
        allowed = allotments.ask(instance, nbytes)
        assert 50 <= allowed <= 900
        if allowed < held[instance]:
            allotments.gave_back(instance, allowed)
        held[instance] = allowed
        assert sum(held) <= 1_000
    for instance in range(3):  # Nobody is kept below an even part.
        for other in (*range(3), *range(3)):  # First it asks, then the others give back.
            allowed = allotments.ask(other, 300 if other == instance else 0)
            if allowed < held[other]:
                allotments.gave_back(other, allowed)
            held[other] = allowed
        assert allotments.ask(instance, 300) >= 300
