"""Classes of Java by their names, without asking Java for every part of a name."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark import SparkContext


def java_class(context: SparkContext, name: str) -> Any:
    """A class by its whole name. `jvm.org.apache.spark.util...` asks Java five times."""
    gateway: Any = context._gateway
    return JavaClass(name, gateway._gateway_client)
