"""The drawings of the report: SVG, with words beside it as HTML, so that they can be read on a small screen too.

S stretches of frames · K points
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from html import escape
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from recal3r.sinks.cloud import Cloud
from recal3r.sinks.palette import hexadecimal, shade
from recal3r.types import Array

_COLOURS = 32  # steps of time along the path
_MAP_PIXELS = 480
_MARGIN = 0.06


@dataclass(frozen=True)
class Chart:
    """Numbers over time: a line, and a band around it where most of them lie."""

    title: str
    says: str
    frames: Array  # [S]
    line: Array  # [S], NaN where there is none
    band: tuple[Array, Array] | None = None
    counts: bool = False
    """From 0 without an end, and drawn so that small numbers have room too."""

    def html(self) -> str:
        known = np.concatenate([self.line, *(self.band or ())])
        if not np.isfinite(known).any():
            return ""
        low, high, ticks = _scale(float(np.nanmin(known)), float(np.nanmax(known)), self.counts)
        first, last = float(self.frames[0]), float(max(self.frames[-1], self.frames[0] + 1))

        def x(frame: Array) -> Array:
            return 1000 * (frame - first) / (last - first)

        def y(value: Array) -> Array:
            squeeze = np.log1p if self.counts else np.asarray
            return 300 * (1 - (squeeze(value) - squeeze(low)) / (squeeze(high) - squeeze(low)))

        shapes = [f'<path class="grid" d="M0 {y(np.array(tick)):.1f}H1000"/>' for tick in ticks]
        if self.band is not None:
            upper, lower = _points(x(self.frames), y(self.band[1])), _points(x(self.frames), y(self.band[0]))
            shapes += [f'<path class="band" d="M{"L".join(upper + lower[::-1])}Z"/>'] if upper else []
        shapes += [f'<path class="line" d="{_line(x(self.frames), y(self.line))}"/>']
        height = {tick: float(y(np.array(tick))) / 3 for tick in ticks}
        labels = [f'<i style="top:{height[tick]:.1f}%">{number(tick)}</i>' for tick in ticks]
        values = {"x": _rounded(self.frames), "y": _rounded(self.line)}
        if self.band is not None:
            values |= {"low": _rounded(self.band[0]), "high": _rounded(self.band[1])}
        return (
            f'<figure class="chart" data-values="{escape(json.dumps(values))}">'
            f"<figcaption><b>{escape(self.title)}</b> <output></output><small>{escape(self.says)}</small></figcaption>"
            f'<div class="plot"><div class="ticks">{"".join(labels)}</div>'
            '<svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(self.title)} over time">{"".join(shapes)}<path class="cursor" d=""/></svg></div>'
            f'<div class="ends"><span>frame {first:.0f}</span><span>{last:.0f}</span></div></figure>'
        )


def number(value: float) -> str:
    """As many digits as one wants to read."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if abs(value) < 1000:
        return f"{value:.3g}"
    if abs(value) < 10_000:
        return f"{value:,.0f}"
    return f"{value / 1e3:.3g}k" if abs(value) < 1e6 else f"{value / 1e6:.3g}M"


def _scale(low: float, high: float, counts: bool) -> tuple[float, float, list[float]]:
    """Ends and marks of an axis."""
    if counts:
        few = (0.0, 1, 3, 10, 30) if high < 100 else (0.0, 10, 100, 1000, 10_000, 100_000, 1_000_000)
        return 0.0, max(high, 1.0) * 1.1, [mark for mark in few if mark <= high]
    if low >= 0 and high <= 1:
        top = next(top for top in (0.05, 0.1, 0.2, 0.5, 1.0) if high <= top)
        return 0.0, top, [0.0, top / 2, top]
    step = _round_step((high - low) or abs(high) or 1.0)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    top = top if top > bottom else bottom + step
    marks = [bottom + place * step for place in range(round((top - bottom) / step) + 1)]
    return bottom, top, marks


def _round_step(span: float) -> float:
    """1, 2 or 5 times a power of ten: a third of the span or a little less."""
    raw = span / 3
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (5, 2, 1) if factor * power <= raw * (1 + 1e-9))


def _points(x: Array, y: Array) -> list[str]:
    known = np.isfinite(y)
    return [f"{a:.1f} {b:.1f}" for a, b in zip(x[known], y[known], strict=True)]


def _line(x: Array, y: Array) -> str:
    """A line that is broken where a number is missing; one that stands alone is a dash."""
    pieces: list[str] = []
    for piece in np.split(np.arange(len(x)), np.flatnonzero(np.diff(np.isfinite(y))) + 1):
        points = _points(x[piece], y[piece])
        if points:
            pieces.append(f"M{'L'.join(points)}" + "h3" * (len(points) == 1))
    return "".join(pieces)


def _rounded(values: Array) -> list[float | None]:
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]


