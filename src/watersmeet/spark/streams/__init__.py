"""Joins of two streams: state that survives, whatever is killed, and rows that come once."""
