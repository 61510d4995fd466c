"""Tables of a PostgreSQL server, as Arrow batches, through the driver of the Arrow project."""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from urllib.parse import urlsplit

import pyarrow as pa

from watersmeet.errors import InvalidArgument, MissingPackage, Unreachable, one_line
from watersmeet.rows.spans import parse_seconds
from watersmeet.words import seconds_text

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
_BATCH_BYTES = "adbc.postgresql.batch_size_hint_bytes"
_SECRET = re.compile(r"\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|\S+)\s*", re.IGNORECASE)


def postgres(
    uri: str, query: str, *, changes: str | None = None, patience: float | str = "1 minute"
) -> Postgres:
    """The rows of a query of a PostgreSQL server, for `wm.local.enrich` to take as its master.

    Parameters
    ----------
    uri
        The server and its database, as in "postgresql://user:password@host:5432/database".
    query
        The rows and columns that are wanted, as in "SELECT id, name FROM customers".
    changes
        A cheap query whose answer is another one when the rows are, as in "SELECT max(updated),
        count(*) FROM customers". Without it all rows are read again at each `refresh`.
    patience
        For how long the server is asked again, after longer and longer pauses, when it does not
        answer. After that an error is raised.

    Needs the package `adbc-driver-postgresql`, which comes with the extra `postgres`.

    Examples
    --------
    >>> postgres("postgresql://ada:secret@db.example/shop", "SELECT id, name FROM items")
    <PostgreSQL db.example/shop: SELECT id, name FROM items>
    """
    for name, value in (("uri", uri), ("query", query), ("changes", changes or query)):
        if not isinstance(value, str) or not value.strip():
            raise InvalidArgument(
                f"{name} is {type(value).__name__ if value else 'empty'}, not text.",
                remedy='Write for example wm.postgres("postgresql://host/database", "SELECT ...").',
            )
    _driver()
    return Postgres(uri, query, parse_seconds(patience, name="patience"), changes)


@dataclass(frozen=True, repr=False)
class Postgres:
    """A query of a PostgreSQL server."""

    uri: str = field(repr=False)
    query: str
    patience: float
    changes: str | None = None

    def __repr__(self) -> str:
        return f"<PostgreSQL {self.server}: {' '.join(self.query.split())}>"

    @property
    def server(self) -> str:
        """The server and its database, without user and password."""
        if "://" not in self.uri:
            return _SECRET.sub("", self.uri).strip()
        parts = urlsplit(self.uri)
        return f"{parts.netloc.rpartition('@')[2]}{parts.path}"

    def open(self, batch_bytes: int) -> pa.RecordBatchReader:
        """Ask the server, and return its rows in batches of about so many bytes."""
        with contextlib.ExitStack() as opening:
            connection = opening.enter_context(_driver().connect(self.uri))
            cursor = opening.enter_context(connection.cursor())
            cursor.adbc_statement.set_options(**{_BATCH_BYTES: str(max(batch_bytes, 1))})
            cursor.execute(self.query)
            reader = opening.enter_context(cursor.fetch_record_batch())
            return _closing(reader, opening.pop_all())

    def look(self) -> Hashable | None:
        """What the query about changes answers; None if there is none."""
        if self.changes is None:
            return None
        with _driver().connect(self.uri) as connection, connection.cursor() as cursor:
            cursor.execute(self.changes)
            return tuple(map(tuple, cursor.fetchall()))

    def pause_after(self, error: Exception, *, tries: int, seconds: float) -> float:
        """Seconds to wait before the server is asked again, or an error if that is in vain."""
        driver = _driver()
        if isinstance(error, driver.ProgrammingError | driver.NotSupportedError):
            raise InvalidArgument(
                f"The PostgreSQL server {self.server} refused the query of the master: "
                f"{one_line(error)}.",
                remedy="Mend the query; psql runs it, too.",
            ) from error
        if not isinstance(error, driver.Error | pa.ArrowException | OSError):
            raise error
        if seconds >= self.patience:
            raise Unreachable(
                f"The PostgreSQL server {self.server} did not answer within "
                f"{seconds_text(self.patience)}, asked {tries} times; the last time it said: "
                f"{one_line(error)}.",
                remedy="Check that it runs and that address, user and password are right, or have "
                'more patience, as in wm.postgres(..., patience="10 minutes").',
            ) from error
        pause = min(_FIRST_PAUSE_S * 2.0 ** (tries - 1), _LONGEST_PAUSE_S)
        return min(pause, max(self.patience - seconds, 0))


def _closing(reader: pa.RecordBatchReader, opened: contextlib.ExitStack) -> pa.RecordBatchReader:
    """The reader, which closes its connection after its last batch, or when it is dropped."""

    def batches() -> Iterator[pa.RecordBatch]:
        with opened:
            yield from reader

    closing = pa.RecordBatchReader.from_batches(reader.schema, batches())
    weakref.finalize(closing, opened.close)
    return closing


def _driver() -> ModuleType:
    try:
        from adbc_driver_postgresql import dbapi
    except ModuleNotFoundError as error:
        raise MissingPackage(
            "wm.postgres reads through adbc-driver-postgresql, which is not installed.",
            remedy="Run `pip install adbc-driver-postgresql`, or `pip install '.[postgres]'` in a "
            "clone of watersmeet.",
        ) from error
    module: ModuleType = dbapi
    return module
