"""The papers' experiments, done again with these operators: curves, claims, figures, a page."""
