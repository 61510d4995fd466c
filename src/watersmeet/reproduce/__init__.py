"""The papers' experiments, run again on these operators: curves, claims, figures, one page."""
