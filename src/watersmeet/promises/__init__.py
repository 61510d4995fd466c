"""What sources say will not come any more, in values; kept, checked, and told to joins in codes."""
