"""Words of memory, and the constants that XXH64 mixes them with.

The functions here are inlined into kernels of other files, and numba's cache on disk does not
notice when they change. After a change, `touch` the files that import this one, so that their
kernels are compiled anew.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

PRIME_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3 = np.uint64(0x165667B19E3779F9)
PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
PRIME_5 = np.uint64(0x27D4EB2F165667C5)


def _reader(bits):
    """A function that reads an unsigned little-endian number at any address."""

    @intrinsic
    def read(typingctx, address):
        def generate(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            return builder.zext(builder.load(pointer, align=1), ir.IntType(64))

        return types.uint64(types.uint64), generate

    return read


read_8, read_32, read_64 = _reader(8), _reader(32), _reader(64)


def _writer(bits):
    """A function that writes an unsigned little-endian number at any address."""

    @intrinsic
    def write(typingctx, address, number):
        def generate(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            builder.store(args[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return write


write_64 = _writer(64)
