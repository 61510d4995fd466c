"""The paper's four relations: a chain R1 -a1- R2 -a2- R3 -a3- R4, or a star on one attribute."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from watersmeet.reproduce.miner.settings import SKEW, Workload
from watersmeet.rows.address import Index
from watersmeet.rows.on import Equal
from watersmeet.rows.schema import JoinSchema
from watersmeet.sim.arrivals import Arrivals
from watersmeet.sim.keys import UniqueKeys, ZipfKeys

Relation = dict[str, Index]


@lru_cache(maxsize=2)
def relations(rows: int, keys: int, seed: int) -> dict[int, Relation]:
    """R1 to R4. R2 and R3 have Zipf values in both attributes, independent of each other; R1 and R4
    have every value once, in random order."""
    rng = np.random.default_rng([seed, rows])
    zipf, unique = ZipfKeys(keys, SKEW), UniqueKeys(keys)
    return {
        2: {"a1": zipf.draw(rows, rng), "a2": zipf.draw(rows, rng)},
        3: {"a2": zipf.draw(rows, rng), "a3": zipf.draw(rows, rng)},
        1: {"a1": unique.draw(keys, rng)},
        4: {"a3": unique.draw(keys, rng)},
    }


def join_size(workload: Workload, seed: int) -> int:
    """How many results there are: every row of R2 and R3 has one partner in R1 and in R4."""
    data = relations(workload.rows, workload.keys, seed)
    counts = (np.bincount(data[number]["a2"], minlength=workload.keys + 1) for number in (2, 3))
    return int(np.multiply(*counts).sum())


def arrivals_of(workload: Workload, seed: int) -> Arrivals:
    """The rows that arrive, the same for every algorithm and every size of memory."""
    data = relations(workload.rows, workload.keys, seed)
    tables = [_table(workload, data[number]) for number in workload.relations]
    rng = np.random.default_rng([seed, workload.inputs])
    return Arrivals.of_tables([workload.delay] * workload.inputs, tables, rng=rng)


def schema_of(workload: Workload) -> JoinSchema:
    data = relations(1, 1, 0)
    schemas = [_table(workload, data[number]).schema for number in workload.relations]
    first = workload.relations[0]
    joined = [
        Equal.of("a" if workload.star else f"a{first + place}", (place, place + 1))
        for place in range(workload.inputs - 1)
    ]
    return JoinSchema.resolve_many(schemas, joined)


def _table(workload: Workload, relation: Relation) -> pa.RecordBatch:
    """A relation with the attributes that are joined: in a star that of R2 and R3, or the key."""
    if workload.star:
        column = relation.get("a2", next(iter(relation.values())))
        return pa.record_batch({"a": pa.array(column)})
    joined = {f"a{number}" for number in workload.relations[:-1]}
    return pa.record_batch({n: pa.array(c) for n, c in relation.items() if n in joined})
