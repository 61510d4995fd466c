"""The codes of a batch's rows under one predicate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.leaves import Mask

Codes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Codes of rows. Rows that are not `valid` have a null value and match nothing.

    `valid` is None if no row has. `hidden` is a column that must be stored with the rows, because
    candidates are verified by it.
    """

    codes: Codes
    valid: Mask | None
    hidden: pa.Array | None = None
