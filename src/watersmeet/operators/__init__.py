"""The papers' algorithms: one mechanism a file, told apart by their policies."""