# -- the map ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ground:
    """A piece of the ground, seen from above, in the axes of `upright`: x to the right, z up the page."""

    left: float
    bottom: float
    width: float
    height: float

    @classmethod
    def around(cls, path: Array, cloud: Cloud) -> Ground:
        """The whole path, and most of what was seen from it."""
        corners = [path[:, [0, 2]]]
        if len(cloud.points):
            corners.append(np.percentile(cloud.points[:, [0, 2]], (2, 98), axis=0))
        low, high = np.concatenate(corners).min(0), np.concatenate(corners).max(0)
        span = np.maximum(high - low, 1e-3)
        span = np.maximum(span, span.max() * 0.4) * (1 + 2 * _MARGIN)  # no thinner than five to two
        left, bottom = (low + high - span) / 2
        return cls(float(left), float(bottom), float(span[0]), float(span[1]))

    def place(self, points: Array) -> Array:  # [K, 3] -> [K, 2], right and down from the upper left corner
        right, down = points[:, 0] - self.left, self.bottom + self.height - points[:, 2]
        return np.stack((right, down), -1)


def upright(rotations: Array) -> Array:  # R_world_camera [K, 3, 3] -> [3, 3]
    """From the world's axes to the ground's: y down, which is what the cameras mean by it on average, and z where the
    first of them looked, as far as that is level."""
    down = _unit(rotations[:, :, 1].mean(0), rotations[0, :, 1])
    right = _unit(np.cross(down, rotations[0, :, 2]), rotations[0, :, 0])
    return np.stack((right, down, np.cross(right, down)))


def _unit(vector: Array, otherwise: Array) -> Array:
    length = np.linalg.norm(vector)
    return vector / length if length > 1e-6 else otherwise


def ground_map(path: Array, cloud: Cloud, edge: float) -> str:
    """The path from above, coloured by time, over what lies below the height of the cameras."""
    ground = Ground.around(path, cloud)
    size = f"{ground.width:.4f} {ground.height:.4f}"
    places = ground.place(path)
    steps = np.array_split(np.arange(len(places)), min(_COLOURS, max(1, len(places) - 1)))
    colours = shade(np.linspace(0, 1, len(steps)))
    lines: list[str] = []
    for indices, colour in zip(steps, colours, strict=True):
        piece = places[indices[0] : indices[-1] + 2]  # up to the next one's first
        lines.append(f'<path stroke="{hexadecimal(colour)}" d="{_strokes(piece)}"/>')
    dot = 0.012 * max(ground.width, ground.height)
    (x0, y0), (x1, y1) = places[0], places[-1]
    ends = (
        f'<circle class="start" cx="{x0:.4f}" cy="{y0:.4f}" r="{dot:.4f}"/>'
        f'<circle class="end" cx="{x1:.4f}" cy="{y1:.4f}" r="{dot:.4f}"/>'
    )
    bar = _bar(0.3 * ground.width)
    return (
        f'<div class="map" style="aspect-ratio:{ground.width / ground.height:.4f}">'
        f'<svg viewBox="0 0 {size}" role="img" aria-label="trajectory from above">{_image(ground, path, cloud, edge)}'
        f'<g class="halo">{_all(places)}</g><g class="path">{"".join(lines)}</g>{ends}</svg>'
        f'<div class="scale" style="width:{100 * bar / ground.width:.2f}%">{number(bar)} m</div></div>'
    )


def _all(places: Array) -> str:
    return f'<path d="{_strokes(places)}"/>'


def _strokes(places: Array) -> str:
    return "M" + "L".join(f"{x:.4f} {y:.4f}" for x, y in places)


def _bar(most: float) -> float:
    """The longest of 1, 2, 5, 10, ... that is no longer than `most`."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(factor * power for factor in (5, 2, 1) if factor * power <= most * (1 + 1e-9))


def _image(ground: Ground, path: Array, cloud: Cloud, edge: float) -> str:
    """Points below the cameras, as a floor plan is cut, the uppermost last."""
    below = cloud.points[:, 1] >= np.median(path[:, 1])  # y is down
    if not below.any():
        return ""
    points, colours = cloud.points[below], cloud.colours[below]
    cell = max(edge, max(ground.width, ground.height) / _MAP_PIXELS)
    columns, rows = math.ceil(ground.width / cell), math.ceil(ground.height / cell)
    place = (ground.place(points) / cell).astype(np.int64)
    inside = ((place >= 0) & (place < (columns, rows))).all(1)
    order = np.argsort(-points[inside, 1], kind="stable")
    column, row = place[inside][order].T
    rgba: NDArray[np.uint8] = np.zeros((rows + 1, columns + 1, 4), np.uint8)
    for down, right in ((1, 1), (1, 0), (0, 1), (0, 0)):  # a voxel's mean may lie in a cell beside its own: no holes
        rgba[row + down, column + right, :3], rgba[row + down, column + right, 3] = colours[inside][order], 255
    content = BytesIO()
    PillowImage.fromarray(rgba[:rows, :columns]).save(content, format="PNG")
    return (
        f'<image href="{data_url(content.getvalue(), "image/png")}" width="{columns * cell:.4f}" '
        f'height="{rows * cell:.4f}" preserveAspectRatio="none"/>'
    )


def data_url(content: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
