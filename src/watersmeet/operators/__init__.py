"""The papers' algorithms: each mechanism in a folder, with policies that make it an algorithm."""
