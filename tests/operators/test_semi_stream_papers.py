"""SSBJ's example, theorems and states, and what its pseudocode would get wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.enriching import FAR, Arrive, Enrichment, Player, Save, Scan
from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import make_enricher
from watersmeet.operators.semistream import keeping, rotating
from watersmeet.operators.semistream.cyclic import CyclicScan
from watersmeet.operators.semistream.keeping import CacheKeeper
from watersmeet.operators.semistream.skipping import SkippingScan
from watersmeet.reproduce.ssbj.data import Zipf, lay, opened
from watersmeet.reproduce.ssbj.runs import Rows
from watersmeet.rows.address import Index, Matches
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.spill import SpillArea

Play = Callable[[Enrichment], Player]

# Suppliers of parts, and requests for parts (SSBJ, figure 3). Part 20 is not asked for now.
SUPPLIED = (10, 20, 30, 10, 20, 30, 10, 20, 10, 40)
REQUESTED = (10, 30, 10, 30, 40, 10, 30)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Play]:
    """Makes players of cases; what is left to do is done in the end, and all results checked."""
    players = []

    def made(case: Enrichment) -> Player:
        # Time stands still, so that no scan is overdue and every step is one of the test's.
        players.append(Player(case, tmp_path, clock=lambda: 0.0))
        return players[-1]

    yield made
    for player in players:
        player.finish()


@pytest.fixture
def rows_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    have_rows_of_one_size(monkeypatch)


def have_rows_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows take one byte, and entries next to none, as in the paper's examples."""
    monkeypatch.setattr(CacheKeeper, "_row_bytes", lambda self: 1.0)
    monkeypatch.setattr(CacheKeeper, "_stream_bytes", lambda self: 1.0)
    for module in (keeping, rotating):
        monkeypatch.setattr(module, "ENTRY_BYTES", 0.001)


def ssbj(master: tuple[int, ...], how: JoinType = JoinType.INNER) -> Enrichment:
    """A row is a block, and two of them a portion."""
    return Enrichment(
        (), master, how, algorithm="ssbj", block_bytes=1, portion_bytes=1000, memory=2**20
    )


def cached(player: Player) -> dict[int, int]:
    """The keys of the cache's entries, and how many rows each has."""
    join = player.join
    keys = list(range(-1, 100))
    codes = join.workspace.asked.encode(
        Side.LEFT, player.case.columns.batch(Side.LEFT, tuple(keys), 0)
    ).codes
    by_code = dict(zip(codes.tolist(), keys, strict=True))
    cache = join.workspace.memory.cache
    return {
        by_code[code]: count
        for code, count in zip(cache.codes.tolist(), cache.counts.tolist(), strict=True)
    }


def cycle(player: Player, *keys: int) -> None:
    """Rows arrive as a cycle begins, and wait until it ends."""
    cycles = player.join.metrics.cycles
    scan = player.join.scan
    assert isinstance(scan, CyclicScan)
    assert scan.block == 0
    player.do(Arrive(keys))
    while player.join.metrics.cycles == cycles:
        assert player.join.workspace.waiting, "all are in the cache, so that no cycle ends"
        player.do(Scan(1))


@pytest.mark.usefixtures("rows_of_one_size")
def test_part_30_is_moved_to_the_cache_and_part_10_is_not(make: Play) -> None:
    player = make(ssbj(SUPPLIED))
    cycle(player, *REQUESTED)
    cycle(player, *REQUESTED)
    assert cached(player) == {}
    player.do(Arrive(REQUESTED), Scan(1))
    # Part 30 has two suppliers and three requests, part 10 four and three, part 40 one and one.
    assert cached(player) == {30: 2}
    before = player.join.metrics.cache_hits
    player.do(Arrive((30, 10, 30)))
    assert player.join.metrics.cache_hits == before + 2


@pytest.mark.usefixtures("rows_of_one_size")
def test_it_is_decided_once_which_values_are_switched(make: Play) -> None:
    # Line 33 of the pseudocode asks anew for every master row. Requests for part 10 that come in
    # the middle of the cycle would make it cache those suppliers only that follow.
    player = make(ssbj(SUPPLIED))
    cycle(player, 10, 30)
    player.do(Arrive((10, 30)), Scan(2), Arrive((10,) * 9))
    join = player.join
    while join.metrics.cycles < 2:
        player.do(Scan(1))
    player.do(Scan(1))
    assert cached(player) == {}
    while join.metrics.cycles < 3 and join.workspace.waiting:
        player.do(Scan(1))


