"""How the rows of a master table are laid down for a join: in order of the join's codes."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.rows.encoded import Codes
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.master.laying import Encode


def master_encoder(schema: JoinSchema) -> Encode:
    """What `lay_down` needs to know of a join: the codes of rows, and the rows as they are stored.
    Rows without a key match nothing and are left out."""

    def encode(batch: pa.RecordBatch) -> tuple[Codes, pa.RecordBatch]:
        encoded = schema.encode(Side.RIGHT, batch).with_keys()
        return encoded.codes, encoded.rows

    return encode
