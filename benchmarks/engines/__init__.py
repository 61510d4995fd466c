"""The engines that are measured, by name. Each is prepared untimed and started under the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

import pyarrow as pa

from benchmarks.cases import Case, Places

Start = Callable[[], Iterator[pa.RecordBatch]]
"""Begins a prepared run and gives its result batches as the engine gives them."""

# Imported by name, so that no engine's process carries another engine's memory and threads.
_ENGINES = {
    "operator": ("benchmarks.engines.ours", "operator"),
    "local": ("benchmarks.engines.ours", "local"),
    "read": ("benchmarks.engines.arrow_peer", "read"),
    "arrow": ("benchmarks.engines.arrow_peer", "join"),
    "duckdb": ("benchmarks.engines.duckdb_peer", "join"),
    "datafusion": ("benchmarks.engines.datafusion_peer", "join"),
    "datafusion-read": ("benchmarks.engines.datafusion_peer", "read"),
}


def prepare(case: Case, places: Places) -> Start:
    module, name = _ENGINES[case.engine]
    start: Start = getattr(import_module(module), name)(case, places)
    return start
