"""What is drawn in the page: the cloud piece by piece, the way of the camera, and where it stands now.

Names of nodes are few and stay the same: what is drawn again takes the place of what was there, for the server, which
keeps it for pages that open later, as for a page that is slow to take it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
import viser
from PIL import Image as PillowImage

from recal3r.geometry.pose import quaternion_from_rotation
from recal3r.sinks.frames import ViewFrame
from recal3r.types import Array, Image
from recal3r.viewer.looks import SEQUENTIAL, Shown

FIRST_PIECE, PIECE = 100_000, 200_000  # points
FRUSTA = 40
_THUMBNAIL = 96  # pixels
_NOW = (255, 120, 20)


class Scene:
    """Holds the handles of what is drawn. One thread draws the cloud and the way, another where the camera is now."""

    def __init__(self, server: viser.ViserServer) -> None:
        self._server = server
        self._pieces: list[viser.PointCloudHandle] = []
        self._frusta: dict[int, viser.CameraFrustumHandle] = {}
        self.scale = 1.0  # metres: the depth of what the first frame shows, in the middle
        self.pixel = 0.01  # metres: the width of a pixel there

    def begin(self, frame: ViewFrame) -> None:
        """Where people look from at first, and how large things are drawn."""
        seen = frame.depth[np.isfinite(frame.depth) & (frame.depth > 0)]
        if len(seen):
            self.scale = float(np.median(seen))
        self.pixel = self.scale / float(frame.intrinsics[0, 0])
        rotation, position = frame.T_world_camera[:3, :3], frame.T_world_camera[:3, 3]
        self._server.scene.set_up_direction(_triple(-rotation[:, 1]))
        camera = self._server.initial_camera
        camera.position = _triple(position + rotation @ (np.array([0.25, -0.35, -0.75]) * self.scale))
        camera.look_at = _triple(position + rotation @ (np.array([0.0, 0.1, 0.8]) * self.scale))

    def draw_cloud(self, shown: Shown, point_size: float, *, anew: bool) -> Generator[int]:
        """Piece by piece, coarse to fine; yields how many points are there. `anew`: what was there goes first."""
        if anew:
            self._shorten(1)
        cuts = range(FIRST_PIECE, len(shown.points), PIECE)
        for place, (start, end) in enumerate(zip((0, *cuts), (*cuts, len(shown.points)), strict=True)):
            handle = self._server.scene.add_point_cloud(
                f"/cloud/{place}",
                points=shown.points["position"][start:end],
                colors=shown.colours[start:end],
                point_size=point_size * self.pixel,
                point_shape="square",
                point_shading="flat",
                precision="float32",
            )
            self._pieces[place : place + 1] = [handle]
            yield end
        self._shorten(max(1, len(cuts) + 1))

    def resize_points(self, point_size: float) -> None:
        for piece in self._pieces:
            piece.point_size = point_size * self.pixel

    def draw_path(self, poses: Mapping[int, Array]) -> None:
        """A line through all places of the camera, from dark to bright."""
        if len(poses) < 2:
            return
        places = np.stack([T_world_camera[:3, 3] for T_world_camera in poses.values()])
        colours = SEQUENTIAL[np.linspace(0, 255, len(places)).astype(int)]
        self._server.scene.add_line_segments(
            "/path",
            points=np.stack((places[:-1], places[1:]), axis=1),
            colors=np.stack((colours[:-1], colours[1:]), axis=1),
            thickness=2.0,
            thickness_units="screen",
        )

    def wanted_frusta(self, indices: list[int]) -> list[int]:
        """At most `FRUSTA` of the frames, the same ones however many come, until there are twice as many."""
        step = 1
        while len(indices) / step > FRUSTA:
            step *= 2
        return indices[::step]

    def draw_frusta(self, frames: list[ViewFrame], *, visible: bool) -> None:
        wanted = {frame.index: frame for frame in frames}
        for index in [index for index in self._frusta if index not in wanted]:
            self._frusta.pop(index).remove()
        for index, frame in wanted.items():
            if index not in self._frusta:
                handle = self._frustum(f"/cameras/{index}", frame, 0.06, (90, 90, 90), _small(frame.picture))
                handle.visible = visible
                self._frusta[index] = handle

    def show_frusta(self, visible: bool) -> None:
        for frustum in self._frusta.values():
            frustum.visible = visible

    @property
    def frusta(self) -> frozenset[int]:
        return frozenset(self._frusta)

    def draw_now(self, frame: ViewFrame) -> None:
        self._frustum("/now", frame, 0.14, _NOW, frame.picture)

    def follow(self, frame: ViewFrame) -> None:
        """Every page looks over the camera's shoulder."""
        rotation, position = frame.T_world_camera[:3, :3], frame.T_world_camera[:3, 3]
        behind = position + rotation @ (np.array([0.0, -0.12, -0.45]) * self.scale)
        ahead = position + rotation @ (np.array([0.0, 0.0, 0.8]) * self.scale)
        for client in self._server.get_clients().values():
            with client.atomic():
                client.camera.up_direction = _triple(-rotation[:, 1])
                client.camera.position = _triple(behind)
                client.camera.look_at = _triple(ahead)

    def _frustum(
        self, name: str, frame: ViewFrame, size: float, colour: tuple[int, int, int], picture: Image
    ) -> viser.CameraFrustumHandle:
        height, width = frame.depth.shape
        return self._server.scene.add_camera_frustum(
            name,
            fov=2 * float(np.arctan(height / 2 / frame.intrinsics[1, 1])),
            aspect=width / height * float(frame.intrinsics[1, 1] / frame.intrinsics[0, 0]),
            scale=size * self.scale,
            thickness=1.5,
            thickness_units="screen",
            color=colour,
            image=picture,
            wxyz=quaternion_from_rotation(frame.T_world_camera[:3, :3]),
            position=frame.T_world_camera[:3, 3],
            cast_shadow=False,
            receive_shadow=False,
        )

    def _shorten(self, pieces: int) -> None:
        for piece in self._pieces[pieces:]:
            piece.remove()
        del self._pieces[pieces:]


def _small(picture: Image) -> Image:
    height, width = picture.shape[:2]
    shrunk = min(1.0, _THUMBNAIL / max(height, width))
    return np.asarray(PillowImage.fromarray(picture).resize((round(width * shrunk), round(height * shrunk))))


def _triple(vector: Array) -> tuple[float, float, float]:
    x, y, z = vector.tolist()
    return x, y, z
