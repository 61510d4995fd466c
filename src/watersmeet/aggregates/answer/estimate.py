"""What is known at one moment: an estimate and an interval for every aggregate of every group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.answer.layout import show
from watersmeet.errors import MissingPackage
from watersmeet.estimators import Cells

_NAN = "NaN", object()


@dataclass(frozen=True)
class Progress:
    """How far a run has come: rows are those of the sampled side."""

    look: int
    rows_read: int
    rows: int
    bytes_read: int
    nbytes: int
    seconds: float
    counted: bool = True
    """Whether rows and bytes are known. Of partitions that Spark computes they are guessed."""
    sized: bool = True
    """Whether it is known how many rows there are. If not, `rows` are those read so far."""

    @property
    def fraction(self) -> float:
        """NaN while it is not known how many rows there are."""
        if not self.sized:
            return math.nan
        return self.rows_read / self.rows if self.rows else 1.0

    @property
    def part(self) -> str:
        """What has been read, in words."""
        return f"{self.fraction:.1%}" if self.sized else f"{self.rows_read:,} rows"


@dataclass(frozen=True)
class Unseen:
    """How much of the result may be in groups that have not turned up: about, and at most."""

    share: float
    most: float


@dataclass(frozen=True)
class Estimate:
    """One look. `cells` are arrays [aggregate, group]; once exact, `answer` has Spark's types."""

    names: tuple[str, ...]
    group_names: tuple[str, ...]
    groups: tuple[pa.Array, ...]
    cells: Cells
    progress: Progress
    confidence: float
    exact: bool
    columns: tuple[pa.Array, ...]
    unseen: Unseen | None = None

    @property
    def fraction(self) -> float:
        """The part of the sampled side that was read."""
        return self.progress.fraction

    @property
    def seconds(self) -> float:
        return self.progress.seconds

    @cached_property
    def relative_error(self) -> float:
        """The widest interval's half-width, as a part of its estimate. 0 once exact; infinite
        while a cell has no interval that can be trusted. A total of zero counts by its width."""
        if self.exact:
            return 0.0
        cells = self.cells
        with np.errstate(invalid="ignore"):
            # Nothing is a part of zero.
            relative = np.where(cells.value == 0, (cells.high - cells.low) / 2, cells.relative)
        relative = np.where(cells.trusted, relative, np.inf)
        return float(relative.max()) if relative.size else np.inf

    @cached_property
    def trusted(self) -> bool:
        """Whether every interval can be believed; `reasons` says why not."""
        return bool(self.cells.trusted.all())

    @property
    def reasons(self) -> list[str]:
        """Why some intervals are not to be trusted, each reason once."""
        return sorted({str(reason) for reason in self.cells.reason.ravel() if reason})

    @cached_property
    def arrow(self) -> pa.Table:
        """A row for each group and aggregate."""
        count = len(self.cells.value[0]) if len(self.names) else 0
        everyone = np.tile(np.arange(count), len(self.names))
        columns: dict[str, Any] = {
            name: values.take(pa.array(everyone))
            for name, values in zip(self.group_names, self.groups, strict=True)
        }
        names = np.repeat(np.array(self.names, object), count)
        columns["aggregate"] = pa.array(names.tolist(), pa.string())
        for name, cells in (
            ("estimate", self.cells.value),
            ("low", self.cells.low),
            ("high", self.cells.high),
            ("relative_error", self.cells.relative),
            ("exact", self.cells.exact),
            ("trusted", self.cells.trusted),
        ):
            columns[name] = cells.ravel()
        columns["reason"] = pa.array(self.cells.reason.ravel().tolist(), pa.string())
        return pa.table(columns)

    @property
    def table(self) -> Any:
        """The same as a pandas DataFrame."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise MissingPackage(
                "`table` is a pandas DataFrame, and pandas is not installed.",
                remedy="Install it with `pip install pandas`, or use `arrow`.",
            ) from error
        table = self.arrow.to_pandas()
        for name, values in zip(self.group_names, self.groups, strict=True):
            # pandas' own columns of numbers have one mark for null and NaN, and no integers then.
            if values.null_count and not pt.is_decimal(values.type) and _is_number(values.type):
                table[name] = self.arrow[name].to_pandas(types_mapper=pandas.ArrowDtype)
        return table

    @cached_property
    def answer(self) -> pa.Table:
        """A row for each group: its columns, and each aggregate with its interval's ends.

        Once exact there are no ends, and the values have the types that Spark would give them.
        """
        columns: dict[str, Any] = dict(zip(self.group_names, self.groups, strict=True))
        for number, name in enumerate(self.names):
            if self.exact:
                columns[name] = self.columns[number]
                continue
            # An estimate of nothing is null; one of values among which there is NaN, is NaN.
            absent = self.columns[number].is_null().to_numpy(zero_copy_only=False)
            columns[name] = _nullable(self.cells.value[number], absent)
            columns[f"{name}_low"] = _nullable(self.cells.low[number], absent)
            columns[f"{name}_high"] = _nullable(self.cells.high[number], absent)
            columns[f"{name}_trusted"] = pa.array(self.cells.trusted[number])
        return pa.table(columns)

    def keys(self) -> list[tuple[Any, ...]]:
        """The values of each group's columns, in the order of `cells`."""
        if not self.groups:
            return [()] * self.cells.value.shape[1]
        return list(zip(*(values.to_pylist() for values in self.groups), strict=True))

    def contains(self, other: Estimate) -> list[tuple[str, tuple[Any, ...], bool]]:
        """For each interval that was trusted: does it hold the other's value?"""
        places = {_known(group): place for place, group in enumerate(other.keys())}
        verdicts = []
        for place, group in enumerate(self.keys()):
            found = places.get(_known(group))
            for number, name in enumerate(self.names):
                if not self.cells.trusted[number, place] or found is None:
                    continue
                truth = other.cells.value[number, found]
                low, high = self.cells.low[number, place], self.cells.high[number, place]
                slack = 1e-9 * max(abs(low), abs(high))
                inside = bool(low - slack <= truth <= high + slack)
                verdicts.append((name, group, inside))
        return verdicts

    def show(self, *, groups: int = 20) -> None:
        """Print it for a person to read, and an empty line."""
        print(show(self, groups=groups), end="\n\n")

    def __str__(self) -> str:
        return show(self)

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        by = f" by {', '.join(self.group_names)}" if self.group_names else ""
        if self.exact:
            known = "exact"
        elif np.isfinite(self.relative_error):
            known = f"within ± {self.relative_error:.2%} at {self.confidence:.0%}"
        else:
            known = "not every interval is to be trusted"
        return f"<Estimate of {names}{by}: {self.progress.part} read, {known}>"


def _known(group: tuple[Any, ...]) -> tuple[Any, ...]:
    """A group by which it is found again: NaN equals nothing in Python, not even itself."""
    return tuple(_NAN if value != value else value for value in group)


def _nullable(values: Any, absent: Any) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values) & absent)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind))
