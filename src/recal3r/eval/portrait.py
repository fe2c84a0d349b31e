"""Pictures of clouds and of the cameras that saw them, as of a doll's house: from above, at a slant, without ceiling.

K points · T poses · H, W pixels
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Numbers = NDArray[np.floating]
Picture = NDArray[np.uint8]

_BACKGROUND, _PATH, _START = (255, 255, 255), (220, 30, 30), (20, 120, 220)


@dataclass(frozen=True)
class View:
    """A parallel projection from `elevation` degrees above the horizon; the world's z is up."""

    centre: Numbers  # [3], in the middle of the picture
    reach: float  # metres from there to its nearer rim
    azimuth: float = 35.0
    elevation: float = 55.0

    @classmethod
    def of(cls, points: Numbers, azimuth: float = 35.0) -> View:  # [K, 3]
        """What shows nearly all of the points."""
        low, high = np.percentile(points, (1, 99), axis=0)
        return cls((low + high) / 2, 0.52 * float(np.linalg.norm((high - low)[:2])), azimuth)

    def axes(self) -> Numbers:  # [3, 3]: right, down, away
        a, e = math.radians(self.azimuth), math.radians(self.elevation)
        away = np.array([math.cos(a) * math.cos(e), math.sin(a) * math.cos(e), -math.sin(e)])
        right = np.array([math.sin(a), -math.cos(a), 0.0])
        return np.stack((right, np.cross(away, right), away))

    def project(self, points: Numbers, size: tuple[int, int]) -> Numbers:  # [K, 3] -> [K, 3] column, row, depth
        scale = min(size) / (2 * self.reach)
        return (points - self.centre) @ self.axes().T * [scale, scale, 1.0] + [size[0] / 2, size[1] / 2, 0.0]


def portrait(
    view: View,
    points: Numbers,  # [K, 3]
    colours: Picture,  # [K, 3]
    path: Numbers,  # [T, 3] camera centres
    size: tuple[int, int] = (360, 300),
) -> Picture:
    """Points as little squares, the nearest on top; the way of the camera over them."""
    canvas = np.full((size[1], size[0], 3), _BACKGROUND, np.uint8)
    known = np.isfinite(points).all(1)
    seen = view.project(points[known], size)
    order = np.argsort(-seen[:, 2])  # what is painted last stays
    column, row = np.rint(seen[order, :2]).astype(np.int64).T
    painted = colours[known][order]
    for right, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
        x, y = column + right, row + down
        inside = (x >= 0) & (x < size[0]) & (y >= 0) & (y < size[1])
        canvas[y[inside], x[inside]] = painted[inside]
    return _with_path(canvas, view.project(path[np.isfinite(path).all(1)], size)[:, :2])


def _with_path(canvas: Picture, pixels: Numbers) -> Picture:  # [H, W, 3], [T, 2]
    image = Image.fromarray(canvas)
    draw = ImageDraw.Draw(image)
    corners = [(float(x), float(y)) for x, y in pixels]
    draw.line(corners, fill=_PATH, width=2)
    for x, y in corners[:1]:
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=_START)
    return np.asarray(image)


def depth_picture(depth: Numbers, nearest: float, farthest: float) -> Picture:  # [H, W] -> [H, W, 3]
    """Near is bright, on one scale for all that are to be compared."""
    inverse = (1 / np.clip(depth, 1e-3, None) - 1 / farthest) / (1 / nearest - 1 / farthest)
    grey = (np.clip(inverse, 0, 1) ** 0.7 * 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def sheet(rows: Sequence[tuple[str, Sequence[Picture]]], titles: Sequence[str] = ()) -> Image.Image:
    """Rows of pictures with their names on the left, and titles above the first row."""
    left, gap, top = 130, 4, 20 if titles else 4
    width = max(sum(tile.shape[1] + gap for tile in tiles) for _, tiles in rows)
    height = sum(max(tile.shape[0] for tile in tiles) + gap for _, tiles in rows)
    page = Image.new("RGB", (left + width, top + height), "white")
    draw = ImageDraw.Draw(page)
    for row, (name, tiles) in enumerate(rows):
        x, tall = left, max(tile.shape[0] for tile in tiles)
        draw.text((6, top + tall // 2 - 6), name, fill="black")
        for place, tile in enumerate(tiles):
            if titles and row == 0:
                draw.text((x + 2, 4), titles[place], fill="black")
            page.paste(Image.fromarray(tile), (x, top))
            x += tile.shape[1] + gap
        top += tall + gap
    return page
