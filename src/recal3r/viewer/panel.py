"""The controls beside the scene. They are shared: whoever watches sees the same, and may move everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import viser

from recal3r.types import Image
from recal3r.viewer.looks import COLOURINGS, Legend, colour_bar

THOUSAND = 1000  # points: the unit of the budget
WHOLE, UNTIL_NOW, ONLY_NOW = "whole run", "until now", "this frame"
_WIDTH, _ROOM = 300, 280  # pixels: of the panel, and of a picture in it
_BLANK = np.full((3, 4, 3), 235, np.uint8)
_MOST_CONFIDENT = 1.1  # the upper end of the slider until frames say otherwise


@dataclass(frozen=True)
class Actions:
    """What the controls do to the viewer."""

    moved: Callable[[], None]  # another frame, or playing began
    looked: Callable[[], None]  # another choice of points or colours
    resized: Callable[[], None]
    cameras: Callable[[], None]
    screenshot: Callable[[viser.ClientHandle], None]
    export: Callable[[viser.ClientHandle], None]


class Panel:
    """The handles of all controls, and what they say now."""

    def __init__(self, server: viser.ViserServer, actions: Actions, title: str, budget: int) -> None:
        gui, most = server.gui, max(10, round(budget / THOUSAND))
        gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(30, 90, 160))
        gui.set_panel_label(title)
        self.status = gui.add_markdown("waiting for the first frame")
        with gui.add_folder("Time"):
            self.time = gui.add_slider("frame", 0, 1, 1, 0, disabled=True)
            self.play = gui.add_button("Play", icon=viser.Icon.PLAYER_PLAY)
            self.speed = gui.add_slider("frames/s", 1, 30, 1, 10)
            self.follow = gui.add_checkbox("follow camera", False)
        with gui.add_folder("Points"):
            self.colouring = gui.add_dropdown("colour by", COLOURINGS)
            self.bar = gui.add_image(colour_bar("depth"), label="", format="png", visible=False)
            self.extent = gui.add_dropdown("show", (WHOLE, UNTIL_NOW, ONLY_NOW))
            self.confidence = gui.add_slider("least conf.", 1.0, _MOST_CONFIDENT, 0.1, 1.0)
            self.size = gui.add_slider("point size", 0.2, 5.0, 0.1, 1.0)
            self.budget = gui.add_slider("budget (k)", 10, max(5000, most), 10, most)
            self.cameras = gui.add_checkbox("cameras", True)
        with gui.add_folder("Export"):
            self._screenshot = gui.add_button("Screenshot", icon=viser.Icon.CAMERA)
            self._export = gui.add_button("Points as PLY", icon=viser.Icon.DOWNLOAD)
        beside = gui.add_panel()
        with beside.add_tab("Frame"):
            self.caption = gui.add_markdown("")
            self.picture = gui.add_image(_BLANK, label="picture", format="png")
            self.depth = gui.add_image(_BLANK, label="depth (near is warm)", format="png")
        beside.dock_left()
        beside.set_width(_WIDTH)
        gui.main_panel.dock_right()
        self.playing = False
        self._connect(actions)

    def _connect(self, actions: Actions) -> None:
        def toggle(_: Any) -> None:
            self.playing = not self.playing
            self.play.label = "Pause" if self.playing else "Play"
            self.play.icon = viser.Icon.PLAYER_PAUSE if self.playing else viser.Icon.PLAYER_PLAY
            actions.moved()

        self.play.on_click(toggle)
        for handle, action in (
            (self.time, actions.moved),
            (self.follow, actions.moved),
            (self.colouring, actions.looked),
            (self.extent, actions.looked),
            (self.confidence, actions.looked),
            (self.budget, actions.looked),
            (self.size, actions.resized),
            (self.cameras, actions.cameras),
        ):
            handle.on_update(lambda _, action=action: action())
        for handle, download in ((self._screenshot, actions.screenshot), (self._export, actions.export)):
            handle.on_click(lambda event, download=download: download(event.client) if event.client else None)

    def stretch_time(self, last: int) -> None:
        """The slider reaches from 0 to `last`."""
        if self.time.max != max(1, last):
            self.time.max = max(1, last)
        self.time.disabled = last < 1

    def stretch_confidence(self, most: float) -> None:
        highest = max(_MOST_CONFIDENT, round(most, 1))
        if highest != self.confidence.max:
            self.confidence.max = highest

    def show_frame(self, caption: str, picture: Image, depth: Image) -> None:
        self.caption.content = caption
        self.picture.image = _enlarged(picture)
        self.depth.image = _enlarged(depth)

    def show_legend(self, colouring: str, legend: Legend | None) -> None:
        if legend is not None:
            self.bar.image = colour_bar(colouring)
            self.bar.label = legend.text
        self.bar.visible = legend is not None

    def tell(self, text: str) -> None:
        if self.status.content != text:
            self.status.content = text


def _enlarged(picture: Image) -> Image:
    """Small pictures as large as the panel has room for; large ones are shrunk by the page."""
    times = max(1, _ROOM // picture.shape[1])
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def notify(
    client: viser.ClientHandle, title: str, body: str, colour: Literal["red", "yellow", "green"] = "yellow"
) -> None:
    client.add_notification(title, body, color=colour, auto_close_seconds=8.0)
