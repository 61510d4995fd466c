"""What a join must return: computed by plain loops, and by DuckDB."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.model import JoinType, Side
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.on import Asked, Equal
from watersmeet.rows.predicates import EqualKeys
from watersmeet.rows.schema import JoinSchema

Pairs = Counter[tuple[int | None, int | None]]
"""Result rows as row numbers, None for a side that is missing or does not matter."""

Rows = Counter[tuple[Any, ...]]
"""A multiset of result rows, as `counted` makes them comparable."""

SUFFIXES = ("", "_right")


def pairs_by_loop(
    schema: JoinSchema,
    inputs: tuple[pa.Table, pa.Table],
    *,
    suffixes: tuple[str, str] = SUFFIXES,
) -> Pairs:
    """The result computed row by row: each left row with every right row of its key.

    >>> left = pa.table({"k": [1, 1, None], "a": [0, 1, 2]})
    >>> right = pa.table({"k": [1, 3, None], "b": [0, 1, 2]})
    >>> schema = JoinSchema.resolve(left.schema, right.schema, "k", "left")
    >>> sorted(pairs_by_loop(schema, (left, right)), key=str)
    [(0, 0), (1, 0), (2, None)]
    """
    by_key: dict[Any, list[int]] = defaultdict(list)
    for row, key in enumerate(_keys(schema, Side.RIGHT, inputs[1])):
        by_key[key].append(row)
    matched = [
        (row, other)
        for row, key in enumerate(_keys(schema, Side.LEFT, inputs[0]))
        if key is not None
        for other in by_key.get(key, ())
    ]
    return _completed(schema, inputs, _holding(schema, inputs, matched, suffixes))


def matches_by_loop(
    inputs: Sequence[pa.Table], predicates: Sequence[Asked]
) -> list[tuple[int, ...]]:
    """Combinations of one row of each input for which all predicates hold, one by one.

    >>> ticks = [pa.table({"t": [1, 5, None]}), pa.table({"t": [2, 9]}), pa.table({"t": [3]})]
    >>> from watersmeet.rows.bands import Band
    >>> near = [Band("t", "t", low=-1, high=1), Band("t", "t", low=-1, high=1, ends=(1, 2))]
    >>> matches_by_loop(ticks, near)
    [(0, 0, 0)]
    """
    rows = [table.to_pylist() for table in inputs]
    found: list[tuple[int, ...]] = [()]
    for input, mine in enumerate(rows):
        asked = [each for each in predicates if max(each.ends) == input]
        found = [
            (*before, number)
            for before in found
            for number in range(len(mine))
            if all(_holds(each, rows, (*before, number)) for each in asked)
        ]
    return found


def _holds(
    predicate: Asked, rows: Sequence[list[dict[str, Any]]], numbers: tuple[int, ...]
) -> bool:
    left, right = (rows[end][numbers[end]] for end in predicate.ends)
    if isinstance(predicate, Equal):
        pairs = [(left[key.left], right[key.right]) for key in predicate.keys]
        return all(mine is not None and mine == others for mine, others in pairs)
    if isinstance(predicate, Overlap):
        starts = (left[predicate.left[0]], right[predicate.right[1]], predicate.left_open)
        others = (right[predicate.right[0]], left[predicate.left[1]], predicate.right_open)
        return all(
            low is not None and high is not None and (low < high if strict else low <= high)
            for low, high, strict in (starts, others)
        )
    low, high = predicate.low, predicate.high
    mine, others = left[predicate.left], right[predicate.right]
    if mine is None or others is None:
        return False
    apart = mine - others
    above = low is None or (apart > low if predicate.low_open else apart >= low)
    below = high is None or (apart < high if predicate.high_open else apart <= high)
    return bool(above and below)


def rows_of(schema: JoinSchema, inputs: Sequence[pa.Table], matched: list[tuple[int, ...]]) -> Rows:
    """The result rows of a join with these matches, with SQL's USING for keys of one name."""
    if len(inputs) == 2:
        pair = (inputs[0], inputs[1])
        pairs = [(numbers[0], numbers[1]) for numbers in matched]
        return expected_rows(schema, pair, _completed(schema, pair, pairs))
    once: list[set[str]] = [set() for _ in inputs]
    shared: list[tuple[int, str]] = []
    for predicate in schema.predicates:
        for key in predicate.keys if isinstance(predicate, EqualKeys) else ():
            left, right = predicate.ends
            if key.left not in once[left] and key.right not in once[right]:
                shared.append((left, key.left))
            once[left].add(key.left)
            once[right].add(key.right)
    values = [table.to_pylist() for table in inputs]
    rows: Rows = Counter()
    for numbers in matched:
        parts = [values[input][number] for input, number in enumerate(numbers)]
        row = [parts[input][name] for input, name in shared]
        for input, part in enumerate(parts):
            row += [value for name, value in part.items() if name not in once[input]]
        rows[tuple(map(comparable, row))] += 1
    return rows


