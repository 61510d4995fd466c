"""One process that answers a question with DuckDB and with `wm.local.aggregate`, in turn.

python -m benchmarks.local_aggregates     (an order as JSON on its input, results on its output)
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

import duckdb

import watersmeet as wm
from benchmarks.questions import QUESTIONS, Question
from benchmarks.relations import Relations
from watersmeet.aggregates.block_reading import OneSide
from watersmeet.aggregates.run import AggregateRun


def blocks_of(run: AggregateRun) -> OneSide:
    reading = run._reading
    assert isinstance(reading, OneSide)
    return reading


def main() -> None:
    order = json.loads(sys.stdin.readline())
    relations = Relations.of(order["relations"])
    question = QUESTIONS[order["question"]]
    connection = duckdb.connect()
    connection.execute(f"SET threads = {order['cores']}")
    found = []
    for seed in range(order["rounds"]):
        found.append(
            {
                "duckdb": _duckdb(connection, question, relations),
                "looks": _looks(question, relations, seed=seed),
                "exact": _exact(question, relations, seed=seed),
                "silent": _silent(question, relations, seed=seed),
            }
        )
    print(json.dumps(found), flush=True)


def _duckdb(connection: Any, question: Question, relations: Relations) -> dict[str, Any]:
    began = time.perf_counter()
    rows = connection.execute(question.by_sql(relations)).fetchall()
    return {"seconds": time.perf_counter() - began, "answer": _rounded(rows)}


def _looks(question: Question, relations: Relations, *, seed: int) -> dict[str, Any]:
    began, cpu = time.perf_counter(), time.process_time()
    with _asked(question, relations, seed) as run:
        looks = [(time.perf_counter() - began, e.relative_error, e.fraction) for e in run]
        used = time.process_time() - cpu
        score = run.score()
    return {"looks": looks, "cpu": used, "shown": score.shown, "held": score.held}


def _silent(question: Question, relations: Relations, *, seed: int) -> dict[str, Any]:
    """The same looks, read and joined and added up, but nothing estimated."""
    began, cpu = time.perf_counter(), time.process_time()
    with _asked(question, relations, seed) as run:
        looks, last = blocks_of(run).looks, False
        while not last:
            look = looks.next()
            found = blocks_of(run).engine.totals(replace(look, last=True))
            looks.taken(look)
            blocks_of(run).ledger.add(found, sampled=False)
            last = look.last
        blocks_of(run).ledger.answer()
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


def _exact(question: Question, relations: Relations, *, seed: int) -> dict[str, Any]:
    began, cpu = time.perf_counter(), time.process_time()
    with _asked(question, relations, seed) as run:
        answer = run.exact().answer
        seconds = time.perf_counter() - began
        rows = list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    return {"seconds": seconds, "cpu": time.process_time() - cpu, "answer": _rounded(rows)}


def _asked(question: Question, relations: Relations, seed: int) -> Any:
    return wm.local.aggregate(
        relations.right.folder,
        relations.left.folder,
        where=question.where,
        seed=seed,
        **question.arguments(),
    )


def _rounded(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    """To eight digits: DuckDB's averages are doubles, ours decimals."""
    return sorted(
        [value if isinstance(value, str) else f"{float(value):.8g}" for value in row]
        for row in rows
    )


if __name__ == "__main__":
    main()
