"""What a row is: key types and their encoding, the join's schema, rows named by address."""
