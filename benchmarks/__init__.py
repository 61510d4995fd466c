"""How fast and how small the joins are, beside engines that do the same work."""
