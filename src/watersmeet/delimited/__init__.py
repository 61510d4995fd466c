"""Lines of separated fields, as in CSV files, into columns with the values that Spark gives."""
