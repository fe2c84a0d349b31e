"""Depth as another camera would have seen it: the Kinect's depth camera stands 2.5 cm beside its colour camera.

H, W the depth camera's pixels · h, w the colour camera's
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recal3r.types import Array


def _kinect_to_colour() -> Array:
    """The extrinsics that the community uses for 7-Scenes."""
    return np.array(
        [
            [0.99996518, 0.0026765126, -0.0079041012, -0.0255589432],
            [-0.0027409311, 0.99996303, -0.0081504521, 0.0001010964],
            [0.0078819942, 0.0081718329, 0.9999355346, 0.0020318322],
            [0, 0, 0, 1],
        ]
    )


def _centred(focal: float) -> Array:
    return np.array([[focal, 0, 320.0], [0, focal, 240.0], [0, 0, 1]])


@dataclass(frozen=True)
class Registration:
    """From a depth camera to a colour camera of the same picture size; as they are in 7-Scenes."""

    K_depth: Array = field(default_factory=lambda: _centred(585.0))
    K_colour: Array = field(default_factory=lambda: _centred(525.0))
    T_colour_depth: Array = field(default_factory=_kinect_to_colour)

    def __call__(self, depth: Array) -> NDArray[np.float32]:
        """Metres [H, W], 0 unknown, to metres [H, W] seen by the colour camera, 0 unknown.

        Every pixel goes where it is seen, to the nearest pixel; of several that meet, the nearest to the camera stays.
        """
        height, width = depth.shape
        row, column = np.nonzero(depth > 0)
        z = depth[row, column].astype(np.float64)
        rays = np.stack((column, row, np.ones_like(row))) * z  # [3, K]
        points = self.T_colour_depth[:3, :3] @ (np.linalg.inv(self.K_depth) @ rays) + self.T_colour_depth[:3, 3:]
        seen = self.K_colour @ points
        u, v = (np.rint(axis / points[2]).astype(np.intp) for axis in seen[:2])
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height) & (points[2] > 0)
        u, v, z = u[inside], v[inside], points[2][inside]
        far_first = np.argsort(-z, kind="stable")  # what is written last stays
        registered = np.zeros(depth.shape, np.float32)
        registered[v[far_first], u[far_first]] = z[far_first]
        return registered
