"""Why a DataFrame is not read straight from its files."""

from __future__ import annotations


class Refused(Exception):
    """Its rows must come through Spark. The text completes "it is no plain scan: ..."."""
