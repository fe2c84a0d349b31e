"""Light that does not depend on the camera, so it is baked into the textures once.

A face is flat: the squared distance to a lamp is a sum of one term along u, one along v and one constant, and the
Lambert cosine is that constant over the distance. No point of a face is ever built.
"""

import numpy as np
from numpy.typing import NDArray

from recal3r.sources.synthetic.faces import Faces
from recal3r.sources.synthetic.scene import SceneSpec

_AMBIENT = 0.42
_FALLOFF = 0.22  # per square metre


def light_on(faces: Faces, spec: SceneSpec, s: NDArray[np.float32], t: NDArray[np.float32]) -> NDArray[np.float32]:
    """Ambient and lamps at the texel centres of n faces: [n, h, w]."""
    light = np.full((len(faces), len(t), len(s)), _AMBIENT, np.float32)
    for lamp in spec.lamps:
        to_lamp = np.array(lamp.position) - faces.origin  # [n, 3]
        along_u = ((to_lamp * faces.edge_u).sum(1)[:, None] - faces.extent[:, :1] * s[None, :]).astype(np.float32)
        along_v = ((to_lamp * faces.edge_v).sum(1)[:, None] - faces.extent[:, 1:] * t[None, :]).astype(np.float32)
        above = np.maximum((to_lamp * faces.normal).sum(1), 0.0).astype(np.float32)  # [n]
        squared = (along_u**2)[:, None, :] + (along_v**2 + (above**2)[:, None])[:, :, None] + np.float32(1e-3)
        light += (lamp.strength * above)[:, None, None] / (np.sqrt(squared) * (1.0 + _FALLOFF * squared))
    return light


def darken_corners(light: NDArray[np.float32], extent: NDArray[np.float64]) -> None:
    """Less light reaches the edges where two sides of the room meet. In place, [n, h, w]."""
    for axis, length in ((2, extent[:, 0]), (1, extent[:, 1])):
        count = light.shape[axis]
        place = (np.arange(count, dtype=np.float64) + 0.5) / count
        metres = length[:, None] * np.minimum(place, 1.0 - place)[None, :]
        factor = (1.0 - 0.30 * np.exp(-metres / 0.22)).astype(np.float32)
        light *= factor[:, None, :] if axis == 2 else factor[:, :, None]


def floor_shadow(spec: SceneSpec, s: NDArray[np.float32], t: NDArray[np.float32]) -> NDArray[np.float32]:
    """A soft shadow around everything that stands on the floor: factors [h, w] for the floor's texels."""
    standing = [box for box in spec.boxes if box.centre[2] - 0.5 * box.size[2] < 0.12]
    if not standing:
        return np.ones((len(t), len(s)), np.float32)
    centre = np.array([box.centre[:2] for box in standing])
    half = 0.5 * np.array([box.size[:2] for box in standing])
    x, y = spec.room[0] * s, spec.room[1] * (1.0 - t)  # the floor's v runs towards y=0
    fade_x = np.exp(-np.maximum(np.abs(x - centre[:, :1]) - half[:, :1], 0.0) / 0.14).astype(np.float32)
    fade_y = np.exp(-np.maximum(np.abs(y - centre[:, 1:]) - half[:, 1:], 0.0) / 0.14).astype(np.float32)
    deepest: NDArray[np.float32] = (fade_y[:, :, None] * fade_x[:, None, :]).max(axis=0)
    return np.float32(1.0) - np.float32(0.5) * deepest
