"""Joins and aggregates in this process: Arrow batches, files or datasets in, without a JVM."""

from watersmeet.local.aggregate import aggregate
from watersmeet.local.arriving import json_lines, watch
from watersmeet.local.enrich import LocalEnrich, enrich
from watersmeet.local.many import join_many
from watersmeet.local.run import LocalJoin, join
from watersmeet.local.xml_elements import xml

__all__ = [
    "LocalEnrich", "LocalJoin", "aggregate", "enrich", "join", "join_many", "json_lines", "watch",
    "xml",
]  # fmt: skip
