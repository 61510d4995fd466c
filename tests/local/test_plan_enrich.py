"""`wm.plan_enrich`: what it says follows from the tables, and leads back to itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import InvalidArgument, MemoryTooSmall
from watersmeet.local.service_model import Partners
from watersmeet.model import JoinType

ROWS = 40_000


def tables(skewed: bool) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(1)
    keys = (ROWS * rng.random(30_000) ** (8 if skewed else 1)).astype(np.int64)
    facts = pa.array(np.char.add("some fact about ", np.arange(ROWS).astype(str)))
    master = pa.table({"key": rng.permutation(ROWS), "fact": facts})
    return pa.table({"key": keys, "number": np.arange(len(keys))}), master


def test_more_skew_is_served_by_the_cache_and_less_memory_is_slower() -> None:
    steady, master = tables(skewed=False)
    skewed, _ = tables(skewed=True)
    even = wm.plan_enrich(steady, master, "key", memory="1MB", algorithm="ssbj")
    uneven = wm.plan_enrich(skewed, master, "key", memory="1MB", algorithm="ssbj")
    assert even.cached < 0.1
    assert 0.2 < uneven.cached < 1
    assert uneven.cache_bytes < even.memory
    assert even.most_seconds > 0
    assert even.master_rows == ROWS
    whole = wm.plan_enrich(steady, master, "key", memory="64MB", algorithm="ssbj")
    assert (whole.cached, whole.most_seconds, whole.waiting_rows) == (1.0, 0.0, 0.0)
    assert whole.rate > even.rate
    assert "all of the master is cached" in str(whole)


def test_meshjoin_caches_nothing_and_the_words_say_how_long_rows_wait() -> None:
    stream, master = tables(skewed=True)
    plan = wm.plan_enrich(stream, master, "key", memory="1MB", algorithm="meshjoin")
    assert (plan.cached, plan.cache_bytes) == (0.0, 0.0)
    # What memory has room for, in rows of this size.
    assert plan.waiting_rows * plan.measured.sizes.waiting < 2**20
    assert "one round through the master" in str(plan)


def test_a_rate_gives_the_memory_that_serves_it() -> None:
    stream, master = tables(skewed=True)
    plan = wm.plan_enrich(stream, master, "key", rate=1000)
    assert plan.rate >= 1000
    assert plan.memory >= 2**20
    with pytest.raises(InvalidArgument, match="more than one core"):
        wm.plan_enrich(stream, master, "key", rate=1e12)


def test_keys_that_the_master_does_not_have_are_not_counted_as_results() -> None:
    partners = Partners(present=0.25, rows=0.5)
    found = {how: partners.results(JoinType(how)) for how in ("inner", "left", "semi", "anti")}
    assert found == {"inner": 0.5, "left": 1.25, "semi": 0.25, "anti": 0.75}
    # A quarter of the keys that come are the master's, so there are four times as many as it has.
    codes = np.arange(64 * 1000, dtype=np.uint64)
    assert partners.popularity(codes, distinct=16_000).values.sum() == 64_000


def test_a_part_of_the_master_stands_for_all_of_it() -> None:
    stream, master = tables(skewed=False)
    plan = wm.plan_enrich(stream, master.slice(0, ROWS // 4), "key", memory="1MB", master_rows=ROWS)
    assert plan.master_rows == ROWS


def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    stream, master = tables(skewed=False)
    with pytest.raises(InvalidArgument, match="both given"):
        wm.plan_enrich(stream, master, "key", memory="8MB", rate=5)
    with pytest.raises(InvalidArgument, match="no number of rows"):
        wm.plan_enrich(stream, master, "key", rate=-1)
    with pytest.raises(InvalidArgument, match="stream has no rows"):
        wm.plan_enrich(stream.slice(0, 0), master, "key")
    with pytest.raises(InvalidArgument, match="master has no rows"):
        wm.plan_enrich(stream, master.slice(0, 0), "key")
    with pytest.raises(InvalidArgument, match="wrong"):
        wm.plan_enrich(stream, master, "key", algorithm="wrong")
    with pytest.raises(MemoryTooSmall):
        wm.plan_enrich(stream, master, "key", memory="1kB")
    wm.plan_enrich(stream, master, "key", memory="64MB", spill_dir=tmp_path)
    assert list(tmp_path.iterdir()) == [], "files are left behind"