def pairs_by_duckdb(
    schema: JoinSchema,
    inputs: tuple[pa.Table, pa.Table],
    *,
    suffixes: tuple[str, str] = SUFFIXES,
) -> Pairs:
    """DuckDB's join of the same keys. Its rules for null, NaN and -0.0 are Spark's.

    >>> left = pa.table({"k": [1.5, float("nan")]})
    >>> right = pa.table({"k": [float("nan"), 2.5]})
    >>> schema = JoinSchema.resolve(left.schema, right.schema, "k", "full")
    >>> sorted(pairs_by_duckdb(schema, (left, right)), key=str)
    [(0, None), (1, 0), (None, 1)]
    """
    assert not schema.bands, "DuckDB is asked about equal keys alone"
    if schema.condition is None:
        return Counter(_query(schema, inputs, schema.how))
    matched = _query(schema, inputs, JoinType.INNER)
    return _completed(schema, inputs, _holding(schema, inputs, matched, suffixes))


def expected_rows(schema: JoinSchema, inputs: tuple[pa.Table, pa.Table], pairs: Pairs) -> Rows:
    """The result rows that these pairs stand for, with SQL's USING for keys of one name."""
    left, right = (table.to_pylist() for table in inputs)
    shared = [key.left for key in schema.keys if key.shared]
    rows: Rows = Counter()
    for (l, r), count in pairs.items():  # noqa: E741
        mine = left[l] if l is not None else dict.fromkeys(inputs[0].column_names)
        others = right[r] if r is not None else dict.fromkeys(inputs[1].column_names)
        keys_from = others if l is None or schema.how is JoinType.RIGHT else mine
        row = [_output_value(keys_from[name], schema.output.field(name).type) for name in shared]
        row += [value for name, value in mine.items() if name not in shared]
        if schema.how.emits_pairs:
            row += [value for name, value in others.items() if name not in shared]
        rows[tuple(map(comparable, row))] += count
    return rows


def _output_value(value: Any, kind: pa.DataType) -> Any:
    """A shared key in the type of the output: in a full join that is the type both sides' keys are
    compared in."""
    if value is not None and pt.is_floating(kind):
        return float(value)
    if pt.is_timestamp(kind) and type(value) is datetime.date:
        return datetime.datetime.combine(value, datetime.time())
    return value


def counted(batches: Iterable[pa.RecordBatch]) -> Rows:
    """Rows as a multiset. NaN equals itself here, and -0.0 differs from 0.0.

    >>> batch = pa.record_batch({"x": [0.0, -0.0, float("nan")], "y": [[1], None, []]})
    >>> sorted(counted([batch]), key=str)
    [('-0.0', None), ('0.0', (1,)), ('nan', ())]
    """
    rows: Rows = Counter()
    for batch in batches:
        columns = [map(comparable, column.to_pylist()) for column in batch.columns]
        rows.update(zip(*columns, strict=True))
    return rows


def assert_same(got: Rows, expected: Rows) -> None:
    """Fail with a few of the rows that are missing and of those that are too many."""
    missing, extra = expected - got, got - expected
    assert got == expected, (
        f"{missing.total()} rows missing: {_few(missing)}; {extra.total()} too many: {_few(extra)}"
    )


def _few(rows: Rows) -> str:
    shown = ", ".join(f"{row} x{count}" for row, count in rows.most_common(5))
    return f"[{shown}{', ...' if len(rows) > 5 else ''}]"


