"""The loops over rows: numba functions on NumPy arrays that know nothing of joins or Arrow.

Every kernel has explicit signatures, so it is compiled when this package is first imported (at
set-up) and read from numba's cache after that. Inputs are declared read-only because Arrow's
buffers are; writable arrays convert to read-only ones, not the other way round.
"""
