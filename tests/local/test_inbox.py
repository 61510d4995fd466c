from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from watersmeet.local.inbox import Closed, Inbox
from watersmeet.local.news import Arrived, Ended, Failed, News, Wanted
from watersmeet.local.sources import MAX_ROWS
from watersmeet.model import Side
from watersmeet.store.account import MemoryAccount

PATIENCE_S = 30  # Only a bound on how long a broken test hangs.


def opened(account: MemoryAccount, *, share: int) -> Inbox:
    """An inbox of two sides whose columns are known."""
    inbox = Inbox(account, share=share, put_aside=lambda batch: batch)
    for side in Side:
        inbox.show_columns(side, batch_of(0).schema)
    return inbox


def batch_of(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(range(rows), pa.int64())})


@pytest.fixture
def account() -> MemoryAccount:
    return MemoryAccount(2**20)


@pytest.fixture
def inbox(account: MemoryAccount) -> Inbox:
    return opened(account, share=800)


def taken(inbox: Inbox) -> Arrived:
    """The next piece; whatever input wants beyond its share is lent."""
    news = inbox.take(0)
    while isinstance(news, Wanted):
        inbox.lend(news.nbytes)
        news = inbox.take(0)
    assert isinstance(news, Arrived)
    return news


def test_sides_are_served_in_turn_while_both_have_news(inbox: Inbox) -> None:
    for _ in range(2):
        inbox.put(Side.LEFT, batch_of(1))
    inbox.put(Side.RIGHT, batch_of(1))
    assert [taken(inbox).input for _ in range(3)] == [Side.LEFT, Side.RIGHT, Side.LEFT]


def test_any_number_of_inputs_is_served_in_turn(account: MemoryAccount) -> None:
    inbox = Inbox(account, share=800, put_aside=lambda batch: batch, expected=(0, 0, 0))
    for input in (2, 0, 2, 1, 0):
        inbox.put(input, batch_of(1))
    assert [taken(inbox).input for _ in range(5)] == [0, 1, 2, 0, 2]
    inbox.end(1)
    assert inbox.take(0) == Ended(1)


def test_what_input_may_hold_grows_with_the_number_of_inputs(account: MemoryAccount) -> None:
    inbox = Inbox(account, share=800, put_aside=lambda batch: batch, expected=(0, 0, 0))
    for input in range(3):
        inbox.show_columns(input, batch_of(0).schema)
        inbox.put(input, batch_of(100))
    assert isinstance(inbox.take(0), Arrived)
    inbox.put(0, batch_of(100))
    assert inbox.take(0) == Wanted(800)


def test_silence_is_none_and_not_news(inbox: Inbox) -> None:
    assert inbox.take(0) is None
    assert not inbox.has_news()


def test_a_side_has_no_room_once_the_next_batch_would_pass_its_share(inbox: Inbox) -> None:
    assert inbox.has_room(Side.LEFT)
    inbox.put(Side.LEFT, batch_of(50))
    assert inbox.has_room(Side.LEFT)
    inbox.put(Side.LEFT, batch_of(50))
    assert not inbox.has_room(Side.LEFT)
    assert inbox.has_room(Side.RIGHT)


def test_one_batch_is_let_in_however_large(inbox: Inbox) -> None:
    inbox.put(Side.LEFT, batch_of(1))
    inbox.joined(taken(inbox))
    inbox.put(Side.LEFT, batch_of(10_000))
    assert not inbox.has_room(Side.LEFT)


def test_a_large_batch_is_cut_and_counted_until_its_last_piece_is_joined(
    account: MemoryAccount,
) -> None:
    inbox = opened(account, share=8 * 10 * MAX_ROWS)
    whole = batch_of(MAX_ROWS * 2 + 5)
    inbox.put(Side.RIGHT, whole)
    pieces: list[Arrived] = []
    while sum(len(piece.batch) for piece in pieces) < len(whole):
        pieces.append(taken(inbox))
    assert len(pieces) > 2
    assert max(len(piece.batch) for piece in pieces) <= MAX_ROWS
    assert pa.Table.from_batches([piece.batch for piece in pieces]).equals(
        pa.Table.from_batches([whole])
    )
    for piece in pieces[:-1]:
        inbox.joined(piece)
        assert account.by_purpose() == {"input": whole.nbytes}
    inbox.joined(pieces[-1])
    assert account.used == 0


