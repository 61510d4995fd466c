"""What tests of XML streams share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from watersmeet.errors import MalformedInput
from watersmeet.xml.convert import Convert
from watersmeet.xml.shape import make_shape

ACCESSES = {"sno": "int64", "ipaddr": "string"}

# Figure 2 of the paper, letter by letter; what its dots stand for is another news item.
NEWS = """<stream:NewsGeneral>
<info>

<sno> 79 </sno>

<title> Cashless society gets mixed reviews </title>
<keyword> Smart Card </keyword>

</info>
...

</stream:NewsGeneral>
"""

# Figure 3.
RECORDS = """<stream:AccessRecord>

<record>
<sno> 79 </sno>

<ipaddr> 64.58.76.224 </ipaddr>
</record>
<record>

<sno> 81 </sno>
<ipaddr>207.68.172.234</ipaddr>

</record>
<record>

<sno> 79 </sno>
<ipaddr> 202.112.39.8 </ipaddr>

</record>

<punct:record>
<sno> 79 </sno>

<ipaddr> * </ipaddr>
</punct:record>

...
</stream:AccessRecord>
"""


class Read:
    """The rows of a stream that comes in chunks, and the error behind them."""

    def __init__(self, chunks: Iterable[bytes], columns: Any = None, **settings: Any) -> None:
        settings = {"row": "record", "mode": "DROPMALFORMED", "marker": None} | settings
        shape = make_shape(columns=columns or ACCESSES, **settings)
        convert = Convert(shape, "the stream")
        self.rows: list[dict[str, Any]] = []
        self.batches = 0
        self.error: MalformedInput | None = None
        try:
            for batch in convert.batches(chunks):
                batch.validate(full=True)
                assert batch.schema == shape.schema
                self.batches += 1
                self.rows += batch.to_pylist()
        except MalformedInput as error:
            self.error = error
        self.malformed = convert.malformed

    @property
    def values(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.rows]


def read(text: str | bytes, columns: Any = None, **settings: Any) -> Read:
    return Read([text.encode() if isinstance(text, str) else text], columns, **settings)
