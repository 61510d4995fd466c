"""The join that every other one must agree with: it keeps everything, and joins by loops."""