@pytest.mark.usefixtures("rows_of_one_size")
def test_a_value_that_turns_out_to_have_more_rows_is_given_up_as_a_whole(make: Play) -> None:
    # Nothing of part 10 was counted: it came when the cycle that counts was over.
    player = make(ssbj(SUPPLIED))
    cycle(player, 40, 40)
    cycle(player, 10, 10, 40, 40)
    player.do(Arrive((40, 40)), Scan(1))
    assert cached(player) == {40: 1}


@pytest.mark.usefixtures("rows_of_one_size")
def test_a_value_of_two_portions_is_given_up_as_a_whole(make: Play) -> None:
    # Two of its rows are too many in the first portion, one would be few enough in the second.
    player = make(ssbj((10, 10, 10)))
    cycle(player, 50, 50)
    player.do(Arrive((10, 10, 50, 50)), Scan(1))
    assert player.join.metrics.blocks_read == 3 + 2
    while player.join.metrics.cycles < 2:
        player.do(Scan(1))
    player.do(Arrive((10,)), Scan(1))
    assert cached(player) == {50: 0}


@pytest.mark.usefixtures("rows_of_one_size")
def test_a_value_of_two_portions_is_cached_with_all_its_rows(make: Play) -> None:
    player = make(ssbj((10, 10, 10)))
    cycle(player, *(10,) * 5)
    cycle(player, *(10,) * 5)
    player.do(Arrive((10,)), Scan(1))
    assert cached(player) == {10: 3}


@pytest.mark.usefixtures("rows_of_one_size")
def test_a_value_without_master_rows_becomes_a_negative_entry(make: Play) -> None:
    player = make(ssbj(SUPPLIED, JoinType.LEFT))
    cycle(player, 50, 10)
    cycle(player, 50, 10)
    player.do(Arrive((50, 10)), Scan(1))
    assert cached(player) == {50: 0}
    before = player.join.metrics.results["unmatched"]
    player.do(Arrive((50, 50)))
    assert player.join.metrics.results["unmatched"] == before + 2
    assert player.join.metrics.negative_entries == 1


