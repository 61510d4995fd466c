"""The joins of a stream with a master table on disk: SSBJ, MESHJOIN, CMESHJOIN, and the default."""
