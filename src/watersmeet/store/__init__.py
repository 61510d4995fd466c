"""Rows in tables in memory and in runs on disk, and an account of the memory they take."""
