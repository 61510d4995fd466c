"""Master tables on disk: one version of a table in one file, in order of code."""
