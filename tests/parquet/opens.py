"""Counts how often this process opens Parquet files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest


def count_opens(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file has been opened from now on, by name. Given metadata, its footer is not
    read again, and that does not count."""
    opens: Counter[str] = Counter()
    read_metadata = pq.read_metadata

    class Counted(pq.ParquetFile):  # type: ignore[misc]
        def __init__(self, source: Any, *args: Any, **options: Any) -> None:
            if options.get("metadata") is None:
                opens[Path(source).name] += 1
            super().__init__(source, *args, **options)

    def counted(where: Any, *args: Any, **options: Any) -> Any:
        opens[Path(where).name] += 1
        return read_metadata(where, *args, **options)

    monkeypatch.setattr(pq, "ParquetFile", Counted)
    monkeypatch.setattr(pq, "read_metadata", counted)
    return opens
