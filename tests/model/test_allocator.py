"""Memory that is kept is not fetched again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
from recal3r.model.allocator import keep_memory
if sys.argv[1] == "keep":
    assert keep_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def touch():
    np.ones(12_000_000)  # 96 MB
touch()
before = faults()
for _ in range(5):
    touch()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is known to have the settings")
def test_large_arrays_come_from_memory_that_is_there() -> None:
    keep, give = (
        int(subprocess.run([sys.executable, "-c", SCRIPT, how], check=True, capture_output=True, text=True).stdout)
        for how in ("keep", "give")
    )
    assert give > 100, "without the setting, every array is fetched from the system"
    assert keep < give / 10
