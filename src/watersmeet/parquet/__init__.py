"""What Parquet files say about themselves, for every runtime that reads them."""
