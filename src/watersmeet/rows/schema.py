"""What a join's inputs and output look like: keys resolved once, applied to every batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import JoinType, Side
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.condition import Condition, ConditionLike
from watersmeet.rows.intake import Intake
from watersmeet.rows.keys import KeyCodec, KeyColumn, Rehash, codec_for, equal_keys
from watersmeet.rows.leaves import Mask
from watersmeet.rows.on import KeyNames, On, check_name, key_names
from watersmeet.rows.output import KeyPair, OutputColumn, Schemas, output_columns
from watersmeet.rows.types import comparison_type, padding_of
from watersmeet.rows.values import rows_where

__all__ = ["EncodedRows", "JoinSchema", "On"]


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows ready for an operator: a row whose `valid` is false has a null key, which matches
    nothing. `valid` is None when every row has a key."""

    codes: NDArray[np.uint64]
    valid: Mask | None
    rows: pa.RecordBatch

    def with_keys(self) -> EncodedRows:
        """Those of the rows that have a key."""
        if self.valid is None:
            return self
        return EncodedRows(self.codes[self.valid], None, rows_where(self.rows, self.valid))


@dataclass(frozen=True, slots=True)
class JoinSchema:
    """Two inputs, how their keys are compared, and the output they make together.

    Two rows match when both are valid, their hashes are equal and `verify` does not refuse them.
    """

    left: pa.Schema
    right: pa.Schema
    how: JoinType
    output: pa.Schema
    keys: tuple[KeyPair, ...]
    codec: KeyCodec
    columns: tuple[OutputColumn, ...]
    condition: Condition | None
    _intakes: tuple[Intake, Intake]
    _stored: Schemas

    @classmethod
    def resolve(
        cls,
        left: pa.Schema,
        right: pa.Schema,
        on: On,
        how: JoinType | str = JoinType.INNER,
        *,
        suffixes: tuple[str, str] = ("", "_right"),
        condition: ConditionLike | None = None,
        rehash: Rehash | None = None,
    ) -> JoinSchema:
        """Find everything that can be wrong with a join before a row is read.

        `on` is a column name, a list of names, a list of (left, right) pairs or a dict
        {left: right}. Two keys of one name are one output column, as in SQL's USING.
        `condition` sees the output's column names; for semi and anti joins, those that an
        inner join would have. `rehash` replaces hashes, for tests that need collisions.

        >>> orders = pa.schema({"id": pa.int64(), "total": pa.float64()})
        >>> items = pa.schema({"id": pa.int64(), "total": pa.float64()})
        >>> JoinSchema.resolve(orders, items, "id").output.names
        ['id', 'total', 'total_right']
        """
        how = JoinType.parse(how)
        intakes = (Intake.of(Side.LEFT, left), Intake.of(Side.RIGHT, right))
        schemas = (intakes[Side.LEFT].kept, intakes[Side.RIGHT].kept)
        keys = tuple(_key_pair(schemas, names) for names in key_names(on))
        positions = [
            KeyColumn(
                left.get_field_index(key.left),
                right.get_field_index(key.right),
                key.kind,
                key.padding,
            )
            for key in keys
        ]
        declared = (intakes[Side.LEFT].declared, intakes[Side.RIGHT].declared)
        columns = output_columns(declared, schemas, keys, how=how, suffixes=suffixes)
        resolved = None
        if condition is not None:
            shape = how if how.emits_pairs else JoinType.INNER
            pair = output_columns(declared, schemas, keys, how=shape, suffixes=suffixes)
            resolved = Condition.resolve(condition, pair)
        codec = codec_for(positions, schemas, rehash=rehash)
        return cls(
            left=intakes[Side.LEFT].declared,
            right=intakes[Side.RIGHT].declared,
            how=how,
            output=pa.schema([column.field for column in columns]),
            keys=keys,
            codec=codec,
            columns=columns,
            condition=resolved,
            _intakes=intakes,
            _stored=(_with_key(schemas[0], codec.hidden), _with_key(schemas[1], codec.hidden)),
        )

    def of(self, side: Side) -> pa.Schema:
        return self.left if side is Side.LEFT else self.right

    def stored(self, side: Side) -> pa.Schema:
        """What must be kept of each row: its columns, and the exact key where it is hidden."""
        return self._stored[side]

    def encode(self, side: Side, batch: pa.RecordBatch) -> EncodedRows:
        """Hash the keys of a batch; the rows that come back have the schema `stored(side)`."""
        batch = self._intakes[side].accept(batch)
        encoded = self.codec.encode(side, batch)
        if encoded.hidden is not None:
            columns = [*batch.columns, encoded.hidden]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._stored[side])
        return EncodedRows(encoded.hashes, encoded.valid, batch)

    def verify(self, left: Rows, right: Rows) -> Mask | None:
        """Which pairs of equal hash are matches; None when hashes alone decide."""
        mask = self._equal(left, right)
        if self.condition is None or not len(left):
            return mask
        if mask is None or mask.all():
            return self.condition.holds(left, right)
        # The condition is computed for true pairs only: for others it could fail.
        chosen = np.flatnonzero(mask)
        mask[chosen] = self.condition.holds(
            Rows(left.source, left.index[chosen]), Rows(right.source, right.index[chosen])
        )
        return mask

    def materialise(self, matches: Matches) -> pa.RecordBatch:
        """Copy the matched rows out; a missing side becomes nulls."""
        left, right, count = matches.left, matches.right, len(matches)
        arrays = [column.gather(left, right, count) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    @property
    def codes_decide(self) -> bool:
        """Whether keys are equal exactly when their hashes are."""
        return any(self._exact_key(side) is None for side in Side)

    def same_keys(self, side: Side, first: Rows, second: Rows) -> bool:
        """Whether rows of one side, pairwise of equal hash, have pairwise equal keys."""
        key = self._exact_key(side)
        return key is None or self.codes_decide or bool(equal_keys(first, key, second, key).all())

    def _equal(self, left: Rows, right: Rows) -> Mask | None:
        mine, others = self._exact_key(Side.LEFT), self._exact_key(Side.RIGHT)
        if mine is None or others is None:
            return None
        return equal_keys(left, mine, right, others)

    def _exact_key(self, side: Side) -> int | None:
        """The stored column that holds the exact key, or None when the hash is exact."""
        if self.codec.hidden is not None:
            return len(self.of(side))
        return self.codec.payload(side)


def _key_pair(schemas: Schemas, names: KeyNames) -> KeyPair:
    for side in Side:
        check_name(names.of(side), schemas[side].names, side)
    left, right = (schemas[side].field(names.of(side)) for side in Side)
    return KeyPair(
        names.left,
        names.right,
        comparison_type(left, right),
        shared=names.shared,
        padding=(padding_of(left), padding_of(right)),
    )


def _with_key(schema: pa.Schema, hidden: pa.DataType | None) -> pa.Schema:
    if hidden is None:
        return schema
    name = "__key"
    while name in schema.names:
        name = "_" + name
    return schema.append(pa.field(name, hidden, nullable=False))
