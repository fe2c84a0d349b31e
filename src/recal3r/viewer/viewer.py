"""The viewer: frames in, a page out.

Three threads, so that none waits for another: one reads frames and keeps the cloud in order, one draws the cloud, one
moves through time. People's wishes arrive as events; of many that come at once only the last is carried out.
"""

from __future__ import annotations

import io
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import viser
from PIL import Image as PillowImage

from recal3r.errors import Recal3rError
from recal3r.sinks.cloud import Cloud as FusedCloud
from recal3r.sinks.cloud import write_ply
from recal3r.sinks.frames import ViewFrame
from recal3r.types import Array
from recal3r.viewer.frames import Frames
from recal3r.viewer.gate import CLIENTS
from recal3r.viewer.looks import BUDGET, Look, Shown, depth_picture, show
from recal3r.viewer.panel import ONLY_NOW, THOUSAND, UNTIL_NOW, WHOLE, Actions, Panel, notify
from recal3r.viewer.points import CAPACITY, Cloud, points_of
from recal3r.viewer.scene import FIRST_PIECE, Scene
from recal3r.viewer.server import HOST, PORT, WebServer

_POLL = 0.25  # seconds between two looks at what is there
_REST = 0.25  # seconds without a new wish before the fine pieces are sent
_LEAST_PAUSE, _PAUSE_SHARE = 0.7, 3.0  # between two orderings of the cloud: seconds, and times what one takes
_RENDER_SECONDS = 20.0
_NO_RELIABILITY = (
    "This run has no token reliability: its rule does not measure it, or the output `reliability` was not asked for. "
    "The picture's colours are shown instead."
)
_log = logging.getLogger("recal3r.viewer")


