"""Lays the versions of a master table down, in a thread of its own, while the join goes on."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import InputChanged
from watersmeet.local.inbox import Closed, Inbox
from watersmeet.local.masters import MasterInput, patiently
from watersmeet.local.reader import check_rows, fitting
from watersmeet.local.sources import Source
from watersmeet.operators.enriching import MASTER, check_new_version
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.leftovers import Leftovers
from watersmeet.store.master.laying import encoder, lay_down
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea

_PATIENCE_S = 0.25
# A new version is laid down with this part of the memory, which the join lends. The first one is
# laid down before there is a join, and leaves this part to input that waits.
_SHARE = 8


class Keeper:
    """Lays down the master, and every `refresh` seconds what has become of it, if it has changed.

    Each version is a file in the spill area, which loses its name as soon as it is open: when the
    join closes it, it is gone.
    """

    def __init__(
        self,
        master: MasterInput,
        first: Source,
        seen: Hashable | None,
        *,
        inbox: Inbox,
        memory: MemoryAccount,
        area: SpillArea,
        refresh: float | None,
        reader_memory: int | None = None,
    ) -> None:
        """`first` is the master as it was opened at the call, after it was `seen` like this. It is
        read by joins of so much memory each, if that is not the memory of all."""
        self._master = master
        self._opened: Source | None = first
        self._seen = seen
        self._name = first.name
        self._columns: pa.Schema = first.schema
        self._inbox = inbox
        self._memory = memory
        self._area = area
        self._refresh = refresh
        self._reader_memory = reader_memory or memory.limit
        self._stopped = threading.Event()
        self._versions = 0
        self._checksums: Any = None
        """Those of the blocks of the latest version."""
        self._thread = threading.Thread(target=self._keep, name="watersmeet-master", daemon=True)

    def start(self, schema: JoinSchema) -> None:
        self._schema = schema
        self._thread.start()

    def stop(self) -> None:
        """Wait a moment for the thread; call after the inbox is closed."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE_S)

    def _keep(self) -> None:
        try:
            self._lay_down(self._memory.limit - self._share)
            while self._refresh is not None and not self._stopped.wait(self._refresh):
                self._look_again()
        except Closed:
            pass
        except BaseException as error:  # Raised again in the caller's thread.
            self._inbox.fail(MASTER, error)

    @property
    def _share(self) -> int:
        return self._memory.limit // _SHARE

    def _look_again(self) -> None:
        seen = patiently(self._master, self._master.look, self._pause)
        if seen is not None and seen == self._seen:
            return
        self._inbox.borrow(self._share)
        try:
            self._lay_down(self._share)
        finally:
            self._inbox.borrow(0)

    def _lay_down(self, memory: int) -> None:
        """Lay the master down as it is now, with so much memory, and tell the join."""
        self._memory.take(memory, "laying down")
        try:
            master = self._laid_down(memory)
        finally:
            self._memory.give(memory, "laying down")
        self._tell(master)

    def _tell(self, master: Master | None) -> None:
        """Hand over a version, unless it is just like the one before."""
        if master is None:
            return
        checksums = master.places.checksums
        if self._checksums is not None and np.array_equal(checksums, self._checksums):
            master.close()
            return
        self._checksums = checksums
        self._inbox.laid_down(MASTER, master)

    def _laid_down(self, memory: int) -> Master | None:
        """The master as it is now, laid down with so much memory; None if nothing is new."""

        def lay_down_now() -> Master | None:
            source, self._opened = self._opened, None
            if source is None:
                self._seen = self._master.look()
                source = self._master.open()
            if source is None:
                return None
            laid = self._lay(source, memory)
            if self._master.look() != self._seen:
                laid.close()
                raise InputChanged(
                    f"{self._name} changed while it was laid down.",
                    remedy="Write a new version to another name, and move it over the old one.",
                )
            return laid

        return patiently(self._master, lay_down_now, self._pause)

    def _lay(self, source: Source, memory: int) -> Master:
        assert source.schema is not None
        check_new_version(self._columns, source.schema, self._name)
        self._versions += 1
        path = self._area.path / f"master-{self._versions:06}"
        described = lay_down(
            self._batches(source),
            encoder(self._schema),
            schema=self._schema.stored(MASTER),
            target=path,
            scratch=self._area,
            memory=memory,
            reader_memory=self._reader_memory,
            version=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
        master = Master.open(path, described)
        path.unlink()
        return master

    def _batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        leftovers = Leftovers(self._memory.limit)
        for batch in leftovers.behind(source.batches()):
            if self._stopped.is_set():
                raise Closed
            check_rows(batch, source.name, self._memory.limit)
            if batch.schema.names != self._columns.names:
                batch = batch.select(self._columns.names)
            yield fitting(batch, self._columns, source.name)

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise Closed
