"""Figures 2 and 8 to 15 and Table 2 of Chen, Gibbons, Nath: PR-Join, SIGMOD 2010."""
