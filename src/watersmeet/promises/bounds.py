"""Which state promises bound, and why; or what promise would bound it. In words, for `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from watersmeet.model import JoinType, Side
from watersmeet.promises.checking import check_promises, join_columns, pattern_of
from watersmeet.promises.kinds import (
    Clustered,
    FromTo,
    Ordered,
    PromiseOfValues,
    Punctuated,
    Unique,
    Watermark,
)
from watersmeet.promises.telling import Telling, has_unique_keys
from watersmeet.promises.watched import KeyOrder, Watched
from watersmeet.rows.bands import Width, width_words
from watersmeet.rows.on import name_of
from watersmeet.rows.predicates import ValuesInBand
from watersmeet.rows.promised_keys import REMEMBERED
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import rounds
from watersmeet.words import listed


class Use(NamedTuple):
    """What a promise about one side does for the rows of the other that are kept."""

    drops: bool
    """Whether rows are dropped by it at all."""
    bounds: bool
    """Whether every row is dropped some time, also one whose partner never comes."""
    words: str


class Missing(NamedTuple):
    """A side whose rows without a partner nobody can tell, because nothing bounds their wait."""

    side: Side
    cause: str
    remedy: str


def bounds_in_words(
    schema: JoinSchema, promises: Sequence[PromiseOfValues]
) -> list[tuple[str, str]]:
    """For each side, what becomes of its rows: (subject, sentence).

    >>> import pyarrow as pa, watersmeet as wm
    >>> clicks = pa.schema({"id": pa.int64(), "at": pa.timestamp("us")})
    >>> schema = JoinSchema.resolve(clicks, clicks, ["id", wm.within("at", "5 minutes")])
    >>> for subject, sentence in bounds_in_words(schema, [wm.watermark("right", "at", "1 hour")]):
    ...     print(f"{subject}: {sentence}")
    left rows: bounded by watermark(at, 1 hour) of the right input: a left row goes once the latest
    'at' of the right input is past all that it could meet (at within 5 minutes), and by more than
    the 1 hour that right rows may be late
    right rows: unbounded: all of them stay, because nothing is promised about the left input;
    wm.watermark('left', 'at', ...) or wm.punctuated('left', ...) would bound them
    """
    promises = check_promises(schema, promises)
    watched = Watched.of(schema, promises)
    lines: list[tuple[str, str]] = []
    for side in Side:
        lines.append((f"{name_of(side)} rows", _state(watched, side, promises)))
    for promise in promises:
        use = use_of(watched, promise)
        if not use.drops:
            lines.append((f"{name_of(promise.side)} {promise}", f"checked only: {use.words}"))
    return lines


def missing_bound(
    schema: JoinSchema, how: JoinType | str, promises: Sequence[PromiseOfValues]
) -> Missing | None:
    """What a join of endless streams lacks that keeps rows of one side, or of both, whatever they
    meet: a promise that bounds how long they wait. None if it lacks nothing."""
    how = JoinType.parse(how)
    promises = check_promises(schema, promises)
    watched = Watched.of(schema, promises)
    for side in Side:
        if not _waits(how, side) or _bounding(watched, side, promises):
            continue
        other = name_of(side.other)
        given = [promise for promise in promises if promise.side is side.other]
        weak = f" {listed([str(each) for each in given])} does not say it." if given else ""
        return Missing(
            side,
            f"how={str(how)!r} asks which {name_of(side)} rows never find a partner, and nothing "
            f"says when no more {other} rows come for one.{weak}",
            f"Promise it: {_remedies(watched.schema, side.other)}.",
        )
    return None


def _waits(how: JoinType, side: Side) -> bool:
    return how.keeps_unmatched(side) or (how is JoinType.SEMI and side is Side.LEFT)


def _bounding(
    watched: Watched, side: Side, promises: Sequence[PromiseOfValues]
) -> list[PromiseOfValues]:
    about = [promise for promise in promises if promise.side is side.other]
    return [promise for promise in about if use_of(watched, promise).bounds]


def _state(watched: Watched, side: Side, promises: Sequence[PromiseOfValues]) -> str:
    other = name_of(side.other)
    about = [(each, use_of(watched, each)) for each in promises if each.side is side.other]
    useful = [(each, use) for each, use in about if use.drops]
    if not useful:
        why = "nothing that lets them go is promised" if about else "nothing is promised"
        return (
            f"unbounded: all of them stay, because {why} about the {other} input; "
            f"{_remedies(watched.schema, side.other)} would bound them"
        )
    reasons = "; ".join(f"by {each} of the {other} input: {use.words}" for each, use in useful)
    if any(use.bounds for _, use in useful):
        return f"bounded {reasons}"
    return (
        f"bounded for rows that find a partner, {reasons}; one whose partner never comes stays, "
        f"unless {_remedies(watched.schema, side.other)} is promised"
    )


def _remedies(schema: JoinSchema, side: Side) -> str:
    """The promises about a side that would bound the rows of the other."""
    name = name_of(side)
    bands = [each for each in schema.predicates if isinstance(each, ValuesInBand)]
    found: list[str] = []
    if bands:
        column = schema.inputs[side].field(bands[0].columns[side]).name
        found.append(f"wm.watermark({name!r}, {column!r}, ...)")
    elif schema.keys:
        found.append(f"wm.ordered({name!r}, {schema.keys[0].of(side)!r})")
    found.append(f"wm.punctuated({name!r}, ...)")
    return " or ".join(found)


# ---- one promise --------------------------------------------------------------------------------


def use_of(watched: Watched, promise: PromiseOfValues) -> Use:
    """What a promise does for the rows of the other side."""
    schema, side = watched.schema, promise.side
    keys = [key.of(side) for key in schema.keys]
    match promise:
        case Unique(_, columns):
            names = keys if columns is None else list(columns)
            met = f"a {name_of(side.other)} row goes when it has met its one partner"
            if has_unique_keys(schema, promise):
                return Use(True, False, met)
            if set(names) <= set(keys) or not Telling(watched, side, names).speaks:
                return Use(False, False, _mute(watched, side, names))
            return Use(True, False, met)
        case Clustered(_, column):
            names = keys if column is None else [column]
            telling = Telling(watched, side, names)
            if not telling.speaks:
                return Use(False, False, _mute(watched, side, names))
            return Use(
                True,
                False,
                f"a {name_of(side.other)} row goes when the {name_of(side)} rows with its value "
                f"have ended{_texts(watched, side, names)}{_latest(telling)}",
            )
        case Ordered() | Watermark():
            return _by_order(watched, promise)
        case Punctuated():
            return _by_markers(watched, promise)


def _by_order(watched: Watched, promise: Ordered | Watermark) -> Use:
    side, column = promise.side, promise.column
    ascending = isinstance(promise, Watermark) or promise.ascending
    row = f"a {name_of(side.other)} row"
    most = "latest" if isinstance(promise, Watermark) else "largest" if ascending else "smallest"
    newest = f"{row} goes once the {most} {column!r} of the {name_of(side)} input is"
    numbers = [number for number, _ in watched.about(side, column)]
    for number in numbers:
        predicate = watched.predicates[number]
        if isinstance(predicate, KeyOrder):
            beyond = "above" if ascending else "below"
            return Use(True, True, f"{newest} {beyond} its own{_lateness(promise)}")
        assert isinstance(predicate, ValuesInBand)
        # Rows of the other side reach up (or down) to a value only if the band ends there.
        upwards = ascending == (side is Side.RIGHT)
        if (predicate.codec.low if upwards else predicate.codec.high) is not None:
            reach = f"past all that it could meet ({predicate.words})"
            return Use(True, True, f"{newest} {reach}{_lateness(promise)}")
    if numbers:
        return Use(
            False,
            False,
            f"the band has no end there: {row} may meet values however far they have gone",
        )
    return Use(False, False, _mute(watched, side, [column]))


def _lateness(promise: Ordered | Watermark) -> str:
    """By how much a value must be past others, because rows may come that late."""
    width: Width | None
    if isinstance(promise, Watermark):
        width, how = promise.delay, "late"
    else:
        width, how = promise.slack, "out of order"
    if not width:
        return ""
    rows = f"{name_of(promise.side)} rows may be {how}"
    return f", and by more than the {width_words(width)} that {rows}"


def _by_markers(watched: Watched, promise: Punctuated) -> Use:
    schema, side = watched.schema, promise.side
    pattern = pattern_of(schema, promise)
    names = [name for name, _ in pattern]
    values = {name for name, how in pattern if not isinstance(how, FromTo)}
    row = f"a {name_of(side.other)} row goes when a marker row says that"
    keys = [key.of(side) for key in schema.keys]

    def met_by(name: str) -> str:
        return f"its {name!r}" if name in keys else f"any {name!r} that it could meet"

    alone = {name: telling for name in names if (telling := Telling(watched, side, [name])).speaks}
    together = keys if keys and set(keys) <= values else names if set(names) == values else []
    both = Telling(watched, side, together) if len(together) > 1 else None
    if both is not None and not both.speaks:
        both = None
    said = [*alone.values(), *([] if both is None else [both])]
    if said:
        texts = _texts(watched, side, list(alone))
        met = [met_by(name) for name in alone]
        if both is not None:
            all_of_them = " and ".join(map(repr, together))
            met.append("its whole key" if together is keys else f"its {all_of_them} together")
        return Use(
            True,
            # Only ranges are about long texts, and nobody knows whether markers have ranges.
            not texts or both is not None,
            f"{row} no more {name_of(side)} rows come with {' or '.join(met)}"
            + (", and says nothing about other columns" if alone and len(names) > 1 else "")
            + texts
            + max(map(_latest, said), key=len),
        )
    known = [name for name in names if name in join_columns(schema, side)]
    if not known:
        words = f"markers speak of {listed(names)}, and the join is not on "
        return Use(False, False, words + ("it" if len(names) == 1 else "them"))
    return Use(False, False, _mute(watched, side, known))


def _latest(telling: Telling) -> str:
    """What is to be said where promises name keys, which do not merge."""
    if not telling.names_keys:
        return ""
    return f"; if it comes after that, only by the latest {REMEMBERED:,} such keys"


def _mute(watched: Watched, side: Side, names: Sequence[str]) -> str:
    """Why nothing is known about codes of these columns."""
    schema = watched.schema
    keys = {key.of(side): key.kind for key in schema.keys}
    kinds = {name: schema.inputs[side].field(name).type for name in names}
    if any(name in keys and rounds(kinds[name], keys[name]) for name in names):
        return "several values become one key: they are compared as doubles, which round them"
    if len(names) > 1:
        return f"{listed(list(names))} together are neither the whole key nor one column of it"
    if names[0] not in keys:
        return f"intervals that overlap are not dropped by one of their ends, {names[0]}"
    kind = kinds[names[0]]
    return (
        f"several values of {names[0]} ({kind}) may have the same code, so rows of others would "
        "be dropped too"
    )


def _texts(watched: Watched, side: Side, names: Sequence[str]) -> str:
    """What is to be said where not every value has a code of its own."""
    if len(names) != 1:
        return ""
    axes = [axis for _, axis in watched.about(side, names[0])]
    if Telling(watched, side, names).names_keys:
        return ""
    if axes and all(axis.is_text for axis in axes):
        return " (texts of up to seven bytes; longer ones only by ranges)"
    if axes and all(axis.rounds for axis in axes):
        return " (by ranges only: its values are compared as doubles, which round them)"
    return ""
