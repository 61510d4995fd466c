"""Joins on Spark. The only package that knows it: nothing else here imports pyspark."""
