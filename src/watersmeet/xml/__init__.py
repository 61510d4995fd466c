"""XML element streams as Arrow batches: the Convert operator of the metadata-aware join's paper."""
