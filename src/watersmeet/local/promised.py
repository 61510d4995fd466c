"""Promises of a local join: as they were given at the call, and where broken rows go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import InvalidArgument
from watersmeet.operators.family import check_promised
from watersmeet.operators.promised.join import purged_after
from watersmeet.promises.keeper import ON_BROKEN, Broken, PromiseKeeper
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.promises.marked import MarkedOutput, check_punctuations
from watersmeet.rows.on import key_names, name_of
from watersmeet.rows.schema import JoinSchema

# A join with promises needs rows by equal keys, however near other values must be.
_AUTO = "rpj"


class Quarantine:
    """A directory of Parquet files of rows that broke a promise, with the promise as a column."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = len(list(directory.glob("*.parquet")))

    def __call__(self, broken: Broken) -> None:
        causes = pa.array([broken.words[cause] for cause in broken.causes.tolist()], pa.string())
        rows = pa.Table.from_batches([broken.rows])
        name = "broken_promise"
        while name in rows.column_names:
            name = "_" + name
        path = self._directory / f"{name_of(broken.side)}-{self._files:08}.parquet"
        self._files += 1
        # Under another name until it is whole, so that who reads the directory finds no half file.
        half = path.with_suffix(".writing")
        pq.write_table(rows.append_column(name, causes), half)
        half.rename(path)


@dataclass(frozen=True)
class Promised:
    """What the inputs of a join promise, and what to do about it."""

    promises: tuple[PromiseOfValues, ...]
    on_broken: str
    purge: str | int
    quarantine: Quarantine | None
    punctuations: str | None = None
    """The column of the result that says which rows are marker rows; None for none."""

    @classmethod
    def parse(
        cls,
        promises: Sequence[PromiseOfValues],
        *,
        on_broken: str,
        quarantine_dir: str | Path | None,
        purge: str | int,
        punctuations: str | None = None,
    ) -> Promised | None:
        """None if nothing is promised."""
        given = list(promises) if isinstance(promises, Sequence) else [promises]
        if not all(isinstance(each, PromiseOfValues) for each in given):
            raise InvalidArgument(
                f"promises={promises!r} are no promises.",
                remedy='Give a list of them, as in [wm.unique("left")].',
            )
        if on_broken not in ON_BROKEN:
            raise InvalidArgument(
                f"on_broken={on_broken!r} says nothing about rows that break a promise.",
                remedy=f"Give one of {', '.join(map(repr, ON_BROKEN))}.",
            )
        purged_after(purge)
        check_punctuations(punctuations, promised=bool(given))
        if (on_broken == "quarantine") != (quarantine_dir is not None):
            raise InvalidArgument(
                f"on_broken={on_broken!r} with quarantine_dir={quarantine_dir!r}.",
                remedy='Give both on_broken="quarantine" and a directory, or neither.',
            )
        place = None
        if quarantine_dir is not None:
            if not Path(quarantine_dir).is_dir():
                raise InvalidArgument(
                    f"quarantine_dir={str(quarantine_dir)!r} is no directory.",
                    remedy="Make it, or name another.",
                )
            place = Quarantine(Path(quarantine_dir))
        if not given:
            return None
        return cls(tuple(given), on_broken, purge, place, punctuations)

    def algorithm(self, on: Any, algorithm: str) -> str:
        """What `auto` is for a join with promises."""
        is_auto = isinstance(algorithm, str) and algorithm.lower() == "auto"
        return _AUTO if is_auto and key_names(on) else algorithm

    def check(self, algorithm: str, schema: JoinSchema | None) -> None:
        """Refuse, at the call, promises that do not fit the join, as far as its columns are
        known."""
        check_promised(algorithm)
        if schema is not None:
            PromiseKeeper(schema, self.promises, on_broken=self.on_broken)
            self.marked(schema)

    def marked(self, schema: JoinSchema) -> MarkedOutput | None:
        """The result with its marker rows; None if it has none."""
        if self.punctuations is None:
            return None
        return MarkedOutput.of(schema, self.promises, self.punctuations)
