"""What a query was asked, noted in its state at the call: for who asks before its first batch.

    STATE/asked.json

Manifests have it as well, but for sentences about what promises bound, which follow from types of
columns and conditions that no manifest has.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from watersmeet.spark.microbatches.state import StateDirectory, unusable

NAME = "asked.json"


class Asked(NamedTuple):
    """The parameters of a query, and what becomes of the rows that it keeps."""

    parameters: dict[str, Any]
    bounds: list[tuple[str, str]]
    """What explains, and in which words."""
    paths: Sequence[tuple[str, str]] = ()
    """The path of each stream, by its name."""

    def note(self, directory: StateDirectory) -> None:
        """Write it where `noted` finds it. What was noted by an earlier call is replaced."""
        system, root = directory.system()
        draft = f"{root}/draft-{uuid.uuid4().hex}"
        try:
            with system.open_output_stream(draft) as out:
                out.write(json.dumps(self._asdict()).encode())
            system.move(draft, f"{root}/{NAME}")
        except OSError as error:
            raise unusable(directory.uri, error) from error

    @classmethod
    def noted(cls, directory: StateDirectory) -> Asked | None:
        """What the latest call has noted; None for a state that none has."""
        system, root = directory.system()
        try:
            with system.open_input_stream(f"{root}/{NAME}") as source:
                found = json.loads(bytes(source.read()))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unusable(directory.uri, error) from error
        bounds, paths = (
            [(name, words) for name, words in found.get(what, [])] for what in ("bounds", "paths")
        )
        return cls(found["parameters"], bounds, paths)
