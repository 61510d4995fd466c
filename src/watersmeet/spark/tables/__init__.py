"""Joins of finite tables, in waves; tasks hand rows to one another through a shared directory."""
