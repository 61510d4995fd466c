"""The joins that keep rows in order of their codes, and give up memory by regions: DINER."""
