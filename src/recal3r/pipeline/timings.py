"""Where the time of a run goes."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by stage. Changes as it runs; each stage belongs to one thread."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, stage: str) -> Generator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - begun


def peak_memory() -> int | None:
    """The most bytes that this process ever held; None where the system does not say."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  # Unix only

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
