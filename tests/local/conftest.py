"""What tests of local joins share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watersmeet.local import threaded


@pytest.fixture(scope="module", autouse=True)
def threads_in_little_memory() -> Iterator[None]:
    """Threads are used however little memory each has: with 24 MB each, as users have them, rows
    that do not fit are too many for a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threaded, "LEAST_EACH", 2**20)
        yield
