"""Joins that answer while the data is still arriving, inside the memory they are given.

>>> import watersmeet as wm
>>> wm.errors.InvalidArgument.__name__
'InvalidArgument'
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING

from watersmeet import errors

if TYPE_CHECKING:
    from watersmeet import local

__all__ = ["__version__", "errors", "local"]

__version__ = version("watersmeet")


if not TYPE_CHECKING:  # which would take every misspelt name for a module

    def __getattr__(name: str) -> ModuleType:
        # The kernels behind `local` take a moment to load, which `import watersmeet` should not.
        if name == "local":
            return import_module("watersmeet.local")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
