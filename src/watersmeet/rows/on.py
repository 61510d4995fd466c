"""Parses `on`: which columns must be equal or close. Finds columns by Spark's rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.bands import Band
from watersmeet.rows.intervals import Overlap
from watersmeet.rows.spans import together


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Two key columns. `shared`: they are one column of the result, as in SQL's USING."""

    left: str
    right: str
    shared: bool

    def of(self, side: Side) -> str:
        return self.left if side is Side.LEFT else self.right


@dataclass(frozen=True, slots=True)
class Equal:
    """The user's predicate that these columns of two inputs are equal."""

    keys: tuple[KeyNames, ...]
    ends: tuple[int, int] = (0, 1)

    @classmethod
    def of(cls, on: On, ends: tuple[int, int] = (0, 1)) -> Equal:
        return cls(tuple(key_names(on)), ends)


Near = Band | Overlap
"""A predicate that is about more than equal keys."""
Asked = Equal | Near
On = str | Near | Sequence[str | tuple[str, str] | KeyNames | Near] | Mapping[str, str]


def parse_on(on: Any) -> list[Asked]:
    """The predicates of a join of two inputs: one of all equal keys, and one for each band and
    each pair of intervals."""
    near = near_of(on)
    if not near:
        return [Equal.of(on)]
    keys = key_names(on)
    bands = together([each for each in near if isinstance(each, Band)])
    overlaps = dict.fromkeys(each for each in near if isinstance(each, Overlap))
    return [*([Equal(tuple(keys))] if keys else []), *bands, *overlaps]


def near_of(on: Any) -> list[Near]:
    """The bands and intervals in `on`."""
    items = list(on) if isinstance(on, list | tuple) else [on]
    return [item for item in items if isinstance(item, Near)]


def key_names(on: Any) -> list[KeyNames]:
    """The pairs of key columns, from any way to write `on`, without bands and intervals."""
    items: list[object]
    if isinstance(on, Mapping):
        items = list(on.items())
    elif isinstance(on, Sequence) and not isinstance(on, str):
        items = list(on)
    else:
        items = [on]
    names: list[KeyNames] = []
    for item in items:
        match item:
            case Band() | Overlap():
                continue
            case KeyNames():
                names.append(item)
            case str():
                names.append(KeyNames(item, item, True))
            case (str() as left, str() as right):
                names.append(KeyNames(left, right, left == right))
            case _:
                raise InvalidArgument(
                    f"on={on!r} does not name key columns.",
                    remedy='Write on="k", on=["k", "j"], on=[("a", "b")] or on={"a": "b"}.',
                )
    if not names and any(isinstance(item, Near) for item in items):
        return []
    if not names or len({(each.left, each.right) for each in names}) < len(names):
        raise InvalidArgument(
            f"on={on!r} names {'a key twice' if names else 'no key'}.",
            remedy="Name at least one pair of key columns, each pair once.",
        )
    return names


def name_of(input: int, inputs: int = 2) -> str:
    """What an input is called: left and right, or by its number if there are more."""
    return Side(input).name.lower() if inputs == 2 else _ORDINALS[input]


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def check_name(name: str, columns: Sequence[str], input: int, inputs: int = 2) -> None:
    """Refuse a name that no column of an input has."""
    check_column(name, columns, name_of(input, inputs))


def check_column(name: str, columns: Sequence[str], word: str) -> None:
    """Refuse a name that no column has, and say which one differs from it by case alone. `word` is
    what the input is called."""
    if name in columns:
        return
    alike = [column for column in columns if column.lower() == name.lower()]
    if alike:
        raise SchemaError(
            f"The {word} input has no column {name!r}, but {' and '.join(map(repr, alike))}.",
            remedy="Upper and lower case differ here: write the name as the input has it.",
        )
    raise SchemaError(
        f"The {word} input has no column {name!r}.",
        remedy=f"Its columns are {', '.join(columns) or 'none'}.",
    )


def spelled(name: str, columns: Sequence[str], word: str) -> str:
    """The column that Spark means by a name while spark.sql.caseSensitive is false."""
    alike = [column for column in columns if column.lower() == name.lower()]
    if len(alike) > 1:
        raise SchemaError(
            f"{name!r} could be {' or '.join(map(repr, alike))} of the {word} input: "
            "upper and lower case are one to Spark while spark.sql.caseSensitive is false.",
            remedy="Rename all but one of them, or set spark.sql.caseSensitive to true.",
        )
    if not alike:
        check_column(name, columns, word)
    return alike[0]
