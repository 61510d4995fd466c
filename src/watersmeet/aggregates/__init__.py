"""Aggregates over a join: what is asked, how rows become numbers, how totals become answers."""
