"""Joins that complete rectangles: PR-Join, Ripple, Hash Ripple, SMS, two-way DBO and GRACE.

One mechanism. Rows are numbered as they arrive on each side, a pair of rows is a point in the
plane of both numbers, and the algorithms differ in which rectangle of it they complete when.
"""
