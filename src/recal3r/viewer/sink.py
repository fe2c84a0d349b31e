"""The viewer beside a stream: it watches and never holds it up."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Self

from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.frames import FramesSink, view_frame
from recal3r.types import Image, Prediction
from recal3r.viewer.frames import LIVE_BUDGET, LiveFrames
from recal3r.viewer.gate import CLIENTS
from recal3r.viewer.looks import BUDGET
from recal3r.viewer.points import CAPACITY
from recal3r.viewer.server import HOST, PORT
from recal3r.viewer.viewer import Viewer

_WAITING = 8  # frames between the stream and the viewer


class ViewerSink:
    """Shows predictions in a web page as they are made; `url` says where.

    `write` hands a prediction over and returns: what the viewer cannot keep up with is dropped, the oldest first, and
    counted in `dropped`. What people in the page do, or whether there are any, does not reach the stream.

    frames: the most frames that are held; of longer streams every second, fourth ... frame.
    """

    needs = FramesSink.needs

    def __init__(
        self,
        host: str = HOST,
        port: int = PORT,
        *,
        token: str | None = None,
        clients: int = CLIENTS,
        frames: int = LIVE_BUDGET,
        capacity: int = CAPACITY,
        budget: int = BUDGET,
    ) -> None:
        self._live = LiveFrames(frames)
        self.viewer = Viewer(
            self._live, host=host, port=port, token=token, clients=clients, capacity=capacity, budget=budget
        )
        self._waiting: deque[tuple[Prediction, Image | None]] = deque()
        self._changed = threading.Condition()
        self._closed = False

    @property
    def url(self) -> str:
        return self.viewer.url

    @property
    def dropped(self) -> int:
        return self._live.dropped

    def __enter__(self) -> Self:
        self.viewer.__enter__()
        self._thread = threading.Thread(target=self._hand_on, name="recal3r-viewer-sink", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The stream is over; so is the page. `linger` before that keeps it open for those who still look."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self.viewer.__exit__(kind, error, trace)

    def linger(self, seconds: float | None = None) -> None:
        """The stream has ended; the page stays for a time, or until the program is interrupted."""
        self._live.ended = True
        self.viewer.wait(seconds)

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        asked_for(prediction.depth, "depth", self)
        asked_for(prediction.confidence_camera, "confidence_camera", self)
        asked_for(prediction.T_world_camera, "pose", self)
        asked_for(prediction.camera, "camera", self)
        with self._changed:
            if len(self._waiting) == _WAITING:
                self._waiting.popleft()
                self._live.dropped += 1
            self._waiting.append((prediction, image))
            self._changed.notify()

    def mark(self) -> Mark:
        """Nothing of the page is kept: one that is resumed shows what comes from then on."""
        return Mark()

    def resume(self, mark: Mark) -> None:
        """There is nothing to go on from; `mark` says nothing."""

    def _hand_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                prediction, image = self._waiting.popleft()
            self._live.add(view_frame(prediction, image, self))
