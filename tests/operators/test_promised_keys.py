"""Promises about keys that have no codes of their own: long texts, several columns, wide decimals.

Each is played with true hashes, with hashes of which only two bits are left, and with one hash for
all keys: what has gone and what is found must be the same, since bytes decide.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.contract.test_planted_bugs import Bug
from tests.operators.keyed_streams import IN_MEMORY, KEYS, REHASHES, SPILLING, Stream, over, play
from watersmeet.errors import StateError
from watersmeet.model import Side
from watersmeet.operators.family import make_promised
from watersmeet.operators.leaving import AnyOrder
from watersmeet.operators.memory import PartitionedMemory
from watersmeet.operators.progressive import watching
from watersmeet.operators.progressive.watching import Watching
from watersmeet.operators.tuning import Tuning
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.promises.telling import Told
from watersmeet.rows import promised_keys
from watersmeet.rows.promised_keys import PromisedKeys
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

L, R = Side


@pytest.mark.parametrize("kind", KEYS)
def test_exactly_the_rows_go_whose_keys_were_promised(kind: str, tmp_path: Path) -> None:
    play(kind, tmp_path, codes="two bits", tuning=SPILLING, turns=6)


@pytest.mark.parametrize("codes", ["true hashes", "one hash"])
@pytest.mark.parametrize("tuning", [SPILLING, IN_MEMORY], ids=["spilling", "in memory"])
def test_whatever_the_hashes_are(codes: str, tuning: Tuning, tmp_path: Path) -> None:
    play("uuid text", tmp_path, codes=codes, tuning=tuning, seed=2, turns=7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEYS)
def test_of_many_more_streams_too(kind: str, tmp_path: Path) -> None:
    for seed in range(12):
        how = ["inner", "left", "right", "full"][seed % 4]
        for codes in REHASHES:
            for tuning in (SPILLING, IN_MEMORY):
                play(kind, tmp_path, codes=codes, tuning=tuning, how=how, seed=seed, turns=14)


# ---- what is remembered has an end --------------------------------------------------------------


def pass_by(kind: str, turns: int, directory: Path, *, tuning: Tuning) -> list[dict[str, int]]:
    """Each key has a left row and a right one, of which one comes some turns later, and both sides
    promise it then; what there is after each turn."""
    stream = Stream(kind, over(kind, "left", "right"), directory, tuning=tuning)
    sizes: list[dict[str, int]] = []
    for turn in range(turns):
        new, old = [4 * turn + n for n in range(4)], [4 * (turn - 3) + n for n in range(4)]
        past = [number for number in old if number >= 0]
        stream.push(L, new, over=past)
        stream.push(R, past, over=past)
        if turn % 5 == 4:
            stream.settle()
        keys = stream.inner.workspace.watching.promises.keys.values()
        sizes.append(
            {
                "saved": stream.save(restores=turn % 20 == 7),
                "keys": sum(map(len, keys)),
                "rows": stream.inner.rows_kept,
            }
        )
    stream.finish()
    return sizes


@pytest.mark.parametrize("tuning", [SPILLING, IN_MEMORY], ids=["spilling", "in memory"])
def test_a_year_of_promised_keys_is_no_more_than_a_day(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (promised_keys, watching):
        monkeypatch.setattr(module, "REMEMBERED", 8)
    sizes = pass_by("uuid text", 60, tmp_path, tuning=tuning)
    early, late = sizes[10:35], sizes[35:]
    for name in sizes[0]:
        most = [max(each[name] for each in some) for some in (early, late)]
        assert most[1] <= 1.05 * most[0], f"{name}: {most}"
    assert max(each["keys"] for each in sizes) <= 2 * (2 * 8 + 5 * 4)


def test_a_row_whose_key_was_promised_and_forgotten_stays_and_is_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (promised_keys, watching):
        monkeypatch.setattr(module, "REMEMBERED", 4)
    stream = Stream("uuid text", over("uuid text", "right"), tmp_path, how="left")
    stream.push(R, [1, 2], over=list(range(3, 15)))
    stream.settle()
    assert len(stream.inner.workspace.watching.promises.keys[R, 0]) == 4
    stream.push(L, [3, 14, 1])
    assert stream.kept(L) == Counter([3, 1])
    assert stream.found == Counter([(1, None), (2, 0)])
    stream.finish()


def test_of_long_keys_fewer_are_remembered() -> None:
    keys, most = PromisedKeys(), 2**20 // 1000
    many = pa.array([b"%01000d" % n for n in range(3 * most)], pa.large_binary())
    keys.add(np.arange(3 * most).astype(np.uint64) % np.uint64(7), many)
    assert 2 < keys.excess < 4
    keys.forget_oldest()
    assert len(keys) == most
    again = PromisedKeys.load(keys.save())
    for each in (keys, again):
        found = each.cover(np.arange(3 * most).astype(np.uint64) % np.uint64(7), many.take)
        assert found.tolist() == [n >= 2 * most for n in range(3 * most)]


# ---- other promises -----------------------------------------------------------------------------


@pytest.mark.parametrize("codes", ["true hashes", "one hash"])
def test_rows_go_when_they_have_met_their_one_partner_and_no_key_is_named(
    codes: str, tmp_path: Path
) -> None:
    stream = Stream("uuid text", [wm.unique("left")], tmp_path, codes=codes, tuning=SPILLING)
    for turn in range(10):
        stream.push(R, [4 * turn + n for n in range(6)])
        stream.push(L, [4 * turn + n for n in range(4)])
        stream.settle()
        stream.save(restores=turn % 3 == 1)
        assert stream.kept(R) == Counter([4 * turn + 4, 4 * turn + 5])
        assert not stream.inner.workspace.watching.promises.keys
    stream.finish()


def test_beside_a_band_unique_keys_are_named(tmp_path: Path) -> None:
    """A right row that has met the one left row of its key goes, though they are far apart."""
    on = ["k0", wm.within(("t", "n"), 1)]
    stream = Stream("uuid text", [wm.unique("left")], tmp_path, codes="two bits", on=on)
    stream.push(L, [100, 101])
    stream.push(R, [100, 102, 101])
    stream.settle()
    assert stream.kept(R) == Counter([102])
    stream.join.close()


@pytest.mark.parametrize("codes", ["true hashes", "two bits"])
@pytest.mark.parametrize("columns", [["k0"], ["k0", "k2"]], ids=["a text", "a text and a decimal"])
def test_marker_rows_about_a_part_of_the_key(
    columns: list[str], codes: str, tmp_path: Path
) -> None:
    """Keys are (n % 4, n, n % 2), as texts, numbers and wide decimals."""
    kind, pattern = "three columns", dict.fromkeys(columns, "equal")
    promises: list[PromiseOfValues] = [wm.punctuated("right", "over", pattern)]
    stream = Stream(kind, promises, tmp_path, codes=codes, tuning=SPILLING)
    gone: set[int] = set()
    for turn in range(4):
        for side in Side:
            numbers = range(20 * turn, 20 * turn + 20)
            allowed = [n for n in numbers if n % 4 not in gone or side is L]
            stream.push(side, allowed, over=[turn] if side is R and turn < 3 else [])
        gone.update([turn] if turn < 3 else [])
        stream.settle()
        stream.save(restores=turn % 2 == 0)
        assert stream.kept(L) == Counter(n for n in stream.rows[L] if n % 4 not in gone)
        assert len(stream.kept(R)) == len(stream.rows[R])
    stream.finish()


@pytest.mark.parametrize("kind", ["uuid bytes", "text and number"])
@pytest.mark.parametrize("codes", ["true hashes", "two bits"])
def test_a_cluster_that_has_ended(kind: str, codes: str, tmp_path: Path) -> None:
    stream = Stream(kind, [wm.clustered("left")], tmp_path, codes=codes, tuning=SPILLING)
    for turn in range(8):
        stream.push(R, [turn, turn + 1, turn, turn + 9])
        stream.push(L, [turn, turn])
        stream.save(restores=turn % 2 == 0)
        stream.push(L, [turn])
        stream.settle()
        # Not of the last value, which may come again, nor of those that have not come.
        assert stream.kept(R) == Counter(n for n in stream.rows[R] if n >= turn)
    stream.finish()


def test_unique_numbers_that_become_one_key_have_several_partners(tmp_path: Path) -> None:
    columns = [pa.schema({"k": kind, "n": pa.int64()}) for kind in (pa.int64(), pa.float64())]
    schema = JoinSchema.resolve(columns[L], columns[R], "k")
    memory, spill = MemoryAccount(2**26), SpillArea(tmp_path)
    join = make_promised("rpj", schema, [wm.unique("left")], memory=memory, spill=spill)
    large, found = 2**53, 0
    for side, key in ((R, float(large)), (L, large), (L, large + 1)):
        batch = pa.RecordBatch.from_pydict({"k": [key], "n": [1]}, columns[side])
        found += sum(map(len, join.push(side, batch)))
    assert found == 2
    join.close()


# ---- mistakes made on purpose -------------------------------------------------------------------

BUGS = {
    "keys with the same code are not compared": Bug(
        "rpj",
        (PromisedKeys, "cover"),
        "covered[index] = found.to_numpy(zero_copy_only=False)",
        "covered[index] = True",
    ),
    "of several keys with the same code one is found": Bug(
        "rpj",
        (PromisedKeys, "cover"),
        "alike = np.isin(self._codes, codes[index])",
        "alike = np.isin(np.arange(len(self)), start[index])",
    ),
    "a row that has gone rises again when a join is restored": Bug(
        "rpj", (PartitionedMemory, "drop"), "self.leaving.dropped(side, keep)", "pass"
    ),
    "the first of the saved rows go in place of others": Bug(
        "rpj", (AnyOrder, "dropped"), "alive[~keep[: len(alive)]]", "alive[: (~keep).sum()]"
    ),
    "promised keys are lost when a join is restored": Bug(
        "rpj", (Watching, "load"), 'self.promises.load_keys(saved.get("keys", []))', "pass"
    ),
    "rows on disk are not looked at for keys": Bug(
        "rpj", (Watching, "blocks_to_read"), "found |= keys.touch(first, last)", "pass"
    ),
    "keys are named for the side that they are about": Bug(
        "rpj",
        (Watching, "without_partners"),
        "promises, side.other, number, (side, rows)",
        "promises, side, number, (side, rows)",
    ),
}


@pytest.mark.slow  # each is looked for in several streams
@pytest.mark.parametrize("name", BUGS)
def test_these_tests_notice(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises((AssertionError, StateError)):
        play_several(tmp_path)


def play_several(directory: Path) -> None:
    for seed in range(6):
        for tuning in (SPILLING, IN_MEMORY):
            play("uuid text", directory, codes="two bits", tuning=tuning, seed=seed)


def test_an_open_cluster_without_its_key_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = '[""] * len(self.codes)'
    Bug("rpj", (Told, "save"), "to_json(self.keys)", wrong).plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_cluster_that_has_ended("uuid bytes", "two bits", tmp_path)
