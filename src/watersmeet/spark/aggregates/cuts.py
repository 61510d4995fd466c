"""How finely Spark is to cut the files of a DataFrame whose partitions are sampled."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Self

import numpy as np
from pyspark.sql import DataFrame

from watersmeet.spark.frames import footers_of, row_group_bytes, source_bytes

# A partition of so many bytes of text takes Spark about a tenth of a second, and starting its task
# a tenth of that.
_PARTITION_BYTES = 4 * 2**20
# There is an estimate before the last from 54 blocks on.
FEWEST_PARTITIONS, MOST_PARTITIONS = 64, 1024
# Where Spark's cuts may fall anywhere among row groups: with few of them in a partition, one more
# or less would be most of how partitions differ.
_GROUPS_EACH = 3
# Of Parquet a task of less than this is mostly its start.
_LEAST_PIECE = 2**20
# As many files are looked at; what differs among them is taken for what differs among all.
_LOOKED_AT = 8
# So much of a piece is missing from the last one of a file, so that files that are a little larger
# than those have no piece more, without a row.
_SHORT = 0.25
# Pieces whose rows differ by no more than such a part of them are alike.
_ALIKE = 0.2


@dataclass(frozen=True)
class Cut:
    """`many` partitions, or pieces of just so many bytes of each file, with its last one smaller.

    An early look is of a fixed number of partitions, so that it comes the sooner the smaller they
    are; but an interval is the narrower the more they are alike.
    """

    many: int
    nbytes: int | None = None

    @classmethod
    def of(cls, dataframe: DataFrame) -> Self:
        """So many partitions that a first look is short and no single one decides an answer, but
        not so many that starting their tasks takes longer than their work."""
        total = source_bytes(dataframe) or 0
        between_groups = _between_groups(dataframe, total)
        if between_groups is not None:
            return cls(*between_groups)
        return cls(_number(total, max(_PARTITION_BYTES, _GROUPS_EACH * row_group_bytes(dataframe))))

    @classmethod
    def of_text(cls, nbytes: int) -> Self:
        """Of files of text that our tasks read, of so many bytes together."""
        return cls(_number(nbytes, _PARTITION_BYTES))


def _number(nbytes: int, each: int) -> int:
    return min(max(nbytes // each, FEWEST_PARTITIONS), MOST_PARTITIONS)


def _between_groups(dataframe: DataFrame, total: int) -> tuple[int, int] | None:
    """How many partitions, and their bytes, with which Spark cuts each Parquet file between row
    groups, so that all have about the same rows, and as few as can be; None if there are none.

    Spark gives a row group to the piece in which its middle lies.
    """
    files = footers_of(dataframe, most=_LOOKED_AT)
    if not files:
        return None
    largest = max(size for size, _ in files)
    groups = [np.array(footer.middles(), np.int64).reshape(-1, 2).T for _, footer in files]
    for pieces in range(max(middles.size for middles, _ in groups), 0, -1):
        nbytes = ceil(largest / (pieces - _SHORT))
        many = total * pieces // largest
        if nbytes < _LEAST_PIECE or many > MOST_PARTITIONS:
            continue
        if many < FEWEST_PARTITIONS:
            return None
        rows = np.concatenate(
            [
                np.bincount(middles // nbytes, rows, minlength=-(-size // nbytes))
                for (size, _), (middles, rows) in zip(files, groups, strict=True)
            ]
        )
        if np.ptp(rows) <= _ALIKE * rows.mean():
            return many, nbytes
    return None
