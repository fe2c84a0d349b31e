"""A sink of one's own: how fast the camera went, as a table that a spreadsheet opens.

Run it:  python examples/05_own_sink.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

import recal3r
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained
from recal3r.sinks import Tee, TumSink
from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.files import GrowingFile
from recal3r.types import Array, Image, Prediction


class SpeedSink:
    """`frame,seconds,metres_a_second`, a line a frame, whole after each of them."""

    needs = frozenset({"pose"})  # outputs of the reconstructor

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: Mark | None = None
        self._before: Array | None = None  # seconds, x, y, z

    def __enter__(self) -> Self:
        if self._mark is None:
            self._file = GrowingFile.begin(self._path)
            self._file.append(b"frame,seconds,metres_a_second\n")
        else:  # a run that was killed goes on where this sink stood
            self._file = GrowingFile.go_on(self._path, self._mark.numbers["length"])
            self._before = self._mark.arrays.get("before")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        seconds = float(prediction.index if prediction.timestamp is None else prediction.timestamp)
        now = np.array([seconds, *asked_for(prediction.T_world_camera, "pose", self)[:3, 3]])
        speed = 0.0
        if self._before is not None:
            speed = float(np.linalg.norm(now[1:] - self._before[1:]) / (now[0] - self._before[0]))
        self._file.append(f"{prediction.index},{seconds:.3f},{speed:.6f}\n".encode())
        self._before = now

    def mark(self) -> Mark:
        return Mark({"length": self._file.sync()}, {} if self._before is None else {"before": self._before})

    def resume(self, mark: Mark) -> None:
        self._mark = mark


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = untrained(
        Cut3rConfig(
            encoder_width=128,
            encoder_depth=2,
            encoder_heads=4,
            decoder_width=64,
            decoder_depth=2,
            image_heads=4,
            state_heads=4,
            state_tokens=48,
            memory_slots=8,
            head="linear",
            image_size=128,
        )
    )
    sinks = Tee(SpeedSink(folder / "speed.csv"), TumSink(folder / "trajectory.txt"))
    recon = recal3r.Reconstructor(model, outputs=sinks.needs)
    with recal3r.open_source("synthetic:1?frames=6") as source, sinks:
        for prediction in recon.stream(source):
            sinks.write(prediction)
    print(f"{source.frames} frames: {folder / 'speed.csv'}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
