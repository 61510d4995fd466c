"""An enrichment's resident memory, measured by another process, against the memory it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases import MB
from benchmarks.outside import Watched
from tests.memory.test_resident import ALLOWANCE

CAP = 32 * MB

PROGRAM = """
import sys, time
import numpy as np, pyarrow as pa
import watersmeet as wm

cap, spill, algorithm, how = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
text = pa.array(["some text that is rather long: " * (n % 5) for n in range(10_000)])
schema = pa.schema({"k": pa.int64(), "n": pa.int64(), "text": pa.string()})
random = np.random.default_rng(0)

def master(rows, number):
    def batches():
        for start in range(0, rows, 10_000):
            keys = np.arange(start, start + 10_000)
            yield pa.record_batch([keys, keys + number, text], schema=schema)
    return pa.RecordBatchReader.from_batches(schema, batches())

class Versions:
    wanted = given = 0
    def __init__(self, rows):
        self.rows = rows
    def __call__(self):
        if self.given > self.wanted:
            return None
        self.given += 1
        return master(self.rows, self.given)

def run(rows, count):
    versions, running = Versions(rows), []
    def stream():
        for number in range(count):
            if number == count // 2:
                versions.wanted = 1
                while running[0].metrics.versions_met < 2:
                    yield part()
                    time.sleep(0.01)
            yield part()
    def part():
        return pa.record_batch({"k": random.zipf(1.3, 5_000) % rows, "x": np.arange(5_000)})
    found = wm.local.enrich(
        stream(), versions, "k", how, memory=cap, algorithm=algorithm, refresh=0.05, spill_dir=spill
    )
    running.append(found)
    return sum(map(len, found)), found.metrics

run(20_000, 4)
print("0", flush=True)
sys.stdin.readline()
rows, metrics = run(2_000_000, 200)
print([rows, metrics.versions_met, metrics.bytes_read, metrics.memory_peak], flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["auto", "ssbj"])
def test_stays_within_its_memory_with_a_master_six_times_as_large_in_two_versions(
    algorithm: str, tmp_path: Path
) -> None:
    with Watched(["-c", PROGRAM, str(CAP), str(tmp_path), algorithm, "left"]) as watched:
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        rows, versions, read, counted = watched.hear()
        assert rows >= 1_000_000
        assert versions == 2
        assert read > CAP
        assert counted <= CAP
        assert watched.peak_bytes() <= CAP + ALLOWANCE
