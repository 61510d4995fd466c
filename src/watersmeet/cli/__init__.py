"""The command line: each command parses its arguments and makes one call."""
