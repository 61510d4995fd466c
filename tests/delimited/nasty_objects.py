"""Lines of objects by a seed: plain ones, and ones that are wrong in all ways that came to mind."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from tests.delimited.nasty import KINDS, SCRIBBLE, small, text_of
from watersmeet.delimited.objects import ObjectLayout

NAMES = ("number", *(f"c{place}" for place in range(len(KINDS) - 1)), "näme 漢")
"""Of a number of the line, and of a member of each kind."""
_ODD = ["null", "true", "false", "True", "nul", "NaN", "Infinity", "-", "01", "-01", "1.", ".5"]
_ODD += ["-0", "-0.0", "+1", "1e", "1e+", "1E5", "0x1", '""', '"', "'a'", "{}", "[]", "", "1 2"]
_ODD += ["12345678901234567890", "16777217", "9007199254740993", "1.0", '"1"', "200", '"NaN"']
_ODD += ["[1]", '{"a":1}', "\\", "123456789012345678901234567890", "/**/1", "0" * 400, "1" * 400]
_ESCAPED = [
    "\\n",
    '\\"',
    "\\\\",
    "\\/",
    "\\u00e9",
    "\\u00E",
    "\\x",
    "\\'",
    "\t",
    "\\",
    "\\u0000",
    "\\uFFFD",
]
_ESCAPED += [
    "\\ud83d",
    "\\ud83d\\ude00",
    "\\UD83D",
    "\\uDE00",
    "\\uD83D\\uDE00",
    "\\ud83d\\n",
    "\\ud83d😀",
]
_ESCAPED += [
    "\\udbff\\udfff",
    "\\ud800\\udc00",
    "\\ud83d\\ud83d",
    "\\uE000",
    "\\u20ac",
    "\\u07ff\\u0800",
]
_OTHER = [
    "1",
    "-1.5e-7",
    "true",
    "null",
    '"text"',
    '"a\\n\\u0041"',
    '"\\q"',
    "[]",
    "{}",
    "[1,]",
    "tru",
]
_OTHER += [
    '{"number": 5}',
    '[{"c0": [[], {"x": "\\\\"}]}, null, 1e5]',
    "{1}",
    '{"a":}',
    "[1 2]",
    "00",
]
_OTHER += [
    "[" * 70 + "]" * 70,
    '{"a":' * 50 + "1" + "}" * 50,
    "[}",
    '{"a" : [ 1 , 2 ] }',
    '"\\u12"',
]
_PLAIN_OTHER = ["1", "-0.5e3", "false", '"ü"', '{"number": [true, {"c1": "}"}]}', "[ ]", '"a\\"b"']


@dataclass
class NastyObjects:
    """Makes lines with a number and a value of each kind; one value of a line may be anything."""

    seed: int
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def layout(self) -> ObjectLayout:
        return self.with_every(1)

    def with_every(self, step: int) -> ObjectLayout:
        """Every so manieth member read, the number first."""
        kinds = (pa.int64(), *KINDS.values())
        return ObjectLayout(NAMES[::step], kinds[::step])

    def text(self, count: int) -> bytes:
        """So many lines, and some blank ones between them."""
        return b"".join(self._line(number) for number in range(count))

    def _line(self, number: int) -> bytes:
        chance = self._random
        nasty = chance.randrange(len(KINDS)) if chance.random() < 0.6 else -1
        members = [("number", str(number))]
        for place, (name, kind) in enumerate(zip(NAMES[1:], KINDS.values(), strict=True)):
            if chance.random() < 0.95:
                members.append((name, self._value(kind, nasty=place == nasty)))
        if chance.random() < 0.3:
            other = chance.choice(_PLAIN_OTHER if chance.random() < 0.8 else _OTHER)
            name = chance.choice(
                ["other", "Number", "c", "", "c00", "ä", '\\"', "c\\u0031", "a\tb"]
            )
            members.insert(chance.randrange(len(members) + 1), (name, other))
        if chance.random() < 0.02:
            members.append((chance.choice(NAMES), chance.choice(_ODD)))
        if chance.random() < 0.3:
            chance.shuffle(members)
        line = self._joined(members).encode()
        if chance.random() < 0.03:
            place = chance.randrange(len(line))
            more = bytes([chance.choice([*line, chance.randrange(256)])] * chance.randrange(2))
            line = line[:place] + more + line[place + chance.randrange(2) :]
        if chance.random() < 0.01:
            line = chance.choice(
                [b"[" + line + b"]", line + line, line + b" x", line + b",", b"1", line[:-1]]
            )
        if chance.random() < 0.002:
            line = b"\xef\xbb\xbf" + line
        end = chance.choice([b"\n", b"\n", b"\n", b"\r\n"])
        if chance.random() < 0.02:
            end += chance.choice([b"\n", b" \n", b"\t\r\n", b"\x01 \n", b"\r", b"\xc2\xa0\n"])
        return line + end

    def _joined(self, members: list[tuple[str, str]]) -> str:
        def blank() -> str:
            return self._random.choice([" ", "  ", "\t", ""]) if is_loose else ""

        is_loose = self._random.random() < 0.2
        parts = (f'{blank()}"{name}"{blank()}:{blank()}{value}{blank()}' for name, value in members)
        return f"{blank()}{{{','.join(parts)}}}{blank()}"

    def _value(self, kind: pa.DataType, *, nasty: bool) -> str:
        chance = self._random
        roll = chance.random()
        if roll < 0.05:
            return "null"
        if nasty and roll < 0.3:
            return chance.choice(_ODD)
        text = text_of(kind, chance, nasty=nasty)
        if not nasty and pt.is_boolean(kind):
            text = text.lower()
        if nasty and chance.random() < 0.3:
            place = chance.randrange(len(text) + 1)
            text = text[:place] + chance.choice(SCRIBBLE) + text[place + chance.randrange(2) :]
        text = small(text)
        if not (pt.is_string(kind) or pt.is_date(kind)) or (nasty and chance.random() < 0.1):
            return text
        if nasty and chance.random() < 0.5:
            return '"' + "".join(chance.choices([text, *_ESCAPED], k=chance.randrange(4))) + '"'
        return json.dumps(text, ensure_ascii=chance.random() < 0.5)
