"""Homes: processes in which instances of joins live between the tasks that bring their rows.

Spark gives a task to any worker that is free. An operator that a worker has kept is therefore often
in another one than that which gets the next rows, and to build it again from storage takes longer
than to take in a micro-batch. So each instance has a home. The first worker that gets a task of it
forks the home; whichever worker gets the next one sends the rows there, and waits until they are
taken in. Nothing depends on a home: when there is none, the state on disk is what counts.

A home is found by the name of its socket, which the kernel knows as long as the process lives (an
abstract name, as Linux has them). It ends when it is told to, when nobody has come for a while, and
with Spark's daemon, which sends a signal to its whole process group when it ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import select
import socket
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from watersmeet.spark import cache

Answer = TypeVar("Answer")

IDLE_S = 30.0
"""How long a home waits for the next rows. A query that has ended says nothing to its homes."""

_PROCESS_NAME = b"watersmeet-home"
_SET_NAME = 15  # PR_SET_NAME of prctl
# Behind the last row: a worker that was killed has sent fewer rows, and not this.
_END = b"E"
_READY = b"!"
_TRIES = 5
# Instead of the length of a request: there is none, and the home is to end.
_LEAVE = struct.pack("<q", 0)

_forked: list[int] = []
_asking: socket.socket | None = None
"""In a home, the connection to the worker whose work is being done."""
_leaving = False


class HomeLost(RuntimeError):
    """A home has ended in the middle of its work. Another attempt at the task has a new one."""

    def __init__(self) -> None:
        super().__init__(
            "The process in which this instance of the join lives has ended in the middle of its "
            "work: it was killed, or the machine ran out of memory."
        )


def at_home(
    name: str | None,
    work: Callable[..., Answer],
    *arguments: Any,
    batches: Iterator[pa.RecordBatch],
    idle_s: float | None = None,
) -> Answer:
    """What `work(*arguments, batches)` returns or raises, done in the home of this name.

    Without a name, outside of Spark's workers, and where there cannot be a home, it is done here.
    `idle_s` is how long the home then waits for the next rows, `IDLE_S` if not given.
    """
    _reap()
    connection = _connected(name) if name is not None and _can_have_homes() else None
    if connection is None:
        return work(*arguments, batches)
    with connection:
        asked = (work, arguments, IDLE_S if idle_s is None else idle_s)
        request: bytes = cloudpickle.dumps(asked)  # type: ignore[no-untyped-call]
        answer: Answer = _asked(connection, request, batches)
        return answer


def end(name: str) -> None:
    """Let the home of this name end when it has done what it is doing, if there is one here."""
    if sys.platform != "linux":
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, suppress(OSError):
        connection.connect(_address(name))
        if _is_mine(connection):
            connection.sendall(_LEAVE)


def leave() -> None:
    """Called by work that is the last of its home: the home ends when the answer is given."""
    global _leaving
    _leaving = True


def check_wanted() -> None:
    """Called by long work now and then: gives up, and the home ends, if the worker that asked for
    it has ended, as workers do whose tasks are cancelled."""
    if _asking is None:
        return
    poll = select.poll()
    poll.register(_asking, select.POLLRDHUP)
    if poll.poll(0):
        leave()
        raise ConnectionError("The task that asked for this work has ended.")


def _can_have_homes() -> bool:
    return sys.platform == "linux" and TaskContext.get() is not None


# ---- in a worker --------------------------------------------------------------------------------


def _connected(name: str) -> socket.socket | None:
    """A connection to the home of this name, which is begun if there is none. The home has said
    that it listens: one that was about to end when it was called does not."""
    address = _address(name)
    for _ in range(_TRIES):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A function of the user's may have set a limit for all sockets of this worker.
        connection.settimeout(None)
        with suppress(OSError):
            connection.connect(address)
            if not _is_mine(connection):
                connection.close()
                return None
            if connection.recv(1) == _READY:
                return connection
        connection.close()
        if not _begun(address):
            return None
    return None


def _address(name: str) -> str:
    return f"\0watersmeet {os.getuid()} {name}"


def _begun(address: str) -> bool:
    """Fork a home. It listens before it is forked, so whoever comes next finds it."""
    # What this worker has kept would be in the home, too, and stay there.
    cache.clear()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            listening.bind(address)
            listening.listen()
            with warnings.catch_warnings():
                # Python warns of locks that other threads hold. Those of Arrow are made anew.
                warnings.simplefilter("ignore", DeprecationWarning)
                process = os.fork()
        except OSError as error:
            return error.errno == errno.EADDRINUSE  # Another worker was faster.
        if process == 0:
            _live(listening)
        _forked.append(process)
    return True


def _reap() -> None:
    """Let go of homes that this worker has forked and that have ended."""
    for process in list(_forked):
        with suppress(ChildProcessError):
            if os.waitpid(process, os.WNOHANG) == (0, 0):
                continue
        _forked.remove(process)


def _asked(connection: socket.socket, request: bytes, batches: Iterator[pa.RecordBatch]) -> Any:
    with connection.makefile("rb") as source:
        try:
            connection.sendall(struct.pack("<q", len(request)) + request)
            for message in _messages(batches):
                connection.sendall(message)
            connection.sendall(_END)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It says why, if it can.
        try:
            is_done, answer = pickle.load(source)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise HomeLost from error
    if not is_done:
        raise answer
    return answer


def _messages(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """Arrow's messages with their lengths before them; the schema comes first."""
    first = True
    for batch in batches:
        if first:
            schema = batch.schema.serialize()
            yield struct.pack("<cq", b"S", len(schema))
            yield schema
            first = False
        rows = batch.serialize()
        yield struct.pack("<cq", b"R", len(rows))
        yield rows


