"""DataFrames that are plain scans of files, and reading those files as Spark would."""
