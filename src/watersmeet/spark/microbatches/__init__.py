"""What joins that run in micro-batches share: state that survives, and rows that come once."""
