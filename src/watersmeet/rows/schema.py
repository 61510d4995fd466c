"""The columns of a join's inputs and output, and its predicates, resolved for those columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.bands import Band
from watersmeet.rows.condition import Condition, ConditionLike
from watersmeet.rows.edges import Edge, TakenRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.intake import Intake
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.keys import KeyColumn, Rehash, codec_for, equal_keys
from watersmeet.rows.leaves import Mask
from watersmeet.rows.on import Asked, KeyNames, On, check_name, name_of, parse_on
from watersmeet.rows.output import KeyPair, OutputColumn, output_columns, with_version_column
from watersmeet.rows.predicates import (
    Encode,
    EqualKeys,
    IntervalsOverlap,
    Predicate,
    ValuesInBand,
    Verify,
)
from watersmeet.rows.types import comparison_type, padding_of
from watersmeet.rows.values import rows_where

__all__ = ["MOST_INPUTS", "EncodedRows", "JoinSchema", "On"]

MOST_INPUTS = 8


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows ready for an operator, with an array of codes for each predicate that they take part in.

    A row whose `valid` is false lacks a value that a predicate needs, and matches nothing. `valid`
    is None when every row has them all.
    """

    codes_of: tuple[Codes, ...]
    valid: Mask | None
    rows: pa.RecordBatch

    @property
    def codes(self) -> Codes:
        """The codes under the only predicate of the input, or under its first."""
        return self.codes_of[0]

    def with_keys(self) -> EncodedRows:
        """The rows that are valid."""
        if self.valid is None:
            return self
        codes = tuple(codes[self.valid] for codes in self.codes_of)
        return EncodedRows(codes, None, rows_where(self.rows, self.valid))


