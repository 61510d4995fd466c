"""What can go wrong that a user can act on. Every error names its cause and the remedy."""

from __future__ import annotations


class WatersmeetError(Exception):
    """Base of every error that this package raises on purpose."""

    def __init__(self, cause: str, *, remedy: str) -> None:
        super().__init__(f"{cause} {remedy}")
        self.cause = cause
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes, with all that they know."""
        return _arrived, (type(self), str(self), self.__dict__.copy())


def _arrived(kind: type[WatersmeetError], text: str, known: dict[str, object]) -> WatersmeetError:
    error = kind.__new__(kind, text)
    error.__dict__.update(known)
    return error


class InvalidArgument(WatersmeetError, ValueError):
    """An argument cannot mean anything; found before any row is read."""


class MissingPackage(WatersmeetError, ImportError):
    """A package that this call needs, and that comes as an extra, is not installed."""


class SchemaError(WatersmeetError):
    """Columns or their types do not fit the join."""


class MemoryTooSmall(WatersmeetError):
    """The join cannot run, or cannot go on, inside the memory it was given."""


class SpillError(WatersmeetError):
    """The spill directory cannot be used: unwritable, full, or gone."""


class SpillCorrupted(SpillError):
    """A spilled block is not what was written. No row of it has been used."""


class ConditionFailed(WatersmeetError):
    """The join's condition raised. `__cause__` is its own error where it ran in this process."""


class StateError(WatersmeetError):
    """A saved state does not fit the operator that should be restored from it."""


class PromiseBroken(WatersmeetError):
    """A row came that a source had promised would not come. `row` is that row, by column."""

    def __init__(
        self, cause: str, *, remedy: str, side: str, promise: str, row: dict[str, object]
    ) -> None:
        super().__init__(cause, remedy=remedy)
        self.side = side
        self.promise = promise
        self.row = row


class RunClosed(WatersmeetError):
    """Rows were asked of a run that has been closed. None are given rather than none left."""


class InputChanged(WatersmeetError):
    """A file of the input is no longer what it was when the join began."""


class MalformedInput(WatersmeetError):
    """A stream is not written as its format demands. `line` and `column` say where, from 1."""

    def __init__(self, cause: str, *, remedy: str, line: int, column: int) -> None:
        super().__init__(cause, remedy=remedy)
        self.line = line
        self.column = column


class Unreachable(WatersmeetError):
    """A server that an input comes from does not answer, however often it was asked."""


class SourceFailed(WatersmeetError):
    """An input raised. `__cause__` is its own error; the counts say how far the join had come."""

    def __init__(
        self, cause: str, *, remedy: str, side: str, rows_read: tuple[int, ...], rows_out: int
    ) -> None:
        super().__init__(cause, remedy=remedy)
        self.side = side
        self.rows_read = rows_read
        self.rows_out = rows_out


class FunctionFailed(SourceFailed):
    """A function of the user's, which computes a column of a DataFrame, raised."""

    def __init__(self, cause: str, *, remedy: str) -> None:
        super().__init__(cause, remedy=remedy, side="", rows_read=(0, 0), rows_out=0)


class WorkerLost(WatersmeetError):
    """A process that did a part of the work has ended in the middle of it."""


def one_line(error: BaseException) -> str:
    """What an error of another library says, as part of a sentence of ours.

    >>> one_line(ValueError("Not found in:\\n  a: int64."))
    'Not found in: a: int64'
    """
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
