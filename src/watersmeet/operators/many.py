"""The arguments of a join of many relations, checked as far as possible before a row is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType
from watersmeet.operators.family import MANY_INPUTS, check_predicates, find_algorithm
from watersmeet.rows.bands import Band
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.on import Equal, KeyNames, check_column
from watersmeet.rows.schema import MOST_INPUTS, JoinSchema
from watersmeet.rows.spans import together

_AUTO = "miner"
_EXAMPLE = 'Write for example on=[("orders.id", "items.order"), "items.part = parts.id"].'

Predicate = Equal | Band


@dataclass(frozen=True)
class ManyQuestion:
    """The arguments of a join of named relations. `auto`: the user left the choice of the algorithm
    to us."""

    names: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    algorithm: str
    auto: bool
    condition: ConditionLike | None
    how: JoinType = JoinType.INNER

    @classmethod
    def parse(
        cls,
        names: Sequence[Any],
        on: Any,
        *,
        algorithm: str,
        condition: ConditionLike | None,
    ) -> ManyQuestion:
        checked = _check_names(names)
        predicates = _predicates(on, checked)
        _check_tree(checked, predicates)
        if not isinstance(algorithm, str):
            raise InvalidArgument(
                f"algorithm={algorithm!r} is no text.",
                remedy=f"Use for example auto, {', '.join(MANY_INPUTS)}.",
            )
        auto = algorithm.lower() == "auto"
        chosen = _AUTO if auto else algorithm.lower()
        if chosen not in MANY_INPUTS:
            find_algorithm(chosen)  # An unknown name is an error of its own.
            raise InvalidArgument(
                f"algorithm={algorithm!r} joins two inputs, not {len(checked)}.",
                remedy=f"Use auto, or one of {', '.join(MANY_INPUTS)}.",
            )
        return cls(checked, predicates, chosen, auto, condition)

    @property
    def on(self) -> str:
        """What relations are joined on, in words."""
        return " and ".join(words for each in self.predicates for words in self._words(each))

    @property
    def has_keys(self) -> bool:
        """Whether some columns must be equal."""
        return any(isinstance(each, Equal) for each in self.predicates)

    def _words(self, predicate: Predicate) -> list[str]:
        left, right = (self.names[end] for end in predicate.ends)
        if isinstance(predicate, Equal):
            return [f"{left}.{key.left} = {right}.{key.right}" for key in predicate.keys]
        named = replace(
            predicate, left=f"{left}.{predicate.left}", right=f"{right}.{predicate.right}"
        )
        return [str(named)]

    def resolve(self, *schemas: pa.Schema) -> JoinSchema:
        """The join of relations with these columns, or an error that names what is wrong."""
        for each in self.predicates:
            for end, names in zip(each.ends, _columns(each), strict=True):
                for name in names:
                    self._check_column(name, end, schemas[end])
        schema = JoinSchema.resolve_many(
            schemas,
            self.predicates,
            suffixes=[f"_{name}" for name in self.names],
            condition=self.condition,
        )
        check_predicates(self.algorithm, schema)
        return schema

    def check(self, *schemas: pa.Schema | None) -> JoinSchema | None:
        """Resolve the join if the columns of all relations are known; else check those that are."""
        known = [schema for schema in schemas if schema is not None]
        if len(known) == len(schemas):
            return self.resolve(*known)
        for each in self.predicates:
            for end, names in zip(each.ends, _columns(each), strict=True):
                schema = schemas[end]
                if schema is not None:
                    for name in names:
                        self._check_column(name, end, schema)
        return None

    def _check_column(self, column: str, input: int, schema: pa.Schema) -> None:
        check_column(column, schema.names, self.names[input])


def relations_of(relations: Any) -> tuple[list[Any], list[Any]]:
    """The names of relations and what they stand for, from a dict or a list of pairs."""
    pairs: Any = list(relations.items()) if isinstance(relations, Mapping) else relations
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(each, tuple) and len(each) == 2 for each in pairs
    ):
        raise InvalidArgument(
            f"{type(relations).__name__} names no relations.",
            remedy='Give a dict of names and inputs, as in {"orders": orders, "items": items}.',
        )
    return [name for name, _ in pairs], [relation for _, relation in pairs]


def _check_names(names: Sequence[Any]) -> tuple[str, ...]:
    if not 2 <= len(names) <= MOST_INPUTS:
        raise InvalidArgument(
            f"{len(names)} relations cannot be joined at once.",
            remedy=f"Give from 2 to {MOST_INPUTS}; join some of them first if there are more.",
        )
    for name in names:
        if not (isinstance(name, str) and name):
            raise InvalidArgument(
                f"{name!r} is no name of a relation.", remedy='Give a text, such as "orders".'
            )
        if names.count(name) > 1:
            raise InvalidArgument(
                f"Two relations are named {name!r}.", remedy="Give each a name of its own."
            )
    return tuple(names)


# ---- on -----------------------------------------------------------------------------------------


def _predicates(on: Any, names: tuple[str, ...]) -> tuple[Predicate, ...]:
    """The predicates of `on`, with the inputs of each in the order of the relations."""
    keys: dict[tuple[int, int], list[KeyNames]] = {}
    bands: dict[tuple[int, int], list[Band]] = {}
    items = on if isinstance(on, list | tuple) and not _is_pair(on) else [on]
    for item in items:
        if isinstance(item, Band):
            band = _placed(item, names)
            bands.setdefault(band.ends, []).append(band)
        else:
            for ends, key in _equal(item, names):
                found = keys.setdefault(ends, [])
                if key in found:
                    raise InvalidArgument(
                        f"on= says twice that {key.left!r} of {names[ends[0]]!r} equals "
                        f"{key.right!r} of {names[ends[1]]!r}.",
                        remedy="Leave one of them out.",
                    )
                found.append(key)
    if not (keys or bands):
        raise InvalidArgument("on= names no columns.", remedy=_EXAMPLE)
    equal = [Equal(tuple(found), ends) for ends, found in keys.items()]
    return (*equal, *(each for found in bands.values() for each in together(found)))


def _is_pair(on: Any) -> bool:
    return isinstance(on, tuple) and len(on) == 2 and all(isinstance(each, str) for each in on)


def _equal(item: Any, names: tuple[str, ...]) -> Iterable[tuple[tuple[int, int], KeyNames]]:
    """The equalities of one item: of two columns, or of one column that all relations have."""
    match item:
        case (str() as left, str() as right):
            yield _ordered(_found(left, names), _found(right, names), names)
        case str() if "=" in item:
            left, _, right = (part.strip() for part in item.partition("="))
            yield _ordered(_found(left, names), _found(right, names), names)
        case str() if item.strip():
            # A star around the first relation.
            for other in range(1, len(names)):
                yield (0, other), KeyNames(item, item, True)
        case Overlap():
            raise InvalidArgument(
                f"on= has {item}, and intervals are joined between two inputs.",
                remedy="Join these two with wm.local.join first, or give it as condition=, beside "
                "columns that are equal or close.",
            )
        case _:
            raise InvalidArgument(f"on= has {item!r}, which names no columns.", remedy=_EXAMPLE)


def _placed(band: Band, names: tuple[str, ...]) -> Band:
    left, right = _found(band.left, names), _found(band.right, names)
    _check_apart(left[0], right[0], names)
    if left[0] > right[0]:
        left, right = right, left
        band = replace(
            band,
            low=None if band.high is None else -band.high,
            high=None if band.low is None else -band.low,
            low_open=band.high_open,
            high_open=band.low_open,
        )
    return replace(band, left=left[1], right=right[1], ends=(left[0], right[0]))


def _ordered(
    left: tuple[int, str], right: tuple[int, str], names: tuple[str, ...]
) -> tuple[tuple[int, int], KeyNames]:
    _check_apart(left[0], right[0], names)
    if left[0] > right[0]:
        left, right = right, left
    return (left[0], right[0]), KeyNames(left[1], right[1], left[1] == right[1])


def _found(text: str, names: tuple[str, ...]) -> tuple[int, str]:
    """The relation and the column of a text such as "orders.id"."""
    places = [n for n, name in enumerate(names) if text.startswith(f"{name}.")]
    if not places:
        raise InvalidArgument(
            f"on= has {text!r}, which names no relation.",
            remedy=f"Write relation.column; the relations are {', '.join(names)}.",
        )
    # A name may be the beginning of another.
    place = max(places, key=lambda n: len(names[n]))
    return place, text[len(names[place]) + 1 :]


def _check_apart(left: int, right: int, names: tuple[str, ...]) -> None:
    if left == right:
        raise InvalidArgument(
            f"on= joins {names[left]!r} with itself.",
            remedy="Name columns of two relations; give a relation twice, under two names, to "
            "join it with itself.",
        )


def _columns(predicate: Predicate) -> tuple[list[str], list[str]]:
    if isinstance(predicate, Band):
        return [predicate.left], [predicate.right]
    return [key.left for key in predicate.keys], [key.right for key in predicate.keys]


def _check_tree(names: tuple[str, ...], predicates: Sequence[Predicate]) -> None:
    """Refuse predicates that leave a relation out, or form a circle."""
    connected = [{input} for input in range(len(names))]
    for ends in dict.fromkeys(each.ends for each in predicates):
        mine, others = (next(found for found in connected if end in found) for end in ends)
        if mine is others:
            raise InvalidArgument(
                f"{names[ends[0]]!r} and {names[ends[1]]!r} are connected twice: by columns of "
                "their own, and through other relations.",
                remedy="Leave one of these predicates out of on=, and give it as condition=.",
            )
        connected.remove(others)
        mine |= others
    if len(connected) > 1:
        alone = min(connected, key=len)
        words = " and ".join(repr(names[n]) for n in sorted(alone))
        raise InvalidArgument(
            f"on= does not connect {words} with the other relations.",
            remedy="Name a column of it that equals, or is close to, one of another relation.",
        )
