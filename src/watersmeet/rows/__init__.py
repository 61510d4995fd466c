"""Predicates and the codes of rows, the schema of a join, and rows named by their address."""