@dataclass(frozen=True, slots=True)
class JoinSchema:
    """The inputs, predicates and output columns of a join.

    One row of each input are a match if all are valid and every predicate between two of them
    holds: the code of one is within the reach of the other, and `verify` does not refuse them.
    """

    inputs: tuple[pa.Schema, ...]
    how: JoinType
    output: pa.Schema
    predicates: tuple[Predicate, ...]
    columns: tuple[OutputColumn, ...]
    condition: Condition | None
    _intakes: tuple[Intake, ...]
    _stored: tuple[pa.Schema, ...]
    _hidden: tuple[tuple[int, int], ...]
    """For each predicate, the position of its hidden column in the stored rows of its two ends."""
    _encoders: tuple[tuple[Encode, ...], ...]
    """For each input, the functions that compute its codes, one for each of its predicates."""
    _verifiers: tuple[Verify | None, ...]
    """For each predicate the function that decides; None if codes do."""
    version_column: str | None = None
    """The last output column, if it is to say which version of a master table a row has met."""

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
        version_column: str | None = None,
    ) -> JoinSchema:
        """The schema of a join of two inputs; errors are found here, before a row is read.

        `on` is a column name, a list of names, a list of (left, right) pairs, a dict
        {left: right}, or a list in which some are a `Band` or an `Overlap`. Two keys of one name
        are one output column, as in SQL's USING. `condition` sees the output's column names; for
        semi and anti joins, those that an inner join would have. `rehash` replaces hashes, for
        tests that need collisions.

        >>> orders = pa.schema({"id": pa.int64(), "total": pa.float64()})
        >>> items = pa.schema({"id": pa.int64(), "total": pa.float64()})
        >>> JoinSchema.resolve(orders, items, "id").output.names
        ['id', 'total', 'total_right']
        """
        how = JoinType.parse(how)
        schema = cls._resolve(
            (left, right),
            parse_on(on),
            how,
            suffixes=suffixes,
            condition=condition,
            rehash=rehash,
        )
        return schema if version_column is None else schema._with_version(version_column)

    def _with_version(self, name: str) -> JoinSchema:
        output = with_version_column(self.output, name)
        return replace(self, output=output, version_column=name)

    @classmethod
    def resolve_many(
        cls,
        inputs: Sequence[pa.Schema],
        predicates: Sequence[Asked],
        *,
        suffixes: Sequence[str] | None = None,
        condition: ConditionLike | None = None,
        rehash: Rehash | None = None,
    ) -> JoinSchema:
        """The inner join of any number of inputs, with predicates between some pairs of them.

        >>> from watersmeet.rows.on import Equal
        >>> a, b, c = (pa.schema({"x": pa.int64(), name: pa.int64()}) for name in "abc")
        >>> chain = [Equal.of("x", (0, 1)), Equal.of("x", (1, 2))]
        >>> JoinSchema.resolve_many([a, b, c], chain).output.names
        ['x', 'a', 'b', 'c']
        """
        _check_connected(len(inputs), predicates)
        if suffixes is None:
            suffixes = ["", *(f"_{number + 1}" for number in range(1, len(inputs)))]
        return cls._resolve(
            tuple(inputs),
            predicates,
            JoinType.INNER,
            suffixes=suffixes,
            condition=condition,
            rehash=rehash,
        )

    @classmethod
    def _resolve(
        cls,
        inputs: tuple[pa.Schema, ...],
        asked: Sequence[Asked],
        how: JoinType,
        *,
        suffixes: Sequence[str],
        condition: ConditionLike | None,
        rehash: Rehash | None,
    ) -> JoinSchema:
        intakes = tuple(
            Intake.of(name_of(n, len(inputs)), schema) for n, schema in enumerate(inputs)
        )
        declared = tuple(intake.declared for intake in intakes)
        kept = tuple(intake.kept for intake in intakes)
        predicates = tuple(_resolved(each, kept, rehash) for each in asked)
        columns = output_columns(declared, kept, _keys(predicates), how=how, suffixes=suffixes)
        resolved = None
        if condition is not None:
            shape = how if how.emits_pairs else JoinType.INNER
            pair = output_columns(declared, kept, _keys(predicates), how=shape, suffixes=suffixes)
            resolved = Condition.resolve(condition, pair)
        stored, hidden = _with_hidden(kept, predicates)
        return cls(
            inputs=declared,
            how=how,
            output=pa.schema([column.field for column in columns]),
            predicates=predicates,
            columns=columns,
            condition=resolved,
            _intakes=intakes,
            _stored=stored,
            _hidden=hidden,
            _encoders=tuple(_encoders(n, predicates) for n in range(len(inputs))),
            _verifiers=_verifiers(predicates, hidden),
        )

    @property
    def left(self) -> pa.Schema:
        return self.inputs[Side.LEFT]

    @property
    def right(self) -> pa.Schema:
        return self.inputs[Side.RIGHT]

    @property
    def equal(self) -> EqualKeys:
        """The predicate of a join of two inputs on equal keys."""
        (equal,) = (each for each in self.predicates if isinstance(each, EqualKeys))
        return equal

    @property
    def keys(self) -> tuple[KeyPair, ...]:
        """The pairs of columns that must be equal."""
        return tuple(key for _, key in _keys(self.predicates))

    @property
    def bands(self) -> tuple[str, ...]:
        """The bands and intervals of a join, in words."""
        found = [
            each for each in self.predicates if isinstance(each, ValuesInBand | IntervalsOverlap)
        ]
        return tuple(words for each in found for words in each.describe())

    def in_words(self) -> list[str]:
        """What rows are joined on: a shared name, two that must be equal, a band, intervals."""
        names = [(key.left, key.right) for key in self.keys]
        keys = [mine if mine == other else f"{mine} = {other}" for mine, other in names]
        return [*keys, *self.bands]

    def at(self, input: int) -> list[int]:
        """The numbers of the predicates that rows of an input take part in."""
        return [n for n, predicate in enumerate(self.predicates) if input in predicate.ends]

    def stored(self, input: int) -> pa.Schema:
        """The schema of stored rows: the input's columns, and hidden columns where needed."""
        return self._stored[input]

    def with_stored(self, input: int, field: pa.Field) -> JoinSchema:
        """The same join, whose stored rows of an input have one more column, the last. `encode`
        does not know of it: whoever stores rows appends it."""
        stored = list(self._stored)
        stored[input] = stored[input].append(field)
        return replace(self, _stored=tuple(stored))

    def accept(self, input: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of an input in the types in which its rows are kept, without hidden columns."""
        return self._intakes[input].accept(batch)

    def encode(self, input: int, batch: pa.RecordBatch) -> EncodedRows:
        """Codes for a batch; the rows that come back have the schema `stored(input)`."""
        batch = self.accept(input, batch)
        codes: list[Codes] = []
        valid: Mask | None = None
        hidden: list[pa.Array] = []
        for encode in self._encoders[input]:
            encoded = encode(batch)
            codes.append(encoded.codes)
            if encoded.valid is not None:
                valid = encoded.valid if valid is None else valid & encoded.valid
            if encoded.hidden is not None:
                hidden.append(encoded.hidden)
        if hidden:
            columns = [*batch.columns, *hidden]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._stored[input])
        return EncodedRows(tuple(codes), valid, batch)

    def in_order(self) -> JoinSchema:
        """The same join, with all predicates between two inputs as one whose codes have an order.

        Results of either can be materialised by both.
        """
        parts: dict[tuple[int, int], list[Predicate]] = {}
        for each in self.predicates:
            parts.setdefault(each.ends, []).append(each)
        edges = tuple(Edge.of(each) for each in parts.values())
        kept = tuple(intake.kept for intake in self._intakes)
        stored, hidden = _with_hidden(kept, edges)
        return replace(
            self,
            predicates=edges,
            _stored=stored,
            _hidden=hidden,
            _encoders=tuple(_encoders(n, edges) for n in range(len(self.inputs))),
            _verifiers=_verifiers(edges, hidden),
        )

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The predicates of a schema that is `in_order`."""
        return tuple(each for each in self.predicates if isinstance(each, Edge))

    def encode_again(self, input: int, rows: Rows) -> tuple[Codes, ...]:
        """The codes of stored rows of an input, which `encode` has computed before."""
        return tuple(encode(TakenRows(rows)).codes for encode in self._encoders[input])

    def encode_one(self, input: int, predicate: int, rows: Rows) -> Codes:
        """The codes of stored rows of an input under one of its predicates."""
        return self._encoders[input][self.at(input).index(predicate)](TakenRows(rows)).codes

    def allows(self, predicate: int, left: Rows, right: Rows) -> Mask | None:
        """Which candidates one predicate allows; None when codes alone decide."""
        verify = self._verifiers[predicate]
        return None if verify is None else verify(left, right)

    def verify(self, *rows: Rows | None) -> Mask | None:
        """Which candidates are matches; None when codes alone decide.

        `rows` has one row of each input for each candidate; None for inputs that are not part of
        the candidates yet. The condition is computed only if there are rows of all.
        """
        mask: Mask | None = None
        for predicate, verify in zip(self.predicates, self._verifiers, strict=True):
            left, right = (rows[end] for end in predicate.ends)
            if verify is not None and left is not None and right is not None:
                holds = verify(left, right)
                mask = holds if mask is None else mask & holds
        present = [each for each in rows if each is not None]
        if self.condition is None or len(present) < len(self.inputs) or not len(present[0]):
            return mask
        if mask is None or mask.all():
            return self.condition.holds(present)
        # Only for candidates that fulfil all predicates: for others the condition may fail.
        chosen = np.flatnonzero(mask)
        mask[chosen] = self.condition.holds(
            [Rows(each.source, each.index[chosen]) for each in present]
        )
        return mask

    def materialise(self, matches: Matches) -> pa.RecordBatch:
        """Copy the matched rows into a batch; the columns of a missing input are null."""
        count = len(matches)
        arrays = [column.gather(matches.rows, count) for column in self.columns]
        if self.version_column is not None:
            arrays.append(pa.repeat(pa.scalar(matches.version, pa.string()), count))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    def exact_keys(self) -> tuple[int, int] | None:
        """The stored columns of both sides whose bytes are the key, if the first predicate is one
        of equal keys of which several may have the same code."""
        first = self.predicates[0]
        if not isinstance(first, EqualKeys) or first.codes_decide:
            return None
        left, right = (first.exact(side, self._hidden[0][side]) for side in Side)
        return left, right

    # ---- two inputs, one equality ---------------------------------------------------------------

    @property
    def codes_decide(self) -> bool:
        """Whether keys are equal exactly when their codes are."""
        return self.equal.codes_decide

    def same_keys(self, side: Side, first: Rows, second: Rows) -> bool:
        """Whether first[i] and second[i], rows of one side with equal codes, have equal keys."""
        return bool(self.equal_keys(side, first, second).all())

    def equal_keys(self, side: Side, first: Rows, second: Rows) -> Mask:
        """For which i the rows first[i] and second[i] of one side, with equal codes, have equal
        keys."""
        if self.codes_decide:
            return np.ones(len(first), np.bool_)
        (number,) = self.at(side)
        key = self.equal.exact(side, self._hidden[number][side])
        return equal_keys(first, key, second, key)


def _keys(predicates: Sequence[Predicate]) -> list[tuple[tuple[int, int], KeyPair]]:
    return [
        (predicate.ends, key)
        for predicate in predicates
        if isinstance(predicate, EqualKeys)
        for key in predicate.keys
    ]


def _check_connected(inputs: int, predicates: Sequence[Asked]) -> None:
    if not 2 <= inputs <= MOST_INPUTS:
        raise InvalidArgument(
            f"{inputs} inputs cannot be joined.", remedy=f"Give from 2 to {MOST_INPUTS}."
        )
    reached, more = {0}, True
    while more:
        found = {end for each in predicates if reached & set(each.ends) for end in each.ends}
        more = not found <= reached
        reached |= found
    if len(reached) < inputs:
        alone = min(set(range(inputs)) - reached)
        raise InvalidArgument(
            f"No predicate connects the {name_of(alone, inputs)} input with the others.",
            remedy="Name one between it and another input.",
        )


def _resolved(asked: Asked, schemas: tuple[pa.Schema, ...], rehash: Rehash | None) -> Predicate:
    ends = schemas[asked.ends[0]], schemas[asked.ends[1]]
    if isinstance(asked, Band):
        names = (asked.left, asked.right)
        for end in Side:
            check_name(names[end], ends[end].names, asked.ends[end], len(schemas))
        left, right = (ends[end].get_field_index(names[end]) for end in Side)
        codec = asked.resolve(ends[0].field(left), ends[1].field(right))
        return ValuesInBand(asked.ends, (left, right), codec, str(asked))
    if isinstance(asked, Overlap):
        return _overlap(asked, ends, len(schemas))
    keys = tuple(_key_pair(ends, names, asked.ends, len(schemas)) for names in asked.keys)
    positions = [
        KeyColumn(
            ends[0].get_field_index(key.left),
            ends[1].get_field_index(key.right),
            key.kind,
            key.padding,
        )
        for key in keys
    ]
    return EqualKeys(asked.ends, keys, codec_for(positions, ends, rehash=rehash))


def _overlap(asked: Overlap, schemas: tuple[pa.Schema, pa.Schema], inputs: int) -> IntervalsOverlap:
    asked.check(*(schema.names for schema in schemas))
    for end in Side:
        for name in asked.columns_of(end):
            check_name(name, schemas[end].names, asked.ends[end], inputs)
    left, right = (
        tuple(schemas[end].get_field_index(name) for name in asked.columns_of(end)) for end in Side
    )
    fields = [
        (schemas[end].field(columns[0]), schemas[end].field(columns[1]))
        for end, columns in zip(Side, (left, right), strict=True)
    ]
    codec = asked.resolve(fields[0], fields[1])
    return IntervalsOverlap(asked.ends, (left, right), codec, str(asked))


def _key_pair(
    schemas: tuple[pa.Schema, pa.Schema], names: KeyNames, ends: tuple[int, int], inputs: int
) -> KeyPair:
    for end in Side:
        check_name(names.of(end), schemas[end].names, ends[end], inputs)
    left, right = (schemas[end].field(names.of(end)) for end in Side)
    return KeyPair(
        names.left,
        names.right,
        comparison_type(left, right),
        shared=names.shared,
        padding=(padding_of(left), padding_of(right)),
    )


def _encoders(input: int, predicates: Sequence[Predicate]) -> tuple[Encode, ...]:
    return tuple(
        each.encoder(Side(each.ends.index(input))) for each in predicates if input in each.ends
    )


def _verifiers(
    predicates: Sequence[Predicate], hidden: Sequence[tuple[int, int]]
) -> tuple[Verify | None, ...]:
    return tuple(each.verifier(where) for each, where in zip(predicates, hidden, strict=True))


def _with_hidden(
    schemas: tuple[pa.Schema, ...], predicates: Sequence[Predicate]
) -> tuple[tuple[pa.Schema, ...], tuple[tuple[int, int], ...]]:
    """The schemas with a hidden column for each predicate that needs one, and its positions."""
    stored, places = list(schemas), []
    for predicate in predicates:
        left, right = (len(stored[end]) for end in predicate.ends)
        places.append((left, right))
        if predicate.hidden is not None:
            for end in predicate.ends:
                stored[end] = _with_key(stored[end], predicate.hidden)
    return tuple(stored), tuple(places)


def _with_key(schema: pa.Schema, hidden: pa.DataType) -> pa.Schema:
    name = "__key"
    while name in schema.names:
        name = "_" + name
    return schema.append(pa.field(name, hidden, nullable=False))
