"""What others answer to the same join, and how ours is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tests.suites.examples import Example
from watersmeet.model import JoinType, Side
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.oracle import Rows, comparable, counted
from watersmeet.testing.schedule import Pause, Resources

COSTS = Costs(random=0.01, sequential=0.001)


def by_duckdb(example: Example, how: JoinType) -> Rows:
    """Its pairs of rows, with our columns made of them: it does not know all of Arrow's types."""
    equal = [f'l."{left}" = r."{right}"' for left, right in example.pairs]
    second = "r.__row" if how.emits_pairs else "NULL"
    condition = " AND ".join([*equal, f"({example.sql})"] if example.sql else equal)
    with duckdb.connect() as connection:
        for side, (name, table) in enumerate((("l", example.left), ("r", example.right))):
            numbers = pa.array(range(len(table)), pa.int64())
            keys = [pair[side] for pair in example.pairs]
            seen = table if example.sql else table.select(keys)
            connection.register(name, seen.append_column("__row", numbers))
        found = connection.execute(
            f"SELECT l.__row, {second} FROM l {how.value} JOIN r ON {condition}"
        ).fetchall()
    return Counter(_rows(example, how, found))


def _rows(
    example: Example, how: JoinType, found: list[tuple[int | None, int | None]]
) -> Iterator[tuple[Any, ...]]:
    """USING's columns first, from the side that has the row; then the left's and the right's."""
    left, right = example.left.to_pylist(), example.right.to_pylist()
    missing = (dict.fromkeys(example.left.column_names), dict.fromkeys(example.right.column_names))
    shared = [mine for mine, other in example.pairs if mine == other]
    kinds = _kinds(example, how)
    for mine, other in found:
        one = missing[0] if mine is None else left[mine]
        two = missing[1] if other is None else right[other]
        holder = two if mine is None or how is JoinType.RIGHT else one
        values = [_in_type(holder[name], kinds[name]) for name in shared]
        values += [value for name, value in one.items() if name not in shared]
        if how.emits_pairs:
            values += [value for name, value in two.items() if name not in shared]
        yield tuple(map(comparable, values))


def _kinds(example: Example, how: JoinType) -> dict[str, pa.DataType]:
    schema = JoinSchema.resolve(example.left.schema, example.right.schema, example.on, how)
    return {field.name: field.type for field in schema.output}


def _in_type(value: Any, kind: pa.DataType) -> Any:
    """Of keys of two types a full join gives the one that they were compared in."""
    if value is not None and pa.types.is_floating(kind):
        return float(value)
    return value


def tiny(example: Example) -> Tuning:
    """Memory for a tenth of the rows, so that even the smallest example is spilled and merged."""
    rows = len(example.left) + len(example.right)
    return Tuning(
        partitions=2, fan_in=2, chunk_rows=3 + rows, memory_rows=max(4, rows // 10), costs=COSTS
    )


def by_operator(example: Example, how: JoinType, algorithm: str, directory: Path) -> Rows:
    """One algorithm, in next to no memory, two rows at a time, with stalls."""
    schema = JoinSchema.resolve(
        example.left.schema, example.right.schema, example.on, how, condition=example.condition
    )
    operator = PublishedJoin(algorithm, tiny(example), block_bytes=300).make(
        schema, Resources(MemoryAccount(64 * 2**20), SpillArea(directory))
    )
    rows = counted(schema.materialise(matches) for matches in _played(operator, example))
    operator.close()
    return rows


def _played(operator: JoinOperator, example: Example) -> Iterator[Matches]:
    tables = (example.left.combine_chunks(), example.right.combine_chunks())
    batches = [
        table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)] for table in tables
    ]
    step = max(2, max(map(len, tables)) // 20)
    for start in range(0, max(map(len, tables)), step):
        for side in Side:
            for batch in batches[side]:
                yield from operator.push(side, batch.slice(start, step))
        yield from operator.idle(Pause(start % 4))
    for side in Side:
        yield from operator.end(side)
    yield from operator.finish()
