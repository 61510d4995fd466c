"""What a person sees of an aggregate: its plan in words, its intervals as a plot."""
