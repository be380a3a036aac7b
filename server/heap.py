"""How the process gives memory back."""

from __future__ import annotations

import ctypes
from contextlib import suppress

LARGE = 2**20
"""Blocks from this size on, in bytes, are mapped one by one."""

_M_MMAP_THRESHOLD = -3


def return_large_blocks() -> None:
    """Have glibc return each large block as soon as it is freed; nothing happens with another C library.

    By itself it raises that size up to 32 MiB, and keeps what is smaller, in each thread:
    after some large bodies the process would stay hundreds of megabytes larger.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE)
