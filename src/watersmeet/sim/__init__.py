"""The real operators with computed networks, keys and disks, in virtual time."""
