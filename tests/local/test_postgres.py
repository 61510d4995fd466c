"""A master that is a query of a PostgreSQL server, against a real server."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.inputs import batches, sides
from tests.local.oracle import expected, rows_of
from tests.local.postgres_server import Server
from tests.local.waiting import until
from watersmeet.errors import InvalidArgument, MissingPackage, Unreachable
from watersmeet.local.postgres import Postgres

STREAM, MASTER = sides(2_000)
QUERY = "SELECT k, b FROM master"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    server = Server()
    try:
        server.start()
        put(server, MASTER)
        yield server
    finally:
        server.close()


def put(server: Server, table: pa.Table) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS master")
        cursor.adbc_ingest("master", table)
        connection.commit()


def test_a_query_is_a_master(server: Server) -> None:
    master = wm.postgres(server.uri, QUERY)
    run = wm.local.enrich(STREAM, master, "k", "left", memory="1MB")
    assert rows_of(run.read_all()) == expected(STREAM, MASTER, "left")


def test_a_query_that_is_wrong_is_refused_at_the_call(server: Server) -> None:
    for query, says in (
        ("SELECT nothing FROM master", "column .nothing. does not exist"),
        ("SELECT FROM WHERE", "syntax error"),
        ("SELECT 1 FROM nowhere", "nowhere"),
    ):
        with pytest.raises(InvalidArgument, match=f"refused the query.*{says}"):
            wm.local.enrich(STREAM, wm.postgres(server.uri, query), "k")
    with pytest.raises(wm.errors.SchemaError, match="no column 'k'"):
        wm.local.enrich(STREAM, wm.postgres(server.uri, "SELECT b FROM master"), "k")


def test_a_server_that_does_not_answer_is_named_without_the_password() -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    nobody = wm.postgres(
        "postgresql://ada:secret@127.0.0.1:1/shop", "SELECT 1 AS k", patience="0.3 seconds"
    )
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1/shop did not answer") as caught:
        wm.local.enrich(STREAM, nobody, "k")
    assert "secret" not in str(caught.value)
    assert "asked" in caught.value.cause


@pytest.mark.slow
def test_all_rows_are_read_again_only_if_a_cheap_query_says_so(server: Server) -> None:
    master = wm.postgres(server.uri, QUERY, changes="SELECT max(b) FROM master")
    running: list[Any] = []
    more = pa.table({"k": [5], "b": [9_999]}).cast(MASTER.schema)

    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM.slice(0, 1_000))
        until(lambda: bool(running) and running[0].metrics.rows_in[0] == 1_000)
        put(server, pa.concat_tables([MASTER, more]))
        until(lambda: running[0].metrics.versions_met == 2)
        yield from batches(STREAM.slice(1_000))

    opened: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Postgres, "open", _counted(Postgres.open, opened))
        run = wm.local.enrich(stream(), master, "k", refresh=0.02, wait_threshold=0.01)
        running.append(run)
        found = rows_of(run.read_all())
    put(server, MASTER)
    assert len(opened) == 2
    second = pa.concat_tables([MASTER, more])
    assert found == expected(STREAM.slice(0, 1_000), MASTER) + expected(STREAM.slice(1_000), second)


def _counted(function: Any, calls: list[str]) -> Any:
    def counted(*arguments: Any) -> Any:
        calls.append(function.__name__)
        return function(*arguments)

    return counted


@pytest.mark.slow
def test_a_server_that_comes_back_is_asked_again(server: Server) -> None:
    server.stop()
    started = threading.Timer(1.0, server.start)
    started.start()
    try:
        run = wm.local.enrich(STREAM, wm.postgres(server.uri, QUERY), "k")
        assert rows_of(run.read_all()) == expected(STREAM, MASTER)
    finally:
        started.join()


@pytest.mark.slow
def test_the_query_is_asked_anew_and_a_dead_server_ends_it_with_no_row_lost(
    server: Server,
) -> None:
    running: list[Any] = []
    second = pa.table({"k": MASTER["k"], "b": pa.compute.add(MASTER["b"], 1)})

    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM.slice(0, 1_000))
        until(lambda: bool(running) and running[0].metrics.rows_in[0] == 1_000)
        put(server, second)
        until(lambda: running[0].metrics.versions_met == 2)
        yield from batches(STREAM.slice(1_000))
        until(lambda: running[0].metrics.rows_in[0] == 2_000)
        server.stop()
        threading.Event().wait(60)

    master = wm.postgres(server.uri, QUERY, patience=0.5)
    run = wm.local.enrich(stream(), master, "k", refresh=0.05, wait_threshold=0.01)
    running.append(run)
    found: list[pa.RecordBatch] = []
    try:
        with pytest.raises(Unreachable, match="did not answer"):
            found.extend(run)
    finally:
        server.start()
        put(server, MASTER)
    wanted = expected(STREAM.slice(0, 1_000), MASTER) + expected(STREAM.slice(1_000), second)
    assert rows_of(pa.Table.from_batches(found)) == wanted


def test_without_the_driver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(MissingPackage, match=r"pip install '\.\[postgres\]'"):
        wm.postgres("postgresql://host/db", "SELECT 1")


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("postgresql://ada:secret@db.example:5432/shop", "db.example:5432/shop"),
        ("postgresql:///shop?host=/tmp&password=secret", "/shop"),
        ("host=db.example password='se cret' dbname=shop", "host=db.example dbname=shop"),
        ("host=db.example password=secret", "host=db.example"),
    ],
)
def test_passwords_are_not_shown(uri: str, server: str) -> None:
    query = Postgres(uri, "SELECT 1", 1.0)
    assert query.server == server
    assert "cret" not in repr(query)
