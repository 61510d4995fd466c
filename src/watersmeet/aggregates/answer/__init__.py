"""From totals to what is known: estimates with intervals, or the exact answer."""
