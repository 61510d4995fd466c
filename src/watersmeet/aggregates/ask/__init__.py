"""What the user asks, parsed and checked before a row is read."""
