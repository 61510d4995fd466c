"""A join whose sources promise what they will not send any more."""
