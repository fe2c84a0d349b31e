"""Streams beside each other, and the same stream twice: the same numbers."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import recal3r
from data.seeded import seeded_frames
from networks import seeded_network
from recal3r.model.load import prepared
from recal3r.rules import available

FIELDS = ("T_world_camera", "depth", "points_world", "confidence_world", "learning_rate")
STREAMS, LENGTH = 10, 6


def numbers_of(predictions: list[recal3r.Prediction]) -> str:
    digest = hashlib.sha256()
    for prediction in predictions:
        for name in FIELDS:
            digest.update(np.ascontiguousarray(getattr(prediction, name)).tobytes())
    return digest.hexdigest()


def stream(model: recal3r.Cut3r, number: int) -> list[recal3r.Prediction]:
    """Each has a rule, a size, an interval and frames of its own."""
    rule = available()[number % len(available())]
    sizes = ((48, 64), (64, 48), (32, 80))
    frames = seeded_frames(STREAMS + LENGTH, *sizes[number % 3])[number : number + LENGTH]
    run = recal3r.Reconstructor(model, rule, size=None, reset_interval=4 if number % 2 else None)
    return [run.push(frame) for frame in frames]


@pytest.mark.parametrize("packed", [False, True])
def test_ten_streams_of_ten_threads_equal_their_solo_runs(packed: bool) -> None:
    """Bit for bit, on one network, as `load_model` lays it out and as it is trained."""
    model = seeded_network("mini-linear").requires_grad_(requires_grad=False)
    model = prepared(model) if packed else model
    alone = [numbers_of(stream(model, number)) for number in range(STREAMS)]
    assert len(set(alone)) == STREAMS
    together: list[str | BaseException] = [""] * STREAMS
    ready = threading.Barrier(STREAMS)

    def work(number: int) -> None:
        try:
            ready.wait()
            together[number] = numbers_of(stream(model, number))
        except BaseException as error:
            together[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


SCRIPT = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch; torch.set_num_threads(int(sys.argv[1]))
import numpy as np
from networks import seeded_network
from recal3r.model.load import prepared
from test_concurrency import numbers_of, stream
model = prepared(seeded_network("mini-linear").requires_grad_(requires_grad=False))
found = [stream(model, number) for number in (0, 5, 6)]
np.savez(sys.argv[2], *[prediction.points_world for one in found for prediction in one])
print(" ".join(map(numbers_of, found)))
"""
THREADS_TOLERANCE = 1e-3  # of points of random weights, a few metres wide; docs/reliability.md says it too


def test_runs_on_the_same_machine_give_the_same_numbers(tmp_path: Path) -> None:
    """Two processes with one thread: bit for bit. With two threads sums may come in another order."""

    def run(threads: int, name: str) -> tuple[str, list[np.ndarray]]:
        program = [sys.executable, "-c", SCRIPT, str(threads), str(tmp_path / name)]
        said = subprocess.run(program, check=True, capture_output=True, text=True).stdout
        with np.load(tmp_path / name) as arrays:
            return said, [arrays[key] for key in arrays.files]

    (first, points), (second, _), (two_threads, other_points) = run(1, "a.npz"), run(1, "b.npz"), run(2, "c.npz")
    assert first == second
    apart = max(float(np.abs(a - b).max()) for a, b in zip(points, other_points, strict=True))
    assert apart <= THREADS_TOLERANCE
    assert (apart == 0) == (two_threads == first)


def test_other_random_numbers_change_nothing(mini: recal3r.Cut3r) -> None:
    torch.manual_seed(1)
    first = numbers_of(stream(mini, 0))
    torch.manual_seed(2)
    assert numbers_of(stream(mini, 0)) == first