def test_a_side_begins_with_small_pieces_that_double(account: MemoryAccount) -> None:
    inbox = opened(account, share=8 * 10 * MAX_ROWS)
    inbox.put(Side.LEFT, batch_of(10_000))
    sizes = [len(taken(inbox).batch) for _ in range(4)]
    assert sizes == [1024, 2048, 4096, 10_000 - 7 * 1024]
    inbox.put(Side.LEFT, batch_of(10_000))
    assert len(taken(inbox).batch) == 10_000


def test_pieces_are_a_fraction_of_the_share(inbox: Inbox) -> None:
    inbox.put(Side.LEFT, batch_of(400))
    assert taken(inbox).batch.nbytes <= 200


def test_pieces_of_uneven_rows_are_cut_by_their_bytes(account: MemoryAccount) -> None:
    inbox = opened(account, share=40_000)
    lengths = [5_000 if row % 50 == 0 else 1 for row in range(500)]
    inbox.put(Side.LEFT, pa.record_batch({"k": ["x" * length for length in lengths]}))
    pieces: list[pa.RecordBatch] = []
    while sum(len(piece) for piece in pieces) < 500:
        pieces.append(taken(inbox).batch)
    assert max(piece.nbytes for piece in pieces) <= 10_000


LARGE = 1_000  # rows, of 8,000 bytes; a side's share is 800


def reading(inbox: Inbox, side: Side, batches: list[pa.RecordBatch]) -> threading.Thread:
    def read() -> None:
        for batch in batches:
            inbox.wait_for_room(side)
            inbox.put(side, batch)
        inbox.end(side)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def news_of(inbox: Inbox) -> News:
    news = inbox.take(PATIENCE_S)
    assert news is not None, "nothing came"
    return news


def test_a_large_batch_is_asked_for_only_after_rows_have_made_way() -> None:
    account = MemoryAccount(2**20)
    inbox = opened(account, share=800)
    thread = reading(inbox, Side.LEFT, [batch_of(LARGE), batch_of(LARGE)])
    first = news_of(inbox)
    assert first == Wanted(8 * LARGE - 2 * 800)
    inbox.lend(first.nbytes)
    rows = 0
    while rows < LARGE:
        piece = news_of(inbox)
        assert isinstance(piece, Arrived)
        rows += len(piece.batch)
        inbox.joined(piece)
    # Between the two, no more than the second one is wanted, and it comes when that is granted.
    wanted = news_of(inbox)
    while wanted == Wanted(0):
        inbox.lend(0)
        wanted = news_of(inbox)
    assert wanted == first
    assert account.used == 0
    inbox.lend(first.nbytes)
    assert isinstance(news_of(inbox), Arrived)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_two_batches_that_memory_cannot_hold_together_come_one_after_the_other() -> None:
    account = MemoryAccount(12 * LARGE)
    inbox = opened(account, share=800)
    threads = [reading(inbox, side, [batch_of(LARGE)] * 2) for side in Side]
    ended, rows = 0, 0
    while ended < 2:
        news = news_of(inbox)
        if isinstance(news, Wanted):
            inbox.lend(news.nbytes)
        elif isinstance(news, Arrived):
            rows += len(news.batch)
            inbox.joined(news)
        else:
            ended += 1
    assert rows == 4 * LARGE
    assert account.peak == 8 * LARGE
    for thread in threads:
        thread.join(PATIENCE_S)


def test_columns_are_known_before_a_batch_finds_room() -> None:
    inbox = Inbox(MemoryAccount(10), share=800, put_aside=lambda batch: batch)
    assert inbox.columns(Side.RIGHT) is None
    inbox.show_columns(Side.RIGHT, batch_of(0).schema)
    assert inbox.columns(Side.RIGHT) == batch_of(0).schema


def test_an_empty_batch_arrives_with_its_columns(inbox: Inbox) -> None:
    inbox.put(Side.LEFT, batch_of(0))
    assert taken(inbox).batch.schema.names == ["k"]


