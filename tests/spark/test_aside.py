"""Tasks beside the user's own jobs: all are done once, in order, and errors come out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from watersmeet.errors import InvalidArgument
from watersmeet.spark.aside import TasksAside
from watersmeet.spark.jobs import Record

pytestmark = pytest.mark.spark


def aside(
    spark: SparkSession, work: Callable[[int], Record], tasks: int = 5, at_once: int = 2
) -> TasksAside[int, Record]:
    settings: dict[str, Any] = {"at_once": at_once, "query": "aside-test", "what": "counting"}
    return TasksAside(spark, list(range(tasks)), work, **settings)


@pytest.mark.parametrize("tasks", [0, 1, 5])
def test_results_come_in_the_order_of_the_tasks(spark: SparkSession, tasks: int) -> None:
    found = aside(spark, lambda number: {"square": number * number}, tasks).results()
    assert found == [{"square": number * number} for number in range(tasks)]


def test_the_first_error_comes_out_and_no_more_tasks_begin(spark: SparkSession) -> None:
    def work(number: int) -> Record:
        raise InvalidArgument(f"Task {number} is wrong.", remedy="None.")

    tasks = aside(spark, work)
    with pytest.raises(InvalidArgument, match="is wrong"):
        tasks.results()
    assert not [each.name for each in threading.enumerate() if "watersmeet-aside" in each.name]


def test_a_job_of_the_user_is_not_kept_waiting_for_all_of_them(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """While one task waits for a file that only this test writes, a job of the user's is done."""
    folder = tmp_path_factory.mktemp("aside")
    go = str(folder / "go")

    def work(number: int) -> Record:
        import pathlib
        import time

        while not pathlib.Path(go).exists():
            time.sleep(0.01)
        return {"number": number}

    tasks = aside(spark, work, tasks=4)
    assert spark.range(10).count() == 10
    (folder / "go").touch()
    assert [each["number"] for each in tasks.results()] == list(range(4))


def test_what_was_stopped_begins_no_more_tasks(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("stopped")
    place = str(folder)

    def work(number: int) -> Record:
        import pathlib

        (pathlib.Path(place) / str(number)).touch()
        return {}

    tasks = aside(spark, work, tasks=200)
    tasks.stop()
    begun = len(list(folder.iterdir()))
    assert begun < 200
    tasks.stop()
    assert len(list(folder.iterdir())) == begun
