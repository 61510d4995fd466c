"""Joins in this process: Arrow batches, files or datasets in, an iterator of batches out."""

from watersmeet.local.run import LocalJoin, join

__all__ = ["LocalJoin", "join"]
