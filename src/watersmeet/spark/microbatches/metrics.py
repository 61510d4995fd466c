"""What each micro-batch did: read back from the state, or written along as the query runs."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from watersmeet.errors import InvalidArgument, StateError
from watersmeet.operators.metrics import Metrics
from watersmeet.spark.microbatches.state import Manifest, StateDirectory

_BATCHES_KEPT = 100
_FLUSHES_KEPT = 10
_WORDY_BATCHES = 5
_SUMMED = (
    "rows_out", "rows_spilled", "bytes_spilled", "flushes", "md_tasks", "dd_tasks", "memory_used",
    "memory_limit", "state_bytes", "restored",
)  # fmt: skip
_COUNTED = ("rows_spilled", "bytes_spilled", "md_tasks", "dd_tasks")


class BatchCounts:
    """The difference that one batch makes to an operator's counters."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before = json.loads(json.dumps(metrics.as_dict()))

    def record(self, **about: Any) -> dict[str, Any]:
        """What the batch did; `about` are facts that the operator does not know."""
        before, now = self._before, self._metrics.as_dict()
        flushes = now["flush_count"] - before["flush_count"]
        latest = [str(flush) for flush in list(self._metrics.flushes)[-_FLUSHES_KEPT:]]
        own = {name: now[name] - before[name] for name in self._metrics.COUNTED}
        own |= {name: now[name] for name in self._metrics.STANDING}
        return about | {
            **({"enriched": own} if own else {}),
            "rows_in": [
                new - old for new, old in zip(now["rows_in"], before["rows_in"], strict=True)
            ],
            "rows_out": now["rows_out"] - before["rows_out"],
            "results": {
                stage: count - before["results"][stage] for stage, count in now["results"].items()
            },
            "flushes": flushes,
            "latest_flushes": latest if flushes else [],
            "memory_used": now["memory_used"],
            "memory_peak": now["memory_peak"],
            **{name: now[name] - before[name] for name in _COUNTED},
        }


def appended(before: Manifest | None, record: dict[str, Any]) -> list[str]:
    """The records of the latest batches, each a text of JSON, which a manifest carries on."""
    earlier: list[str] = list(before["batches"]) if before else []
    # The words for flushes are most of a record.
    if len(earlier) >= _WORDY_BATCHES:
        wordy = json.loads(earlier[-_WORDY_BATCHES])
        earlier[-_WORDY_BATCHES] = json.dumps(wordy | {"latest_flushes": []})
    return [*earlier, json.dumps(record)][-_BATCHES_KEPT:]


def stream_metrics(state: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """What the latest batches of a stream join did, oldest first, each summed over its instances.

    `state` is the one given to `join_streams`, `join_many_streams` or `enrich`. Of each batch there
    are `rows_in` (left and right, or the relations in their order; rows that go to several
    instances count in each), `rows_out`, `results` by the stage that found them (mm, md, dd,
    cleanup, unmatched), `owed` at its end (in the same order: rows that may not have met all that
    has come of the others), what was flushed, the memory in use at its end, the largest
    `memory_peak` of an instance so far, `state_bytes` on disk, how many instances were `restored`
    from there because their worker had changed, and the `seconds` of the slowest instance. The
    latest 100 batches are kept. For `enrich` there is `enriched`, too: rows that the cache served
    (`cache_hits`), blocks and bytes of the master that were read, blocks that were skipped, and at
    its end `waiting_rows`, `patient_rows` and what the cache holds. For joins with promises there
    is `promises`: how many rows were dropped from the state (`purged`), were not kept when they
    came (`dropped_on_arrival`), are in the state at its end (`rows_kept`), and broke which promise
    (`broken`).
    """
    directory = StateDirectory.parse(state)
    directory.check()
    by_batch: dict[int, list[dict[str, Any]]] = {}
    for number in directory.instances():
        instance = directory.instance(number)
        versions = instance.versions()
        manifest = instance.read(versions[-1]) if versions else None
        for text in manifest["batches"] if manifest else []:
            record = json.loads(text)
            by_batch.setdefault(record["batch"], []).append(record)
    return [_summed(batch, by_batch[batch]) for batch in sorted(by_batch)]


def _summed(batch: int, records: list[dict[str, Any]]) -> dict[str, Any]:
    stages = records[0]["results"]
    return {
        "batch": batch,
        "query": records[0]["query"],
        "instances": len(records),
        **{
            name: [sum(rows) for rows in zip(*(record[name] for record in records), strict=True)]
            for name in ("rows_in", "owed")
        },
        "results": {stage: sum(record["results"][stage] for record in records) for stage in stages},
        **{name: sum(record[name] for record in records) for name in _SUMMED},
        **_enriched(records),
        **_promised(records),
        "memory_peak": max(record["memory_peak"] for record in records),
        "seconds": max(record["seconds"] for record in records),
        "latest_flushes": [
            f"instance {record['instance']}, {flush}"
            for record in records
            for flush in record["latest_flushes"]
        ],
    }


def _enriched(records: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """What only joins with a master table count."""
    own: list[dict[str, int]] = [record["enriched"] for record in records if "enriched" in record]
    return {"enriched": {name: sum(each[name] for each in own) for name in own[0]}} if own else {}


def _promised(records: list[dict[str, Any]]) -> dict[str, Any]:
    """What only joins with promises count."""
    own = [record["promises"] for record in records if "promises" in record]
    if not own:
        return {}
    broken: Counter[str] = Counter()
    for each in own:
        broken.update(each["broken"])
    totals = {name: sum(each[name] for each in own) for name in own[0] if name != "broken"}
    return {"promises": {**totals, "broken": dict(broken)}}


class StreamLog(StreamingQueryListener):
    """Writes a line of JSON for every batch of a stream join: Spark's progress, and ours.

        spark.streams.addListener(wm.StreamLog("progress.jsonl", state="state"))

    Each line has `batch`, `query`, `spark` (the progress that Spark reports) and `join` (the same
    as in `stream_metrics`). Batches of other queries are left out.
    """

    def __init__(self, path: str | os.PathLike[str], *, state: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InvalidArgument(
                f"path={path!r} is no file for a log.", remedy="Name a file to be appended to."
            )
        self._path = Path(path)
        self._state = state
        StateDirectory.parse(state)
        try:
            with self._path.open("a"):
                pass  # Touching a directory would succeed.
        except OSError as error:
            raise InvalidArgument(
                f"The log {path} cannot be written ({error.strerror}).",
                remedy="Name a file in a directory that exists and is writable.",
            ) from error

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """There is nothing to tell yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        try:
            records = stream_metrics(self._state)
        except StateError:
            return  # The query itself says what is wrong with its state.
        for record in records:
            if record["batch"] == progress.batchId and record["query"] == str(progress.id):
                line = {
                    "batch": record["batch"],
                    "query": record["query"],
                    "spark": json.loads(progress.json),
                    "join": record,
                }
                with self._path.open("a") as file:
                    file.write(json.dumps(line) + "\n")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """All that there was to tell has been told."""