def test_the_end_and_the_failure_come_after_what_was_delivered(inbox: Inbox) -> None:
    problem = OSError("cut")
    inbox.put(Side.LEFT, batch_of(1))
    inbox.end(Side.LEFT)
    inbox.put(Side.RIGHT, batch_of(1))
    inbox.fail(Side.RIGHT, problem)
    news = [inbox.take(0) for _ in range(4)]
    assert [type(each) for each in news] == [Arrived, Arrived, Ended, Failed]
    assert news[3] == Failed(Side.RIGHT, problem)


def test_a_waiting_reader_goes_on_when_rows_are_joined(inbox: Inbox) -> None:
    inbox.put(Side.LEFT, batch_of(100))
    reader = threading.Thread(target=inbox.wait_for_room, args=[Side.LEFT], daemon=True)
    reader.start()
    while inbox.has_news():
        inbox.joined(taken(inbox))
    reader.join(PATIENCE_S)
    assert not reader.is_alive()


def test_close_wakes_and_stops_readers_and_the_join(inbox: Inbox, account: MemoryAccount) -> None:
    inbox.put(Side.LEFT, batch_of(100))
    stopped = []

    def read() -> None:
        with pytest.raises(Closed):
            inbox.wait_for_room(Side.LEFT)
        stopped.append("reader")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    inbox.close()
    reader.join(PATIENCE_S)
    assert stopped == ["reader"]
    assert account.used == 0
    assert inbox.has_news()
    with pytest.raises(Closed):
        inbox.take(None)
    with pytest.raises(Closed):
        inbox.put(Side.LEFT, batch_of(1))
    inbox.end(Side.LEFT)
    inbox.close()


def test_large_first_batches_are_put_aside_until_both_sides_have_shown_their_columns() -> None:
    """Nothing is joined before that, so nobody would make way for the second one."""
    account, put_aside = MemoryAccount(12 * LARGE), list[int]()

    def aside(batch: pa.RecordBatch) -> pa.RecordBatch:
        put_aside.append(batch.nbytes)
        return batch

    inbox = Inbox(account, share=800, put_aside=aside, expected=(None, None))

    def read(side: Side) -> None:
        inbox.wait_for_room(side)
        inbox.show_columns(side, batch_of(0).schema)
        inbox.put(side, batch_of(LARGE))
        inbox.end(side)

    threads = [threading.Thread(target=read, args=[side], daemon=True) for side in Side]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    # The first one, and no other unless both came at the same moment.
    assert put_aside in ([8 * LARGE], [8 * LARGE] * 2)
    assert account.peak <= 8 * LARGE
    rows = 0
    while rows < 2 * LARGE:
        rows += len(taken(inbox).batch)
    assert rows == 2 * LARGE


def test_a_large_batch_that_nobody_foresaw_is_put_aside_when_memory_is_full() -> None:
    account = MemoryAccount(12 * LARGE)
    inbox = opened(account, share=800)
    account.take(8 * LARGE, "rows")
    inbox.put(Side.LEFT, batch_of(LARGE))
    assert account.by_purpose() == {"rows": 8 * LARGE}
    assert not inbox.has_room(Side.LEFT)
    while inbox.has_news():
        inbox.joined(taken(inbox))
    assert inbox.has_room(Side.LEFT)


def test_a_source_that_hangs_is_waited_for_once(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows how large first batches are, so one side is asked after the other."""
    waits: list[float | None] = []
    inbox = Inbox(account, share=800, put_aside=lambda batch: batch, expected=(None, None))
    for side in Side:
        inbox.show_columns(side, batch_of(0).schema)
    inbox.wait_for_room(Side.LEFT)

    def wait(satisfied: object, timeout: float | None = None) -> bool:
        waits.append(timeout)
        return False  # as if all that time had passed

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(inbox._changed, "wait_for", wait)
            inbox.wait_for_room(Side.RIGHT)
    assert [each for each in waits if each is not None] == [1.0, 0.0]
    inbox.put(Side.LEFT, batch_of(1))
    assert inbox._hangs == [False, False]
