"""What is flushed, joined or read first: pure functions of small arrays, which only decide."""
