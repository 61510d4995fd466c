"""Lines of text by a seed: plain ones, and ones that are wrong in every way that came to mind."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext

import pyarrow as pa

from watersmeet.delimited.fields import FieldLayout

KINDS: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(5,2)": pa.decimal128(5, 2),
    "DECIMAL(18,0)": pa.decimal128(18, 0),
    "DECIMAL(18,18)": pa.decimal128(18, 18),
    "DECIMAL(20,3)": pa.decimal128(20, 3),
    "DECIMAL(38,18)": pa.decimal128(38, 18),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "STRING": pa.string(),
}
"""What Spark calls the types, the first column's, a number of the line, left out."""
SCRIBBLE = ' +-.eEdDfFxX019,_NaIny/:Tz"\\\t\r\0#٣ﬁ'
_LETTERS = ["a", "b", '"', "\\", " ", "\t", "#", "é", "漢", "😀", "\x01", "'", "\u2028", "\0", "\r"]
_PLAIN_LETTERS = ["a", "b", "Z", "0", " ", "é", "漢", "😀", "-", "'", "\\", '"', "\u2028", "#"]


@dataclass
class Nasty:
    """Makes lines of a number and a text for each kind; one text of a line may be anything."""

    seed: int
    separator: str = ","
    null_value: str = ""
    empty_value: str = ""
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def layout(self) -> FieldLayout:
        kinds = (pa.int64(), *KINDS.values())
        return FieldLayout(kinds, self.separator, self.null_value, self.empty_value)

    def with_every(self, step: int) -> FieldLayout:
        """The layout with every so manieth field read, the number first."""
        kinds = (
            kind if place % step == 0 else None for place, kind in enumerate(self.layout.kinds)
        )
        return replace(self.layout, kinds=tuple(kinds))

    def text(self, count: int) -> bytes:
        """So many lines, numbered in their first fields, and some blank ones between them."""
        return b"".join(self._line(number) for number in range(count))

    def _line(self, number: int) -> bytes:
        chance = self._random
        nasty = chance.randrange(len(KINDS)) if chance.random() < 0.7 else -1
        fields = [str(number)]
        for place, kind in enumerate(KINDS.values()):
            fields.append(self._field(kind, nasty=place == nasty))
        if chance.random() < 0.01:
            fields = fields[: chance.randrange(1, len(fields))]
        if chance.random() < 0.01:
            fields.append(chance.choice(["", "x", '""']))
        line = self.separator.join(fields).encode()
        if chance.random() < 0.01:
            place = chance.randrange(len(line) + 1)
            line = line[:place] + bytes([chance.randrange(256)]) + line[place:]
        if chance.random() < 0.002:
            line = b"\xef\xbb\xbf" + line
        end = chance.choice([b"\n", b"\n", b"\n", b"\r\n"])
        if chance.random() < 0.02:
            end += chance.choice([b"\n", b" \n", b"\t\r\n", b"\x01 \n", b"\r", b"\xc2\xa0\n"])
        return line + end

    def _field(self, kind: pa.DataType, *, nasty: bool) -> str:
        chance = self._random
        roll = chance.random()
        if roll < 0.05:
            return chance.choice(["", '""', self.null_value, f'"{self.null_value}"'])
        text = text_of(kind, chance, nasty=nasty)
        if nasty and chance.random() < 0.3:
            place = chance.randrange(len(text) + 1)
            cut = place + chance.randrange(2)
            text = small(text[:place] + chance.choice(SCRIBBLE) + text[cut:])
        if roll < 0.15:
            return f'"{text}"'
        if roll < 0.16 and nasty:
            return '"' + text.replace('"', '\\"') + '"'
        return text


def text_of(kind: pa.DataType, chance: random.Random, *, nasty: bool) -> str:
    """Of a value, and if it is nasty perhaps of none."""
    return _MAKERS[re.findall("[a-z]+", str(kind))[0]](chance, kind, nasty)


def small(text: str) -> str:
    """Spark takes minutes to find that a number with a large exponent is none: it computes the
    power of ten."""
    return re.sub("([eE].?)[0-9]{4,}", r"\g<1>9", text)


