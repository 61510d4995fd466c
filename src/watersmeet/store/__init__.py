"""Where rows are: tables in memory, runs on disk, and the bytes that both may take."""
