"""`wm.explain_stream`: what a query in micro-batches holds and does, in words, from its state."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.explaining import (
    ENRICHING_STAGES,
    STAGES,
    cache_words,
    dropped_words,
    results_words,
    scan_words,
    waiting_words,
)
from watersmeet.operators.family import find_algorithm, find_enricher
from watersmeet.operators.semistream.metrics import SemiStreamMetrics
from watersmeet.spark.enrich.masters import Masters
from watersmeet.spark.microbatches.asked import Asked
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.state import Manifest, StateDirectory
from watersmeet.words import count_text, listed, megabytes, paragraph, seconds_text, size_text

_LATEST_BATCHES = 5
_LATEST_FLUSHES = 5

Record = dict[str, Any]
"""A batch as `stream_metrics` has it."""


def explain_stream(state: str | os.PathLike[str]) -> str:
    """Say in words what a query holds and does: its inputs, what is owed or waits, memory, disk,
    and its latest batches. For `join_streams` also which rows go some time, by which promise, or
    that they stay and what promise would bound them. For `enrich` also the versions of the master
    that rows meet, what the cache holds and has served, and what was read of the master.

    `state` is the one given to `join_streams`, `join_many_streams` or `enrich`. It may be asked for
    before the query starts, while it runs, from any process that reaches the directory, and after
    it has stopped. Numbers are those of the batches that `stream_metrics` has: the latest hundred.
    """
    directory = StateDirectory.parse(state)
    records = stream_metrics(state)
    manifest, asked = directory.latest(), Asked.noted(directory)
    if manifest is None or not records:
        return _asked_words(asked, directory)
    return _Explained(directory, manifest, records, asked).text()


class _Explained:
    def __init__(
        self,
        directory: StateDirectory,
        manifest: Manifest,
        records: Sequence[Record],
        asked: Asked | None,
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._about: dict[str, Any] = manifest["parameters"]
        self._records = records
        self._latest = records[-1]
        self._asked = asked
        self._enriches = self._about.get("join") == "enrich"

    def text(self) -> str:
        facts = {"join": self._join(), "algorithm": self._algorithm()}
        facts |= dict(self._asked.paths) if self._asked else {}
        facts["memory"] = self._memory()
        if self._enriches:
            facts |= self._enriched()
        else:
            facts |= {
                "spills": self._spills(),
                "read": f"{self._rows_in()}{self._ended()} {self._when}",
                "owed": self._owed(),
                **self._bounds(),
            }
        facts |= {"results": self._results(), "state": self._state(), "batches": self._batches()}
        lines = [paragraph(name, fact) for name, fact in facts.items()]
        lines += [_batch_words(each, self._names) for each in self._records[-_LATEST_BATCHES:]]
        flushes = [flush for each in self._records for flush in each["latest_flushes"]]
        if flushes:
            lines.append(paragraph("flushes", "what left memory last, and why:"))
            lines += [paragraph("", each, hanging=2) for each in flushes[-_LATEST_FLUSHES:]]
        return "\n".join(lines)

    # ---- what is asked --------------------------------------------------------------------------

    @property
    def _names(self) -> Sequence[str]:
        return EnrichQuestion.names if self._enriches else _names(self._about)

    def _join(self) -> str:
        about = self._about
        return (
            f"{_join_words(about, self._names)}; "
            f"query {self._latest['query']}, {count_text(about['instances'], 'instance')}"
        )

    def _algorithm(self) -> str:
        name = self._about["algorithm"]
        return f"{name}: {find_enricher(name).words}" if self._enriches else _algorithm_words(name)

    # ---- what it holds --------------------------------------------------------------------------

    @property
    def _when(self) -> str:
        first = self._records[0]["batch"]
        return "so far" if first == 0 else f"since batch {first}"

    def _sum(self, name: str) -> int:
        return sum(each[name] for each in self._records)

    def _memory(self) -> str:
        latest = self._latest
        return (
            f"{megabytes(latest['memory_limit'])} for all instances together; after the latest "
            f"batch {megabytes(latest['memory_used'])} in use, and at most "
            f"{megabytes(latest['memory_peak'])} in one instance so far"
        )

    def _spills(self) -> str:
        if not self._sum("rows_spilled"):
            return f"nothing {self._when}"
        return (
            f"{self._sum('rows_spilled'):,} rows, {size_text(self._sum('bytes_spilled'))}, in "
            f"{self._sum('flushes'):,} flushes {self._when}; "
            f"{self._sum('md_tasks'):,} md-tasks (memory with disk) and "
            f"{self._sum('dd_tasks'):,} dd-tasks (disk with disk)"
        )

    def _rows_in(self) -> str:
        counts = [sum(each) for each in zip(*(r["rows_in"] for r in self._records), strict=True)]
        named = zip(counts, self._names, strict=True)
        return listed([f"{rows:,} {name}" for rows, name in named]) + " rows"

    def _ended(self) -> str:
        ended = zip(self._names, self._manifest.get("ended", []), strict=False)
        named = [f"{name} ended in batch {batch}" for name, batch in ended if batch is not None]
        return f", {listed(named)}," if named else ""

    def _owed(self) -> str:
        owed = self._latest["owed"]
        if not any(owed):
            return "nothing: all rows that have come have met each other"
        named = [f"{rows:,} {name}" for rows, name in zip(owed, self._names, strict=True) if rows]
        return (
            f"{listed(named)} rows on disk may not have met all that has come of the others; a "
            "batch without rows joins them"
        )

    def _bounds(self) -> dict[str, str]:
        """What becomes of the rows that are kept, and what has become of rows so far."""
        words = dict(self._asked.bounds) if self._asked else {}
        promised = [each["promises"] for each in self._records if "promises" in each]
        if promised:
            broken: Counter[str] = Counter()
            for each in promised:
                broken.update(each["broken"])
            purged, passed = (
                sum(each[name] for each in promised) for name in ("purged", "dropped_on_arrival")
            )
            kept = count_text(promised[-1]["rows_kept"], "row")
            dropped = dropped_words(purged, passed, broken, when=f" {self._when}")
            words["promises"] = f"{kept} in the state after the latest batch; {dropped}"
        return words

    # ---- a stream and its master ----------------------------------------------------------------

    def _enriched(self) -> dict[str, str]:
        counted = {
            name: sum(each["enriched"][name] for each in self._records)
            for name in SemiStreamMetrics.COUNTED
        }
        counted |= {name: self._latest["enriched"][name] for name in SemiStreamMetrics.STANDING}
        rows = sum(each["rows_in"][0] for each in self._records)
        return {
            "master": self._master(),
            "cache": cache_words(counted, rows=rows, when=self._when),
            "scan": scan_words(counted, when=f"{self._when}, of all instances"),
            "read": f"{rows:,} stream rows {self._when}; {waiting_words(counted)}",
        }

    def _master(self) -> str:
        """The version that rows meet which arrive now, and older ones that some wait for."""
        masters, number = Masters(self._directory), int(self._manifest["number"])
        there = masters.numbers()
        words = f"version {number}"
        if number in there:
            record = masters.read(number)
            words = (
                f"{record.rows:,} rows, {size_text(record.nbytes)}; version {record.version}, "
                f"number {number}"
            )
        manifests = _newest(self._directory)
        older = {each for one in manifests for each in one["masters"].values() if each < number}
        if older:
            words += f"; some rows wait for number {listed([str(each) for each in sorted(older)])}"
        newer = [each for each in there if each > number]
        if newer:
            words += f"; number {newer[-1]} is laid down, and comes with one of the next batches"
        return words

    # ---- what it did ----------------------------------------------------------------------------

    def _results(self) -> str:
        found = {
            stage: sum(each["results"][stage] for each in self._records)
            for stage in self._latest["results"]
        }
        return results_words(found, ENRICHING_STAGES if self._enriches else STAGES)

    def _state(self) -> str:
        restored = self._sum("restored")
        again = (
            f"; {count_text(restored, 'time')} an instance was read from there {self._when}, "
            "because its process had ended, or its task had gone to another one"
            if restored
            else ""
        )
        return f"{size_text(self._latest['state_bytes'])} in {self._directory.uri}{again}"

    def _batches(self) -> str:
        seconds = [each["seconds"] for each in self._records]
        return (
            f"{self._latest['batch'] + 1:,} so far; their slowest instances took "
            f"{seconds_text(sum(seconds) / len(seconds))} on average, {seconds_text(max(seconds))} "
            "at most; the latest:"
        )


def _asked_words(asked: Asked | None, directory: StateDirectory) -> str:
    """What is known of a query that has no batch yet."""
    facts: dict[str, str] = {}
    if asked is not None:
        about = asked.parameters
        instances = count_text(about["instances"], "instance")
        facts["join"] = f"{_join_words(about, _names(about))}; {instances}"
        facts["algorithm"] = _algorithm_words(about["algorithm"])
        facts |= dict(asked.paths)
        facts |= dict(asked.bounds)
    facts["batches"] = f"no batch of a query has been committed to {directory.uri} yet"
    return "\n".join(paragraph(name, fact) for name, fact in facts.items())


def _names(about: Mapping[str, Any]) -> Sequence[str]:
    names: Sequence[str] = about.get("relations", ("left", "right"))
    return names


def _join_words(about: Mapping[str, Any], names: Sequence[str]) -> str:
    on = about["on"]
    if "relations" not in about:
        keys = [mine if mine == other else f"{mine} = {other}" for mine, other in on]
        on = " and ".join([*keys, *about.get("bands", [])])
    condition = f", if {about['condition']}" if about["condition"] else ""
    return f"{about.get('how', 'inner')}, {' with '.join(names)}, on {on}{condition}"


def _algorithm_words(name: str) -> str:
    return f"{name}, {find_algorithm(name).words}"


def _batch_words(record: Record, names: Sequence[str]) -> str:
    rows = zip(record["rows_in"], names, strict=True)
    came = [f"{count:,} {name}" for count, name in rows if count]
    brought = f"{listed(came)} rows" if came else "no rows"
    words = (
        f"{record['batch']}: {brought}, {record['rows_out']:,} results in "
        f"{seconds_text(record['seconds'])}"
    )
    return paragraph("", words, hanging=2)


def _newest(directory: StateDirectory) -> list[Manifest]:
    """The newest manifest of every instance."""
    found: list[Manifest] = []
    for number in directory.instances():
        instance = directory.instance(number)
        versions = instance.versions()
        manifest = instance.read(versions[-1]) if versions else None
        if manifest is not None:
            found.append(manifest)
    return found
