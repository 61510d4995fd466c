"""Random questions about tables that Spark itself wrote, for comparing answers with Spark's own."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.aggregates.ask.specification import Aggregate
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.expressions.numbers import ArithmeticFailed

LEFT_ROWS, RIGHT_ROWS, KEYS = 700, 300, 60
_SPARK_JOIN = {"semi": "left_semi", "anti": "left_anti"}

# A type, and how its value follows from a random whole number h.
COLUMNS = {
    "tiny": "cast(pmod(h, 9) - 4 as tinyint)",
    "small": "cast(pmod(h, 2001) - 1000 as smallint)",
    "int": "cast(pmod(h, 20001) - 10000 as int)",
    "large": "cast(pmod(h, 2000000001) - 1000000000 as int)",
    "long": "pmod(h, 2000001) - 1000000",
    "huge": "if(pmod(h, 7) = 0, 4611686018427387904 + pmod(h, 99), pmod(h, 1001))",
    "short": "cast(cast(pmod(h, 20001) - 10000 as decimal(10, 0)) / 100 as decimal(5, 2))",
    "money": "cast(cast(pmod(h, 2000001) - 1000000 as decimal(12, 0)) / 100 as decimal(15, 2))",
    "fine": "cast(cast(pmod(h, 1000003) as decimal(12, 0)) / 1000000 as decimal(18, 6))",
    "wide": "cast(cast(h as decimal(20, 0)) * 1234567 as decimal(38, 10))",
    "float": "cast((pmod(h, 2001) - 1000) / 8 as float)",
    "double": "(pmod(h, 200001) - 100000) / 7D",
    "odd": "element_at(array(double('nan'), double('inf'), double('-inf'), 0D, -0D, 1.5D, 2.5D),"
    " cast(pmod(h, 7) as int) + 1)",
    "oddf": "element_at(array(float('nan'), 0F, -0F, cast(0.5 as float)),"
    " cast(pmod(h, 4) as int) + 1)",
    "bool": "pmod(h, 3) = 0",
    "text": "substr('abcdefgh', 1 + cast(pmod(h, 8) as int), 1 + cast(pmod(h, 3) as int))",
    "bytes": "cast(substr('xyzä', 1 + cast(pmod(h, 4) as int), 2) as binary)",
    "date": "date_add(date'1969-12-28', cast(pmod(h, 9) as int))",
    "time": "timestamp'1969-12-31 23:59:59.999999' + make_dt_interval(0, cast(pmod(h, 5) as int))",
    "wall": "timestamp_ntz'2024-02-29 12:00:00' + make_dt_interval(0, cast(pmod(h, 5) as int))",
    "days": "cast(make_dt_interval(cast(pmod(h, 5) as int)) as interval day)",
    "span": "make_dt_interval(0, 0, cast(pmod(h, 6) as int), 0.5)",
}
NUMBERS = [
    "tiny",
    "small",
    "int",
    "large",
    "long",
    "huge",
    "short",
    "money",
    "fine",
    "wide",
    "float",
    "double",
    "odd",
    "oddf",
]
KEY_TYPES = {
    "long": ("h", "h"),
    "int and long": ("cast(h as int)", "h"),
    "decimal": ("cast(h / 4 as decimal(9, 2))", "cast(h / 4 as decimal(9, 2))"),
    "decimals": ("cast(h as decimal(12, 4))", "cast(h as decimal(9, 0))"),
    "text": ("concat('key', h)", "concat('key', h)"),
    "date": ("date_add(date'2024-01-01', cast(h as int))",) * 2,
    "time": ("timestamp_seconds(h * 86400)",) * 2,
    "double": ("if(h = 3, double('nan'), if(h = 4, -0D, h / 2D))",
               "if(h = 3, double('nan'), if(h = 4, 0D, h / 2D))"),
    "bytes": ("cast(concat('k', h) as binary)",) * 2,
    "days": ("cast(make_dt_interval(cast(h as int)) as interval day)",) * 2,
}  # fmt: skip


@dataclass(frozen=True)
class Tables:
    """Two tables with a key of one type and some columns each; names tell the types."""

    frames: tuple[DataFrame, DataFrame]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    key: str

    @classmethod
    def written(cls, spark: SparkSession, folder: Path, *, seed: int) -> Tables:
        """Written by Spark as Parquet, and read again."""
        choose = random.Random(seed)
        key = sorted(KEY_TYPES)[seed % len(KEY_TYPES)]
        frames, columns = [], []
        for side, rows, kind in zip("lr", (LEFT_ROWS, RIGHT_ROWS), KEY_TYPES[key], strict=True):
            names = choose.sample(sorted(COLUMNS), 9)
            texts = [_nullable(kind.replace("h", _hash(f"pmod(x, {KEYS})", "k")), "k") + " k"]
            for name in names:
                salt = f"{side}{name}{seed}"
                texts.append(
                    f"{_nullable(_with(COLUMNS[name], _hash('x', salt)), salt)} {side}_{name}"
                )
            path = str(folder / f"{seed}-{side}")
            source = spark.range(0, rows, 1, 3).selectExpr(f"xxhash64(id, '{side}{seed}') x")
            source.selectExpr(*texts).write.parquet(path)
            frames.append(spark.read.parquet(path))
            columns.append(tuple(f"{side}_{name}" for name in names))
        return cls((frames[0], frames[1]), (columns[0], columns[1]), key)


def _hash(of: str, salt: str) -> str:
    # The key is a small number as it is; all else is scattered anew.
    return of if salt == "k" else f"xxhash64({of}, '{salt}')"


def _with(expression: str, value: str) -> str:
    return expression.replace("(h", f"({value}")


def _nullable(expression: str, salt: str) -> str:
    return f"if(pmod(xxhash64(x, '{salt}?'), 11) = 0, null, {expression})"


@dataclass(frozen=True)
class Question:
    how: str
    group_by: tuple[str, ...]
    where: str | None
    aggregates: dict[str, Any]

    @classmethod
    def random(cls, tables: Tables, *, seed: int) -> Question:
        choose = random.Random(seed)
        how = choose.choice(["inner", "inner", "inner", "left", "right", "semi", "anti"])
        mine, others = tables.columns
        if how in ("semi", "anti"):
            pool: Sequence[str] = mine
        else:
            pool = (*mine, *others)
        kept = {"left": mine, "semi": mine, "anti": mine, "right": others}.get(how, pool)
        group_by = choose.sample(sorted(pool), choose.choice([0, 1, 1, 1, 2]))
        if choose.random() < 0.15:
            group_by = ["k", *group_by[:1]]
        where = _condition(choose, kept) if choose.random() < 0.5 else None
        asked: dict[str, Aggregate] = {"n": wm.count()}
        for number in range(choose.choice([1, 2, 3])):
            asked[f"a{number}"] = _aggregate(choose, pool)
        return cls(how, tuple(group_by), where, asked)

    def ours(self, tables: Tables, **options: Any) -> Any:
        asked = {"group_by": list(self.group_by), "where": self.where, **self.aggregates, **options}
        left, right = tables.frames
        return wm.aggregate(left, right, "k", self.how, **asked)

    def sparks(self, tables: Tables) -> DataFrame:
        joined = tables.frames[0].join(
            tables.frames[1], on="k", how=_SPARK_JOIN.get(self.how, self.how)
        )
        joined = joined.where(self.where) if self.where else joined
        columns = [
            F.expr(f"{asked.kind.value}({asked.expression or '*'})").alias(name)
            for name, asked in self.aggregates.items()
        ]
        return joined.groupBy(*self.group_by).agg(*columns)


def _aggregate(choose: random.Random, pool: Sequence[str]) -> Aggregate:
    make = choose.choice(
        [wm.sum, wm.sum, wm.avg, wm.count, wm.variance, wm.var_pop, wm.stddev, wm.stddev_pop]
    )
    if make is wm.count and choose.random() < 0.5:
        return wm.count(choose.choice(sorted(pool)))
    return make(_number(choose, pool, depth=2))


def _numbers(pool: Sequence[str]) -> list[str]:
    return sorted(name for name in pool if name[2:] in NUMBERS) or ["1"]


def _number(choose: random.Random, pool: Sequence[str], *, depth: int) -> str:
    if depth == 0 or choose.random() < 0.3:
        literal = choose.random() < 0.25
        return choose.choice(["1", "2.5", "-3", "0.01", "1e2"] if literal else _numbers(pool))
    one, two = (_number(choose, pool, depth=depth - 1) for _ in range(2))
    column = choose.choice(sorted(pool))
    return choose.choice([
        f"{one} + {two}", f"{one} * {two}", f"{one} - ({two})", f"-({one})", f"abs({one})",
        f"coalesce({one}, {two})", f"CASE WHEN {column} IS NULL THEN {one} ELSE {two} END",
        f"IF({_condition(choose, pool)}, {one}, {two})", f"CAST({one} AS double)",
        f"CAST({choose.choice(_numbers(pool))} AS decimal(30, 6))",
        f"CASE WHEN ({two}) <> 0 THEN {one} / ({two}) END",
        f"{one} / ({two})", f"{one} % 7", f"CAST({one} AS bigint)",
    ])  # fmt: skip


def _condition(choose: random.Random, pool: Sequence[str]) -> str:
    column, another = choose.choice(sorted(pool)), choose.choice(_numbers(pool))
    return choose.choice([
        f"{column} IS NOT NULL", f"{another} > 0", f"{another} <= {choose.choice(_numbers(pool))}",
        f"{another} BETWEEN -10 AND 1000", f"{another} IN (0, 1, 2.5)",
        f"NOT ({another} = 0) OR {column} IS NULL", f"{another} > 0 AND {column} IS NOT NULL",
    ])  # fmt: skip


REFUSED, FAILED, SAME = "refused", "failed on both", "the same"


def compared(question: Question, tables: Tables, **options: Any) -> str:
    """What became of a question. An assertion fails if the two answers differ."""
    try:
        run = question.ours(tables, **options)
    except (InvalidArgument, SchemaError):
        return REFUSED
    with run:
        try:
            estimate = run.exact()
            found = run.to_df(estimate)
        except ArithmeticFailed as error:
            failure: ArithmeticFailed | None = error
        else:
            failure = None
        own = question.sparks(tables)
        try:
            wanted = _rows(own, question)
        except PySparkException as error:
            words = str(error).split("\n", 1)[0]
            assert failure is not None, f"Spark fails ({words}), we say {estimate}"
            return FAILED
        assert failure is None, f"Spark has an answer, we fail: {failure}"
        kinds = [(field.name, field.dataType) for field in own.schema]
        assert [(field.name, field.dataType) for field in found.schema] == kinds
        mine = _rows(found, question)
        assert mine.keys() == wanted.keys()
        for group, values in wanted.items():
            for ours, theirs in zip(mine[group], values, strict=True):
                assert _alike(ours, theirs), f"{group}: {mine[group]} instead of {values}"
        assert estimate.answer.num_rows == len(wanted)
    return SAME


def _rows(frame: DataFrame, question: Question) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    found = {}
    count = len(question.group_by)
    for row in frame.collect():
        group = tuple(_plain(value) for value in row[:count])
        assert group not in found, f"{group} comes twice"
        found[group] = tuple(row[count:])
    return found


def _plain(value: Any) -> Any:
    """NaN is one group, and so are the two zeros."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return bytes(value) if isinstance(value, bytearray) else value


def _alike(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(theirs, float):
        if math.isnan(theirs) or math.isinf(theirs):
            return repr(mine) == repr(theirs)
        # Sums in another order, of numbers up to a few billions.
        return math.isclose(mine, theirs, rel_tol=1e-7, abs_tol=1e-3)
    return type(mine) is type(theirs) and bool(mine == theirs) and _scale(mine) == _scale(theirs)


def _scale(value: Any) -> Any:
    return value.as_tuple().exponent if isinstance(value, Decimal) else None
