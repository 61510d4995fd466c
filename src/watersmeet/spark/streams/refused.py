"""Which streams must Spark read, because a file came that we do not read as it does?

    STATE/refused-left.json

At the call some files are looked at, and each later one when it comes. Then it is too late for this
run, so it is noted for the next one.
"""

from __future__ import annotations

import json
import uuid

from watersmeet.spark.microbatches.state import StateDirectory, unusable


def note_refused(directory: StateDirectory, stream: str, reason: str) -> None:
    """Have the next run of the query let Spark read a stream of this name."""
    system, root = directory.system()
    draft = f"{root}/draft-{uuid.uuid4().hex}"
    try:
        with system.open_output_stream(draft) as out:
            out.write(json.dumps(reason).encode())
        system.move(draft, _place(root, stream))
    except OSError as error:
        raise unusable(directory.uri, error) from error


def noted_refused(directory: StateDirectory, stream: str) -> str | None:
    """Why Spark is to read a stream; None if nothing was noted."""
    system, root = directory.system()
    try:
        with system.open_input_stream(_place(root, stream)) as source:
            return str(json.loads(bytes(source.read())))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(directory.uri, error) from error


def _place(root: str, stream: str) -> str:
    return f"{root}/refused-{stream}.json"
