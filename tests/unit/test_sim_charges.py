"""What I/O and processing cost, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from watersmeet.sim.charges import Disk, Processor
from watersmeet.sim.clock import VirtualClock
from watersmeet.sim.meter import Meter
from watersmeet.store.spill import Io, IoKind

DISK = Disk(random=0.01, sequential=0.001, page_rows=102)


def test_rows_fill_pages_of_102_and_a_run_has_at_least_one() -> None:
    first = [DISK.pages(Io(IoKind.SCAN, rows, 0, True)) for rows in (0, 1, 102, 153, 1020)]
    assert first == [0, 1, 1, 1.5, 10]
    assert DISK.pages(Io(IoKind.SCAN, 51, 0, False)) == 0.5


@pytest.mark.parametrize("kind", [IoKind.FLUSH, IoKind.SCAN])
def test_a_run_in_order_costs_one_random_page_and_then_sequential_ones(kind: IoKind) -> None:
    # 1020 rows are 10 pages: 1 random and 9 sequential.
    assert DISK.seconds(Io(kind, 1020, 0, True)) == pytest.approx(0.01 + 9 * 0.001)
    # Its next block goes on where the first one ended.
    assert DISK.seconds(Io(kind, 1020, 0, False)) == pytest.approx(10 * 0.001)
    assert DISK.seconds(Io(kind, 5, 0, True)) == pytest.approx(0.01)
    assert DISK.seconds(Io(kind, 0, 0, True)) == 0.0


@pytest.mark.parametrize("kind", list(IoKind))
@pytest.mark.parametrize("block_rows", [102, 7 * 102, 1020])
def test_the_size_of_blocks_does_not_change_the_price_of_a_run(
    kind: IoKind, block_rows: int
) -> None:
    whole = DISK.seconds(Io(kind, 10_200, 0, True))
    sizes = [min(block_rows, 10_200 - start) for start in range(0, 10_200, block_rows)]
    cut = sum(DISK.seconds(Io(kind, rows, 0, i == 0)) for i, rows in enumerate(sizes))
    assert cut == pytest.approx(whole)


@pytest.mark.parametrize("kind", list(IoKind))
def test_even_single_row_blocks_cost_at_most_a_page_more(kind: IoKind) -> None:
    whole = DISK.seconds(Io(kind, 10_200, 0, True))
    single = DISK.seconds(Io(kind, 1, 0, True)) + 10_199 * DISK.seconds(Io(kind, 1, 0, False))
    assert whole <= single <= whole + DISK.random


@pytest.mark.parametrize("first", [True, False])
def test_a_merge_pays_a_random_access_for_every_page_both_ways(first: bool) -> None:
    # Et(dd) = 2 c_ran (y1 + y2): 20 pages read and 20 written.
    read = DISK.seconds(Io(IoKind.MERGE_READ, 2040, 0, first))
    written = DISK.seconds(Io(IoKind.MERGE_WRITE, 2040, 0, first))
    assert read + written == pytest.approx(2 * 0.01 * 20)


def test_the_bytes_that_were_really_written_do_not_matter() -> None:
    assert DISK.seconds(Io(IoKind.SCAN, 500, 10, True)) == DISK.seconds(
        Io(IoKind.SCAN, 500, 10_000_000, True)
    )


def test_the_meter_adds_up_disk_and_processor() -> None:
    clock = VirtualClock(3.0)
    price = Processor(arrival=1.0, candidate=0.1, result=0.01, spilled_row=0.001)
    meter = Meter(clock, disk=DISK, processor=price)
    assert meter.first_flush == float("inf")
    meter.observe(Io(IoKind.FLUSH, 204, 0, True))  # 1 random, 1 sequential page
    assert meter.first_flush == 3.0
    assert clock() == pytest.approx(3.011)
    seconds = meter.processing(arrivals=2, candidates=30, results=7)
    assert seconds == pytest.approx(2 * 1.0 + 30 * 0.1 + 7 * 0.01 + 204 * 0.001)
    assert meter.work == pytest.approx(0.011 + seconds)
    # Candidates are a running total; rows are charged once.
    assert meter.processing(arrivals=0, candidates=40, results=0) == pytest.approx(1.0)
    assert clock() == pytest.approx(3.011)  # processor time passes where the driver says


def test_the_runs_of_one_flush_are_written_behind_each_other() -> None:
    clock = VirtualClock()
    meter = Meter(clock, disk=DISK, processor=Processor())
    meter.observe(Io(IoKind.FLUSH, 1020, 0, True))  # 1 random, 9 sequential pages
    meter.observe(Io(IoKind.FLUSH, 204, 0, True))  # another partition, 2 sequential pages
    assert clock() == pytest.approx(0.01 + 11 * 0.001)
    meter.processing(arrivals=1, candidates=0, results=0)
    meter.observe(Io(IoKind.FLUSH, 102, 0, True))  # another flush, elsewhere on the disk
    assert clock() == pytest.approx(2 * 0.01 + 11 * 0.001)
    meter.observe(Io(IoKind.SCAN, 102, 0, True))
    meter.observe(Io(IoKind.SCAN, 102, 0, True))  # runs that are read lie apart
    meter.observe(Io(IoKind.FLUSH, 102, 0, True))
    assert clock() == pytest.approx(5 * 0.01 + 11 * 0.001)


def test_blocks_that_are_scanned_in_order_are_one_random_access() -> None:
    clock = VirtualClock()
    meter = Meter(clock, disk=DISK, processor=Processor(), scans_in_order=True)
    for _ in range(3):
        meter.observe(Io(IoKind.SCAN, 102, 0, True))
        meter.processing(arrivals=0, candidates=0, results=0)
    assert clock() == pytest.approx(0.01 + 2 * 0.001)
    meter.observe(Io(IoKind.FLUSH, 102, 0, True))  # the disk's arm has moved
    meter.observe(Io(IoKind.SCAN, 102, 0, True))
    assert clock() == pytest.approx(3 * 0.01 + 2 * 0.001)
