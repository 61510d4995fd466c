"""Exact sums that add up: of a key, of a block, of a table."""
