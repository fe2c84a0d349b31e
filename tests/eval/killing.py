"""Work that dies once, in the middle of a prediction; imported by the workers it kills."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from recal3r.engine.reconstructor import Reconstructor
from recal3r.eval.score import Done, Job, run_job


def dies_once(job: Job) -> Done:
    """The first worker that gets to its sixth frame is killed, as if by the system; whoever comes later is not."""
    marker = Path(job.store) / "died"
    push = Reconstructor.push
    pushed = 0

    def deadly(self: Reconstructor, *arguments: Any, **options: Any) -> Any:
        nonlocal pushed
        pushed += 1
        if pushed == 6 and not marker.exists():
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return push(self, *arguments, **options)

    Reconstructor.push = deadly
    try:
        return run_job(job)
    finally:
        Reconstructor.push = push