class Viewer:
    """Shows frames, those that are there and those that come, until it is closed.

        with Viewer(FolderFrames("out")) as viewer:
            print(viewer.url)
            viewer.wait()

    host, token: on any host but a loopback one the page asks for a token; None draws one, which is in `url`.
    clients: how many people may watch at once; they share the controls.
    capacity: the most points that are held; budget: the most that a page is sent, until people choose another number.
    """

    def __init__(
        self,
        frames: Frames,
        *,
        host: str = HOST,
        port: int = PORT,
        token: str | None = None,
        clients: int = CLIENTS,
        title: str = "recal3r",
        capacity: int = CAPACITY,
        budget: int = BUDGET,
    ) -> None:
        self._frames, self._title, self._budget = frames, title, budget
        self._address = (host, port, token, clients)
        self.cloud = Cloud(capacity)
        self.shown: Shown | None = None
        self.sent = 0  # points of `shown` that the page has been given
        self.index: int | None = None  # of the frame that is looked at
        self.unreadable: dict[int, str] = {}  # what is wrong with frames that could not be read
        self._indices: list[int] = []
        self._poses: dict[int, Array] = {}
        self._knows_reliability = False
        self._way_epoch = frames.epoch
        self._stopped, self._moved = threading.Event(), threading.Event()
        self._redraw, self._looked = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []

    # -- opening and closing -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._server = WebServer(*self._address)
        self.url = self._server.url
        self._scene = Scene(self._server.viser)
        actions = Actions(self._moved.set, self._look_anew, self._resize, self._cameras, self._screenshot, self._export)
        self._panel = Panel(self._server.viser, actions, self._title, self._budget)
        for work in (self._load, self._draw, self._play):
            thread = threading.Thread(target=self._guarded, args=(work,), name=f"recal3r-viewer{work.__name__}")
            thread.daemon = True
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        for thread in self._threads:
            thread.join()
        self._server.close()

    def wait(self, seconds: float | None = None) -> None:
        """Until something in the viewer fails, which is raised here, or for a time."""
        self._stopped.wait(seconds)
        if self._failure is not None:
            raise self._failure

    @property
    def watching(self) -> int:
        """How many people have the page open."""
        return self._server.watching

    def clients(self) -> list[viser.ClientHandle]:
        """The pages that are open."""
        return list(self._server.viser.get_clients().values())

    def _stop(self) -> None:
        self._stopped.set()
        self._redraw.set()
        self._looked.set()
        self._moved.set()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            _log.exception("The viewer has failed.")
            self._failure = error
            self._stop()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Frames as they come, into a cloud that is put in order now and then: a third of the time at most."""
        seen = set[int]()
        epoch, next_order = self._frames.epoch, 0.0
        while not self._stopped.is_set():
            self._indices = self._frames.indices()
            if self._frames.epoch != epoch:
                epoch, seen = self._frames.epoch, set[int]()
                self._forget()
            seen.intersection_update(self._indices)
            self._poses = {index: pose for index, pose in self._poses.items() if index in seen}
            for index in [index for index in self._indices if index not in seen]:
                seen.add(index)
                self._take(index)
                if self._stopped.is_set():
                    return
                if time.monotonic() >= next_order:
                    next_order = self._order()
            if self.cloud.waiting and time.monotonic() >= next_order:
                next_order = self._order()
            self._tell()
            self._stopped.wait(_POLL)

    def _forget(self) -> None:
        """Another run has taken the place of the one that was shown."""
        self.cloud = Cloud(self.cloud.capacity)
        self._poses, self.unreadable, self.index = {}, {}, None
        self._knows_reliability = False
        self._look_anew()

    def _take(self, index: int) -> None:
        try:
            frame = self._frames.frame(index)
        except Recal3rError as error:
            self.unreadable[index] = str(error)
            _log.warning("%s", error)
            return
        if frame is None:
            return
        if not self._poses:
            self._scene.begin(frame)
        self._poses[index] = frame.T_world_camera
        self._knows_reliability |= frame.reliability is not None
        self._panel.stretch_confidence(float(np.quantile(frame.confidence.astype(np.float32), 0.98)))
        self.cloud.add(points_of(frame))

    def _order(self) -> float:
        """Puts the cloud in order and says when that may be done next."""
        begin = time.monotonic()
        self.cloud.settle()
        self._redraw.set()
        return time.monotonic() + max(_LEAST_PAUSE, _PAUSE_SHARE * (time.monotonic() - begin))

    # -- drawing -----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        while not self._stopped.is_set():
            self._redraw.wait()
            self._redraw.clear()
            anew = self._looked.is_set()
            self._looked.clear()
            shown = show(self.cloud.points, self._look())
            self.shown, self.sent = shown, 0 if anew else min(self.sent, len(shown.points))
            self._panel.show_legend(self._panel.colouring.value, shown.legend)
            for sent in self._scene.draw_cloud(shown, self._panel.size.value, anew=anew):
                self.sent = sent
                self._tell()
                if anew and self._looked.wait(_REST if sent <= FIRST_PIECE else 0):
                    break
            self._tell()
            if not anew:
                self._draw_way()

    def _draw_way(self) -> None:
        if self._frames.epoch != self._way_epoch:
            self._way_epoch = self._frames.epoch
            self._scene.forget_frusta()
        poses = self._poses
        self._scene.draw_path([poses[index] for index in sorted(poses)])
        for frame in map(self._readable, self._scene.missing_frusta(sorted(poses))):
            if frame is not None:
                self._scene.draw_frustum(frame)

    def _look(self) -> Look:
        panel, now = self._panel, self.index or 0
        first, last = {WHOLE: (0, Look.last), UNTIL_NOW: (0, now), ONLY_NOW: (now, now)}[panel.extent.value]
        colouring = panel.colouring.value
        if colouring == "reliability" and self._poses and not self._knows_reliability:
            panel.colouring.value = colouring = "picture"
            for client in self.clients():
                notify(client, "No reliability", _NO_RELIABILITY)
        return Look(colouring, panel.confidence.value, first, last, int(panel.budget.value) * THOUSAND)

    def _look_anew(self) -> None:
        self._looked.set()
        self._redraw.set()

    def _resize(self) -> None:
        self._scene.resize_points(self._panel.size.value)

    def _cameras(self) -> None:
        self._scene.show_frusta(self._panel.cameras.value)

    # -- time --------------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        """Moves the slider while it plays, or when it stood at the newest frame and a newer one came."""
        count, due = 0, 0.0
        while not self._stopped.is_set():
            playing = self._panel.playing
            self._moved.wait(max(0.0, due - time.monotonic()) if playing else _POLL)
            self._moved.clear()
            indices = self._indices
            if not indices:
                continue
            place = min(int(self._panel.time.value), len(indices) - 1)
            if count == 0:
                place = len(indices) - 1 if self._frames.growing() else 0
            elif place == count - 1 and len(indices) > count and not self._panel.playing:
                place = len(indices) - 1
            elif playing and self._panel.playing and time.monotonic() >= due:
                place = (place + 1) % len(indices)
            if time.monotonic() >= due:
                due = time.monotonic() + 1 / self._panel.speed.value
            count = len(indices)
            self._panel.stretch_time(count - 1)
            if self._panel.time.value != place:
                self._panel.time.value = place
            self._go_to(indices[place], place, count)

    def _go_to(self, index: int, place: int, count: int) -> None:
        frame = self._readable(index)
        if frame is None or (index == self.index and not self._panel.follow.value):
            return
        if index != self.index:
            self.index = index
            stamp = "" if frame.timestamp is None else f" · {frame.timestamp:.2f} s"
            caption = f"**frame {index}**{stamp} · {place + 1} of {count}"
            self._panel.show_frame(caption, frame.picture, depth_picture(frame.depth))
            self._scene.draw_now(frame)
            if self._panel.extent.value != WHOLE:
                self._look_anew()
        if self._panel.follow.value:
            self._scene.follow(frame)

    def _readable(self, index: int) -> ViewFrame | None:
        return None if index in self.unreadable else self._frames.frame(index)

    # -- what people are told and given ------------------------------------------------------------------------------

    def _tell(self) -> None:
        if not self._indices:
            self._panel.tell("waiting for the first frame")
            return
        passing = 0 if self.shown is None else self.shown.passing
        lines = [f"**{self.sent:,}** of {passing:,} points · {len(self._indices)} frames · {self._frames.status()}"]
        if self.unreadable:
            first = next(iter(self.unreadable.values()))
            lines.append(f"{len(self.unreadable)} frames cannot be read; the first: {first}")
        self._panel.tell("\n\n".join(lines))

    def _screenshot(self, client: viser.ClientHandle) -> None:
        height, width = client.camera.image_height, client.camera.image_width
        try:
            picture = client.get_render(height, width, transport_format="png", timeout=_RENDER_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            notify(client, "No screenshot", f"The page did not give its picture ({error}).", "red")
            return
        content = io.BytesIO()
        PillowImage.fromarray(picture[..., :3]).save(content, format="PNG")
        client.send_file_download(f"frame-{self.index or 0:06d}.png", content.getvalue(), save_immediately=True)

    def _export(self, client: viser.ClientHandle) -> None:
        shown = self.shown
        if shown is None or not len(shown.points):
            notify(client, "No points", "Nothing passes the filters, so that there is nothing to export.")
            return
        cloud = FusedCloud(
            shown.points["position"].astype(np.float64), shown.colours, shown.points["confidence"].astype(np.float64)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "points.ply"
            write_ply(path, cloud)
            client.send_file_download("points.ply", path.read_bytes(), save_immediately=True)
