"""Counts and rates of arriving rows, kept up to date, by which policies decide."""
