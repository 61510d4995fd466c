"""Where tasks run: how many at once, and whether on more than one machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import SparkSession


def is_one_machine(spark: SparkSession) -> bool:
    """Whether all tasks run on the driver's machine, and see its files.

    With `local-cluster[...]` they do, too: its executors are processes on the driver's machine.
    """
    master = str(spark.sparkContext.master)
    return re.fullmatch(r"local(-cluster)?(\[.*\])?", master) is not None


@dataclass(frozen=True)
class TaskSlots:
    """How many tasks run at once in all, and how many of them share a machine."""

    tasks: int
    tasks_a_machine: int

    @classmethod
    def of(cls, spark: SparkSession) -> TaskSlots:
        context = spark.sparkContext
        tasks = max(context.defaultParallelism, 1)
        if is_one_machine(spark):
            return cls(tasks, tasks)
        cores = int(context.getConf().get("spark.executor.cores") or 1)
        per_task = int(context.getConf().get("spark.task.cpus") or 1)
        return cls(tasks, max(cores // per_task, 1))
