"""About how many distinct keys have arrived: the |A_join| of the papers."""

from __future__ import annotations

import base64

import numpy as np

from watersmeet.kernels import matching

_REGISTERS = 2**12
_ALPHA = 0.7213 / (1 + 1.079 / _REGISTERS)


class DistinctKeys:
    """HyperLogLog over key hashes (Flajolet et al., AofA 2007); standard error 1.6%."""

    def __init__(self) -> None:
        self._registers = np.zeros(_REGISTERS, np.uint8)

    def update(self, hashes: np.ndarray) -> None:
        matching.count_distinct(self._registers, hashes)

    def get(self) -> float:
        raw = _ALPHA * _REGISTERS**2 / float(np.sum(2.0 ** -self._registers.astype(float)))
        empty = int(np.count_nonzero(self._registers == 0))
        if raw <= 2.5 * _REGISTERS and empty:
            return float(_REGISTERS * np.log(_REGISTERS / empty))
        return float(raw)

    def save(self) -> str:
        return base64.b64encode(self._registers.tobytes()).decode()

    def load(self, saved: str) -> None:
        self._registers = np.frombuffer(base64.b64decode(saved), np.uint8).copy()
