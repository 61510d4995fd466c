"""Joins and aggregates in this process: Arrow batches, files or datasets in, without a JVM."""

from watersmeet.local.aggregate import aggregate
from watersmeet.local.many import join_many
from watersmeet.local.run import LocalJoin, join

__all__ = ["LocalJoin", "aggregate", "join", "join_many"]
