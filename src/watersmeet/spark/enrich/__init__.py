"""Joins of a stream with a master table: laid down by a Spark job, read by the stream's tasks."""
