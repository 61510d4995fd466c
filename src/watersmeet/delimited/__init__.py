"""Lines of separated fields or of objects, as in CSV and JSON files, into columns with the values
that Spark gives."""