def comparable(value: Any) -> Any:
    """A hashable stand-in: two stand-ins are equal exactly if their values are the same."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return tuple((name, comparable(child)) for name, child in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    return value


def _keys(schema: JoinSchema, side: Side, table: pa.Table) -> Iterator[tuple[Any, ...] | None]:
    """The key of each row; None where a part is null, since that matches nothing."""
    columns = []
    for key in schema.keys:
        column = table.column(key.left if side is Side.LEFT else key.right)
        columns.append([_key_value(value, key.kind) for value in column.to_pylist()])
    for key_values in zip(*columns, strict=True):
        yield None if any(value is None for value in key_values) else key_values


def _key_value(value: Any, kind: pa.DataType) -> Any:
    """A key value in the type it is compared in. Inside a struct two nulls are equal."""
    if value is None:
        return None
    if pt.is_struct(kind):
        children = zip(value.values(), kind, strict=True)
        return tuple(_key_value(child, field.type) for child, field in children)
    if pt.is_floating(kind):
        number = float(value)
        return "nan" if number != number else number + 0.0
    if isinstance(value, str):
        return value.encode()
    return _output_value(value, kind)


def _holding(
    schema: JoinSchema,
    inputs: tuple[pa.Table, pa.Table],
    matched: list[tuple[int, int]],
    suffixes: tuple[str, str],
) -> list[tuple[int, int]]:
    """Those of the pairs for which the condition holds."""
    if schema.condition is None or not matched:
        return matched
    joined = _joined(schema, inputs, matched, suffixes)
    predicate = schema.condition.predicate
    if isinstance(predicate, pc.Expression):
        numbered = joined.append_column("__pair", pa.array(range(len(matched))))
        kept = numbered.filter(predicate).column("__pair").to_pylist()
        return [matched[k] for k in kept]
    batch = joined.combine_chunks().to_batches()[0]
    answers = predicate(batch).to_pylist() if callable(predicate) else predicate.holds(batch)
    return [pair for pair, answer in zip(matched, answers, strict=True) if answer]


def _joined(
    schema: JoinSchema,
    inputs: tuple[pa.Table, pa.Table],
    matched: list[tuple[int, int]],
    suffixes: tuple[str, str],
) -> pa.Table:
    """The pairs with the columns that a condition sees: those of an inner join."""
    shared = [key.left for key in schema.keys if key.shared]
    rows = [inputs[side].take([pair[side] for pair in matched]) for side in Side]
    others = [[name for name in table.column_names if name not in shared] for table in inputs]
    names = list(shared)
    keys_from = Side.RIGHT if schema.how is JoinType.RIGHT else Side.LEFT
    columns = [rows[keys_from].column(name) for name in shared]
    for side in Side:
        for name in others[side]:
            clash = name in others[side.other]
            names.append(name + suffixes[side] if clash else name)
            columns.append(rows[side].column(name))
    return pa.table(columns, names)


def _completed(
    schema: JoinSchema, inputs: tuple[pa.Table, pa.Table], matched: list[tuple[int, int]]
) -> Pairs:
    """The result rows of the join type, from the matches of an inner join."""
    how = schema.how
    partnered = [{pair[side] for pair in matched} for side in Side]
    alone = [
        [row for row in range(len(t)) if row not in partnered[s]] for s, t in enumerate(inputs)
    ]
    pairs: Pairs = Counter()
    if how.emits_pairs:
        pairs.update(matched)
    if how is JoinType.SEMI:
        pairs.update((row, None) for row in partnered[Side.LEFT])
    if how in (JoinType.LEFT, JoinType.FULL, JoinType.ANTI):
        pairs.update((row, None) for row in alone[Side.LEFT])
    if how in (JoinType.RIGHT, JoinType.FULL):
        pairs.update((None, row) for row in alone[Side.RIGHT])
    return pairs


def _query(schema: JoinSchema, inputs: tuple[pa.Table, pa.Table], how: JoinType) -> list[Any]:
    names = [[key.left for key in schema.keys], [key.right for key in schema.keys]]
    equal = " AND ".join(f"l.k{n} = r.k{n}" for n in range(len(schema.keys)))
    right_row = "r.row" if how.emits_pairs else "NULL"
    with duckdb.connect() as connection:
        for table, columns, alias in zip(inputs, names, "lr", strict=True):
            keys = pa.table(
                [table.column(name) for name in columns]
                + [pa.array(range(len(table)), pa.int64())],
                [f"k{n}" for n in range(len(columns))] + ["row"],
            )
            connection.register(alias, keys)
        return connection.execute(
            f"SELECT l.row, {right_row} FROM l {how.value} JOIN r ON {equal}"
        ).fetchall()
