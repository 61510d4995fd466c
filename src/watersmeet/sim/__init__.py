"""Networks, keys and disks that exist only as arithmetic, around the real operators."""
