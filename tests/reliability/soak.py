"""A program that runs a stream for long: soak.py FRAMES WARM_UP. Says, as JSON, what it took at every twentieth of it.

What is looked at, beside the time, is the process: resident memory, open files, threads.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch

from data.seeded import seeded_frames
from networks import SMALLEST
from recal3r import Reconstructor
from recal3r.engine.session import all_finite
from recal3r.model.load import prepared, untrained


def taken() -> dict[str, int]:
    return {
        "resident": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
    }


def seconds_of(run: Reconstructor, shown: np.ndarray) -> float:
    begun = time.process_time()
    for frame in shown:
        run.push(frame)
    return time.process_time() - begun


def soak(frames: int, warm_up: int) -> None:
    model = prepared(untrained(SMALLEST, device="cpu", dtype="float32"))

    def fresh() -> Reconstructor:
        # No camera turns farther than that: the weights are random, and what they say of poses is not looked at.
        outputs = ("pose", "confidence_camera", "learning_rate")
        return Reconstructor(model, "recal3r", outputs, None, reset_interval=5000, health="turn=181,jump=1e9")

    run, shown = fresh(), seeded_frames(97, 32, 32)
    for t in range(warm_up):
        run.push(shown[t % 97])
    told = []
    for part in range(20):
        for t in range(frames // 20):
            prediction = run.push(shown[(part * 31 + t) % 97])
            assert prediction.health.finite, (part, t)
        gc.collect()
        told.append(taken())
    # Old and new in turn, so that whatever else the machine does falls on both.
    new = fresh()
    seconds_of(new, shown[:50])
    ratios = [seconds_of(run, shown[:30]) / seconds_of(new, shown[:30]) for _ in range(60)]
    finite = bool(all_finite(run.session.state, run.session.pose_memory, run.session.rule_memory).all())
    known = {"parts": told, "finite": finite, "frames": run.session.places[0].frames}
    json.dump({**known, "old_to_new": float(np.median(ratios))}, sys.stdout)


if __name__ == "__main__":
    torch.set_num_threads(1)
    soak(int(sys.argv[1]), int(sys.argv[2]))