@pytest.mark.usefixtures("rows_of_one_size")
def test_of_values_without_master_rows_as_many_are_cached_as_there_is_room_for(
    make: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = CacheKeeper._put

    def with_room_for_two(self: CacheKeeper, codes: Codes, *others: Any) -> bool:
        return len(codes) <= 2 and put(self, codes, *others)

    monkeypatch.setattr(CacheKeeper, "_put", with_room_for_two)
    player = make(ssbj(SUPPLIED))
    asked = (50, 51, 51, 52, 53, 53, 53, 10)
    cycle(player, *asked)
    cycle(player, *asked)
    player.do(Arrive(asked), Scan(1))
    assert cached(player) == {53: 0, 51: 0}


@pytest.mark.usefixtures("rows_of_one_size")
def test_waiting_rows_leave_room_for_what_is_collected(make: Play) -> None:
    player = make(ssbj(SUPPLIED))
    cycle(player, *REQUESTED)
    player.do(Arrive(REQUESTED), Scan(1))
    scan, caching = player.join.scan, player.join.caching
    assert caching.coming > 0
    before, coming = scan.rows_per_step(), caching.coming
    caching.coming = player.join.workspace.memory.capacity // 2
    assert scan.rows_per_step() < 0.6 * before
    caching.coming = coming
    while player.join.metrics.cycles < 2:
        player.do(Scan(1))
    player.do(Arrive(REQUESTED), Scan(1))
    assert caching.coming == 0, "it has been moved"


@pytest.mark.usefixtures("rows_of_one_size")
def test_rows_that_wait_when_their_value_is_cached_finish_where_they_are(make: Play) -> None:
    player = make(ssbj(SUPPLIED))
    cycle(player, *REQUESTED)
    cycle(player, *REQUESTED)
    player.do(Arrive(REQUESTED), Scan(2))
    assert cached(player) == {30: 2}
    assert player.join.workspace.waiting == len(REQUESTED)
    player.do(Arrive((30,)))
    assert player.join.workspace.waiting == len(REQUESTED)


@pytest.mark.usefixtures("rows_of_one_size")
def test_every_tenth_cycle_evicts_what_is_asked_for_too_seldom(make: Play) -> None:
    player = make(ssbj((*SUPPLIED, 60, 60)))
    for _ in range(2):
        cycle(player, 10, 30, 30, 30, 60, 60, 60)
    for _ in range(7):
        cycle(player, 10, 30, 30, 30)
    assert cached(player) == {30: 2, 60: 2}
    player.do(Arrive((10,)), Scan(1))
    # 21 requests for part 30 in seven cycles are more than its two suppliers; for part 60, none.
    assert cached(player) == {30: 2}
    assert player.join.workspace.memory.cache.hits.tolist() == [0]


@pytest.mark.usefixtures("rows_of_one_size")
def test_a_new_entry_is_not_judged_by_cycles_before_it_came(make: Play) -> None:
    player = make(ssbj(SUPPLIED))
    for _ in range(6):
        cycle(player, 10)
    # Counted in the seventh cycle, collected in the eighth, cached as the ninth begins.
    for _ in range(2):
        cycle(player, 10, 30, 30, 30)
    player.do(Arrive((10,)), Scan(1), Arrive((30, 30, 30)))
    assert cached(player) == {30: 2}
    while player.join.workspace.waiting:
        player.do(Scan(1))
    player.do(Arrive((10,)), Scan(1))
    # The tenth: three requests in one cycle; f_count / 10 would be 0.3.
    assert cached(player) == {30: 2}


@pytest.mark.parametrize("algorithm", ["ssbj", "auto"])
def test_with_memory_for_all_of_the_master_it_is_a_join_in_memory(
    make: Play, algorithm: str
) -> None:
    """Theorem 3."""
    keys = tuple(range(40))
    player = make(Enrichment((), keys, algorithm=algorithm, memory=2**20, portion_bytes=2000))
    for _ in range(12):
        player.do(Arrive(keys * 12), Scan(10_000))
    join = player.join
    assert cached(player) == dict.fromkeys(keys, 1)
    read, hits = join.metrics.bytes_read, join.metrics.cache_hits
    player.do(Arrive(keys))
    assert join.metrics.cache_hits == hits + len(keys)
    assert join.workspace.waiting == 0
    assert join.metrics.bytes_read == read


class Watched:
    """Notes which blocks a scan reads, and between which reads every row waits for it."""

    def __init__(self, player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
        self.join = player.join
        self.blocks: list[int] = []
        self.began: dict[int, int] = {}
        self.cycles: dict[int, int] = {}
        """For each stamp, in which cycle its row began to wait."""
        self.stays: dict[int, tuple[int, list[int]]] = {}
        """For each stamp the row's code, and the blocks that were read during its stay."""
        master, workspace = self.join.workspace.master, self.join.workspace
        read, leave = master.read, workspace.without_partner

        def reads(first: int, last: int) -> object:
            if last - first < len(master):  # All of it is read by `check_cache` only.
                self._note_arrivals()
                self.blocks += range(first, last)
            return read(first, last)

        def leaves(table: object, index: Index) -> Iterator[Matches]:
            self._note_arrivals()
            mine = workspace.memory.table
            for code, stamp in zip(mine.codes(index), mine.stamps[index], strict=True):
                assert stamp not in self.stays, "leaves twice"
                cycles = self.join.metrics.cycles - self.cycles[stamp]
                assert cycles <= 1, "waits for more than a cycle"
                self.stays[stamp] = (int(code), self.blocks[self.began[stamp] :])
            return leave(mine, index)

        monkeypatch.setattr(master, "read", reads)
        monkeypatch.setattr(workspace, "without_partner", leaves)

    def _note_arrivals(self) -> None:
        for stamp in self.join.workspace.memory.table.stamps:
            self.began.setdefault(int(stamp), len(self.blocks))
            self.cycles.setdefault(int(stamp), self.join.metrics.cycles)


def random_arrivals(player: Player, keys: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        some = tuple(rng.integers(0, keys, rng.integers(0, 4)).tolist())
        player.do(Arrive(some), Scan(int(rng.integers(0, 3))))


@pytest.mark.parametrize("algorithm", ["meshjoin", "ssbj"])
def test_each_row_sees_exactly_one_full_cycle(
    make: Play, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Enrichment((), tuple(range(30)), algorithm=algorithm, block_bytes=1, portion_bytes=2500)
    player = make(case)
    watched = Watched(player, monkeypatch)
    random_arrivals(player, 40)
    blocks = len(player.join.workspace.master)
    assert blocks > 10
    assert len(watched.stays) > 50
    for _, stay in watched.stays.values():
        assert sorted(stay) == list(range(blocks))


def test_a_row_sees_the_blocks_of_its_code_once_and_few_others(
    make: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = (*range(30), *(7,) * 20)
    case = Enrichment((), master, block_bytes=1, portion_bytes=2500, costs=FAR, memory=12_000)
    player = make(case)
    watched = Watched(player, monkeypatch)
    random_arrivals(player, 40)
    places = player.join.workspace.master.places
    assert len(watched.stays) > 40
    for code, stay in watched.stays.values():
        has = [n for n in range(len(places)) if places.first[n] <= code <= places.last[n]]
        seen = [block for block in stay if block in has]
        # A row that comes when the scan stands inside its code waits for the next cycle.
        missed = len(seen) - len(has)
        assert seen == has[len(has) - missed :] + has
        assert missed == 0 or missed < len(has)
    assert player.join.metrics.blocks_skipped > 0


def test_a_code_that_no_block_has_is_answered_without_a_read(make: Play) -> None:
    player = make(Enrichment((), (1, 2, 3), JoinType.ANTI, block_bytes=1))
    player.do(Arrive((50, 60, 70)), Scan(10_000))
    assert player.join.metrics.blocks_read == 0
    assert player.join.metrics.results["unmatched"] == 3
    assert player.join.metrics.negative_entries == 3


def test_rows_that_came_before_their_code_was_cached_are_no_second_entry(make: Play) -> None:
    # There is room for some of them at a time, and none was found in the cache when they came.
    player = make(Enrichment((), tuple(range(30)), memory=20_000))
    player.do(Arrive((3,) * 900))
    assert player.join.metrics.cycles > 1
    assert cached(player) == {3: 1}


def test_one_row_reads_one_block(make: Play) -> None:
    player = make(Enrichment((), tuple(range(60)), block_bytes=1, costs=FAR))
    player.do(Arrive((17,)), Scan(10_000))
    assert player.join.metrics.blocks_read == 1


def test_blocks_between_two_that_are_wanted_are_read_if_a_seek_takes_longer(make: Play) -> None:
    # By default here, a seek takes as long as any gap.
    player = make(Enrichment((), tuple(range(60)), block_bytes=1, portion_bytes=10**6))
    player.do(Arrive(tuple(range(0, 60, 7))), Scan(10_000))
    assert player.join.metrics.steps <= 2
    assert player.join.metrics.blocks_read > 9


def test_the_scan_goes_on_inside_a_code_that_is_larger_than_a_portion(make: Play) -> None:
    player = make(Enrichment((), (7,) * 50, JoinType.LEFT, block_bytes=1, portion_bytes=2500))
    player.do(Arrive((7, 7, 8)), Scan(2))
    scan = player.join.scan
    assert isinstance(scan, SkippingScan)
    assert scan.inside is not None
    # Those that come now have missed its beginning, and the scan stands there when it is restored.
    player.do(Arrive((7,)), Scan(1), Save(), Arrive((7, 9)), Scan(1))
    assert player.join.workspace.waiting


def test_the_scan_may_come_from_one_such_code_into_the_next(make: Play) -> None:
    master = (7,) * 25 + (8,) * 25
    player = make(Enrichment((), master, JoinType.LEFT, block_bytes=1, portion_bytes=2500))
    player.do(Arrive((7, 8)), Scan(1), Arrive((7, 8)))
    stood = 0
    while player.join.workspace.waiting:
        player.do(Scan(1), Save())
        scan = player.join.scan
        assert isinstance(scan, SkippingScan)
        stood += scan.inside is not None
    assert stood > 6


def test_cmeshjoin_refuses_a_master_with_two_rows_of_a_key(tmp_path: Path) -> None:
    player = Player(Enrichment((), (1, 2, 2), algorithm="cmeshjoin"), tmp_path)
    with pytest.raises(InvalidArgument, match=r"whose keys are unique.*Use auto or ssbj"):
        player.do(Arrive((1,)), Scan(10_000))
    player.join.close()


def test_cmeshjoin_takes_different_keys_of_one_hash(make: Play) -> None:
    case = Enrichment(
        (), tuple(range(20)), algorithm="cmeshjoin", codes="three hashes", key="string"
    )
    player = make(case)
    for _ in range(5):
        player.do(Arrive((3,) * 60), Scan(10_000))
    assert len(player.join.workspace.memory.cache) == 0


def test_cmeshjoin_caches_a_row_where_it_is_met(make: Play) -> None:
    player = make(Enrichment((), tuple(range(20)), algorithm="cmeshjoin"))
    player.do(Arrive((3,) * 60), Scan(10_000))
    assert cached(player) == {3: 1}
    player.do(Arrive((3, 4)))
    assert player.join.metrics.cache_hits == 1


def test_the_default_caches_what_is_worth_it_although_waiting_rows_fill_memory(
    tmp_path: Path,
) -> None:
    """On the way to Theorem 3: memory has room for all of the master, and rows never pause. If no
    room is kept for what is worth it, a fifth of them is served by the cache for ever."""
    tables = Zipf(20_000, 0.0, 1)
    lay(tables, tmp_path / "master")
    join = make_enricher(
        "auto",
        tables.schema,
        master=opened(tmp_path / "master"),
        memory=MemoryAccount(9_600_000),
        spill=SpillArea(tmp_path),
        clock=lambda: 0.0,
    )
    stream, served = Rows(tables, 0), 0.0
    for _ in range(48):
        before, came = join.metrics.cache_hits, 0
        for batch in stream.take(50_000):
            for matches in join.push(0, batch):
                assert len(matches)
            came += len(batch)
        served = (join.metrics.cache_hits - before) / came
    join.close()
    assert served > 0.6
