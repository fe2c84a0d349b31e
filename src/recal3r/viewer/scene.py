"""What is drawn in the page: the cloud piece by piece, the way of the camera, and where it stands now.

Names of nodes are few and stay the same: what is drawn again takes the place of what was there, for the server, which
keeps it for pages that open later, as for a page that is slow to take it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from threading import Lock

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
    """Holds the handles of what is drawn. One thread draws the cloud and the way, another where the camera is now;
    people change sizes and hide cameras at any time."""

    def __init__(self, server: viser.ViserServer) -> None:
        self._server = server
        self._clouds: list[viser.PointCloudHandle] = []
        self._lock = Lock()
        self._cameras = server.scene.add_frame("/cameras", show_axes=False)  # what all frusta are hidden with
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
        pieces = _pieces(len(shown.points))
        if anew:
            self._shorten(min(1, len(pieces)))
        for place, (start, end) in enumerate(pieces):
            with self._lock:
                handle = self._server.scene.add_point_cloud(
                    f"/cloud/{place}",
                    points=shown.points["position"][start:end],
                    colors=shown.colours[start:end],
                    point_size=point_size * self.pixel,
                    point_shape="square",
                    point_shading="flat",
                    precision="float32",
                )
                self._clouds[place : place + 1] = [handle]
            yield end
        self._shorten(len(pieces))

    def resize_points(self, point_size: float) -> None:
        with self._lock:
            for cloud in self._clouds:
                cloud.point_size = point_size * self.pixel

    def draw_path(self, poses: Sequence[Array]) -> None:
        """A line through all places of the camera, from dark to bright."""
        if len(poses) < 2:
            return
        places = np.stack([T_world_camera[:3, 3] for T_world_camera in poses])
        colours = SEQUENTIAL[np.linspace(0, 255, len(places)).astype(int)]
        self._server.scene.add_line_segments(
            "/path",
            points=np.stack((places[:-1], places[1:]), axis=1),
            colors=np.stack((colours[:-1], colours[1:]), axis=1),
            thickness=2.0,
            thickness_units="screen",
        )

    def missing_frusta(self, indices: list[int]) -> list[int]:
        """Which of the frames' cameras are still to be drawn, when those that are too many have been taken away.

        At most `FRUSTA` are shown: every k-th, k doubling, so that those that are there mostly stay.
        """
        step = 1
        while len(indices) / step > FRUSTA:
            step *= 2
        wanted = indices[::step]
        for index in self._frusta.keys() - set(wanted):
            self._frusta.pop(index).remove()
        return [index for index in wanted if index not in self._frusta]

    def draw_frustum(self, frame: ViewFrame) -> None:
        name = f"/cameras/{frame.index}"
        self._frusta[frame.index] = self._frustum(name, frame, 0.06, (90, 90, 90), _small(frame.picture))

    def forget_frusta(self) -> None:
        self.missing_frusta([])

    def show_frusta(self, visible: bool) -> None:
        self._cameras.visible = visible

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
        with self._lock:
            for cloud in self._clouds[pieces:]:
                cloud.remove()
            del self._clouds[pieces:]


def _pieces(points: int) -> list[tuple[int, int]]:
    """The first piece small, to be there at once. A page that is sent no points at all complains."""
    cuts = [*range(FIRST_PIECE, points, PIECE)]
    return list(zip((0, *cuts), (*cuts, points), strict=True)) if points else []


def _small(picture: Image) -> Image:
    height, width = picture.shape[:2]
    shrunk = min(1.0, _THUMBNAIL / max(height, width))
    return np.asarray(PillowImage.fromarray(picture).resize((round(width * shrunk), round(height * shrunk))))


def _triple(vector: Array) -> tuple[float, float, float]:
    x, y, z = vector.tolist()
    return x, y, z
