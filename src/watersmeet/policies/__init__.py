"""Who goes first: pure functions of small arrays that decide and do nothing else."""
