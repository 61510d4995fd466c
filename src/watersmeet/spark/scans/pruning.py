"""Can a file or a row group hold a row that the filter keeps? The values in a file's path may rule
it out, or a row group's least and greatest values.

Only whole numbers are looked at, days and microseconds among them: of text a writer may have kept a
shortened form, and of floats NaN is in no statistics.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.expressions.nodes import Column, Compare, In, Literal, Node
from watersmeet.parquet.footers import Range
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.footers import FileFooter
from watersmeet.spark.scans.plan import Branch

_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def matching(branch: Branch) -> tuple[DataFile, ...]:
    """Without the files whose every row the filter drops for the values in their path."""
    taken, files = branch.selection, branch.files
    if taken.filter is None or not files:
        return files
    known = {
        column.field.name: pa.array(
            [file.partition[column.partition] for file in files], column.field.type
        )
        for column in taken.columns
        if column.partition is not None
    }
    keep = np.ones(len(files), dtype=bool)
    for part in taken.filter.conjuncts:
        if part.names and part.names <= known.keys() and not part.can_fail:
            keep &= part.mask(known).fill_null(False).to_numpy(zero_copy_only=False)
    return tuple(file for file, kept in zip(files, keep, strict=True) if kept)


def may_hold(footer: FileFooter, group: int, conditions: Iterable[Node]) -> bool:
    """Whether a row of a row group can fulfil all of them."""
    return all(_may_fulfil(footer, group, condition) for condition in conditions)


def _may_fulfil(footer: FileFooter, group: int, condition: Node) -> bool:
    match condition:
        case Compare(sign, Column(_, name), Literal(value)) if isinstance(value, int):
            ends = footer.range(group, name)
            return ends is None or _meets(sign, ends, value)
        case In(Column(_, name), values):
            ends = footer.range(group, name)
            return ends is None or any(_meets("=", ends, value) for value in values)
    return True


def _meets(sign: str, ends: Range, value: Any) -> bool:
    least, greatest = ends
    if sign in ("=", "<=>"):
        return bool(least <= value <= greatest)
    if sign in ("<", "<="):
        return bool(_ORDERS[sign](least, value))
    if sign in (">", ">="):
        return bool(_ORDERS[sign](greatest, value))
    return True
