"""Joins that complete rectangles: PR-Join, Ripple, Hash Ripple, SMS, two-way DBO and GRACE.

They are one mechanism. The rows of each side are numbered as they arrive, so a pair of rows is a
point in the plane of both numbers. The algorithms differ in when they complete which rectangle of
that plane, that is, have joined all pairs in it.
"""
