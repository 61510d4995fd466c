"""For anyone who writes an operator or a policy: what a join must return, and checks that it does.

Needs `duckdb` and `hypothesis`, which watersmeet itself does without.
"""
