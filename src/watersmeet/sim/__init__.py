"""Networks, key distributions and disks that exist only as arithmetic, around the real operators."""
