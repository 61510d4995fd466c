"""Joins of finite tables: rows in waves through a storage that all tasks share."""