# ---- in a home ----------------------------------------------------------------------------------


def _live(listening: socket.socket) -> NoReturn:
    """Do what is asked for, one after the other, until nobody asks any more."""
    global _asking, _leaving
    try:
        _leave_the_worker(listening)
        listening.settimeout(IDLE_S)
        _leaving = False
        while not _leaving:
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                break
            with connection:
                connection.settimeout(None)
                if _is_mine(connection):
                    with suppress(OSError):  # Who came may be gone, and has still said something.
                        connection.sendall(_READY)
                    _asking = connection
                    with suppress(OSError):
                        listening.settimeout(_serve(connection))
                    _asking = None
        listening.close()
        cache.clear()
    finally:
        # Nothing else of what the worker would do at its end is to be done here.
        os._exit(0)


def _leave_the_worker(listening: socket.socket) -> None:
    """Let go of the connections to Spark: it must notice when the worker ends. The numbers of the
    files stay taken, since objects of the worker still refer to them."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_NAME, _PROCESS_NAME, 0, 0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for entry in [*Path("/proc/self/fd").iterdir()]:
        number = int(entry.name)
        if number > 2 and number not in (listening.fileno(), nowhere):
            with suppress(OSError):
                os.fstat(number)
                os.dup2(nowhere, number)


def _serve(connection: socket.socket) -> float:
    """Do what one worker asks for; returns how long to wait for the next one."""
    idle_s = IDLE_S
    with connection.makefile("rb") as source:
        try:
            request = _exactly(source, "<q")
            if not request:
                leave()
                return idle_s
            work, arguments, idle_s = cloudpickle.loads(request)
            answer = True, work(*arguments, _received(source))
        except Exception as error:  # Whatever it is, the worker raises it.
            answer = False, error
        with suppress(OSError):
            connection.sendall(_pickled(answer))
    return idle_s


def _received(source: IO[bytes]) -> Iterator[pa.RecordBatch]:
    schema = None
    while (kind := source.read(1)) != _END:
        if kind == b"S":
            schema = pa.ipc.read_schema(pa.py_buffer(_exactly(source, "<q")))
        elif kind == b"R":
            yield pa.ipc.read_record_batch(pa.py_buffer(_exactly(source, "<q")), schema)
        else:
            raise ConnectionError("A task has ended while its rows were on their way.")


def _exactly(source: IO[bytes], length: str) -> bytes:
    """So many bytes as the number in front of them says."""
    text = source.read(struct.calcsize(length))
    if len(text) == struct.calcsize(length):
        (wanted,) = struct.unpack(length, text)
        found = source.read(wanted)
        if len(found) == wanted:
            return found
    raise ConnectionError("A task has ended while its rows were on their way.")


def _pickled(answer: tuple[bool, Any]) -> bytes:
    try:
        text = pickle.dumps(answer)
        pickle.loads(text)
    except Exception:  # Errors of others are not always made to be sent.
        return pickle.dumps((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
    return text


def _is_mine(connection: socket.socket) -> bool:
    """Whether who is at the other end is the same user: others are told nothing, and believed
    nothing."""
    size = struct.calcsize("3i")
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return bool(struct.unpack("3i", told)[1] == os.getuid())
