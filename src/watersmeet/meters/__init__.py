"""Running facts about the inputs, for policies to decide by."""
