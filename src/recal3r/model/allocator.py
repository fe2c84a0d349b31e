"""Memory that is kept from one frame to the next instead of given back to the system and fetched again.

A map of a dense head is 100 MB. glibc asks the system for arrays above 32 MB each time anew, and the system hands out
zeroed pages of 4 kB: a third of such a head's time.
"""

from __future__ import annotations

import ctypes
import functools
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of settings in malloc.h
_KEPT = 2**30  # bytes at the end of the heap that are not given back


@functools.cache
def keep_memory() -> bool:
    """Changes how this process allocates, once. Whether it could: glibc is what is known to have such settings."""
    if platform.libc_ver()[0] != "glibc":
        return False
    set_option = ctypes.CDLL(None).mallopt
    return bool(set_option(_MMAP_MAX, 0)) and bool(set_option(_TRIM_THRESHOLD, _KEPT))
