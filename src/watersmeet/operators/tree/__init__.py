"""The joins of many inputs that form a tree: MINER, and MJoin beside it."""
