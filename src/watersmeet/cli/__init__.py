"""The command line: arguments in, one call out."""