def _whole(chance: random.Random, kind: pa.DataType, nasty: bool) -> str:
    most = 2 ** (kind.bit_width - 1)
    number = chance.randrange(-most, most) >> chance.randrange(kind.bit_width)
    if not nasty:
        return str(number)
    number = chance.choice([number, most - 1, most, -most, -most - 1, 10 * most])
    sign = chance.choice(["", "", "+", "-"]) if number >= 0 else "-"
    return sign + "0" * chance.choice([0, 0, 1, 25]) + str(abs(number))


def _float(chance: random.Random, kind: pa.DataType, nasty: bool) -> str:
    if not nasty:
        return str(round(chance.uniform(-1e6, 1e6), chance.randrange(5)))
    code, width = ("<f", 4) if kind == pa.float32() else ("<d", 8)
    roll = chance.random()
    if roll < 0.4:
        (value,) = struct.unpack(code, chance.randbytes(width))
        return format(value, chance.choice(["", ".25g", ".20E"]))
    if roll < 0.7:
        # Just between two neighbours, or a little more or less.
        number = chance.getrandbits(24 if width == 4 else 53) * 2 + 1
        power = chance.randrange(-20, 30)
        with localcontext() as context:
            context.prec = 60
            middle = Decimal(number) * Decimal(2) ** power
        text = format(middle, chance.choice(["", "f", "e"]))
        return text + ("1" if "." in text and "e" not in text and chance.random() < 0.3 else "")
    digits = "".join(chance.choice("0123456789") for _ in range(chance.choice([1, 5, 15, 17, 22])))
    place = chance.randrange(len(digits) + 1)
    text = (
        chance.choice(["", "-", "+"]) + digits[:place] + chance.choice([".", ""]) + digits[place:]
    )
    if chance.random() < 0.5:
        text += chance.choice("eE") + chance.choice(["", "+", "-"]) + str(chance.randrange(50))
    return chance.choice([text, text, text, "NaN", "Inf", "-0.0", "0e9", "-.0", "1e999", "1e-400"])


def _decimal(chance: random.Random, kind: pa.DataType, nasty: bool) -> str:
    precision, scale = kind.precision, kind.scale
    digits = chance.randrange(10 ** chance.randrange(1, precision + 1))
    with localcontext() as context:
        context.prec = 100
        value = Decimal(digits).scaleb(-scale) * chance.choice([1, -1])
        if not nasty:
            return f"{value:f}"
        if chance.random() < 0.3:
            value = (Decimal(10) ** precision - chance.randrange(3)).scaleb(-scale)
        value += Decimal(chance.randrange(-1, 11)).scaleb(-scale - 1)
        value += Decimal(chance.randrange(-1, 2)).scaleb(-scale - chance.randrange(2, 30))
        text = format(value, chance.choice(["", "", "f", "e"]))
    return chance.choice(["", "", "+", "00"]) + text + chance.choice(["", "", "000", "."])


def _truth(chance: random.Random, kind: pa.DataType, nasty: bool) -> str:
    texts = ["true", "false", "True", "FALSE", "tRuE"]
    return chance.choice([*texts, "t", "0", "1", "yes", "truE ", "\x14rue"] if nasty else texts)


def _day(chance: random.Random, kind: pa.DataType, nasty: bool) -> str:
    if not nasty:
        return f"{chance.randrange(1583, 2500):04}-{chance.randrange(1, 13):02}-15"
    year = chance.choice([chance.randrange(10_500), chance.choice([1582, 1583, 1900, 2000, 2024])])
    month = chance.choice([chance.randrange(14), 2, 2, 12])
    day = chance.choice([chance.randrange(33), 28, 29, 30, 31])
    text = f"{year:04}-{month:02}-{day:02}"
    return chance.choice([text, text, text, text + "T00:00", f"{year}-{month}-{day}", "+" + text])


def _string(chance: random.Random, kind: pa.DataType, nasty: bool) -> str:
    letters = _LETTERS if nasty else _PLAIN_LETTERS
    text = "".join(chance.choice(letters) for _ in range(chance.randrange(0, 12)))
    # In quotes, or not, one that is not nasty should be plain.
    return text if nasty else text.lstrip('"')


_MAKERS: dict[str, Callable[[random.Random, pa.DataType, bool], str]] = {
    "int": _whole,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "bool": _truth,
    "date": _day,
    "string": _string,
}
