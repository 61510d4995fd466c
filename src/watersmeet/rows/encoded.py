"""What a predicate makes of the rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.rows.leaves import Mask

Codes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Codes of rows; those that are not `valid` lack a value, and match nothing.

    `valid` is None when every row has one. `hidden` is a column that must be stored with each row,
    because values are decided by it.
    """

    codes: Codes
    valid: Mask | None
    hidden: pa.Array | None = None
