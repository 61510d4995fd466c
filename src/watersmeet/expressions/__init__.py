"""SQL arithmetic over columns, with the types and values that Spark gives it."""
