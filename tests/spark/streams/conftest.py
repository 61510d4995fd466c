"""Streams of one small join: new ones for each test, and such as a query has taken in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.streams.running import Streams


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    from tests.spark.streams.running import LEFT, RIGHT, Streams

    return Streams(spark, tmp_path).write(LEFT, RIGHT)


@pytest.fixture
def brief(spark: SparkSession, tmp_path: Path) -> Streams:
    """The same rows in two micro-batches, each of which takes a second."""
    from tests.spark.streams.running import LEFT, RIGHT, Streams

    return Streams(spark, tmp_path).write(LEFT, RIGHT, batches=2)


@pytest.fixture(scope="session")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where a query has run, and a copy of all that it left there."""
    from tests.spark.streams.running import LEFT, RIGHT, Streams

    path, copy = (tmp_path_factory.mktemp("ran") / name for name in ("streams", "copy"))
    Streams(spark, path).write(LEFT, RIGHT).run()
    shutil.copytree(path, copy)
    return path, copy


@pytest.fixture
def ran(spark: SparkSession, kept: tuple[Path, Path]) -> Streams:
    """The streams after a query has taken in all there is; what tests do to them is undone.

    Always in one place: a checkpoint knows the files of its sources by their paths.
    """
    from tests.spark.streams.running import Streams

    path, copy = kept
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    return Streams(spark, path)
