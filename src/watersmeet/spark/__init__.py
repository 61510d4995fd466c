"""Joins and aggregates on Spark. No other package imports pyspark."""
