"""Training curves: rows of numbers as CSV, and a picture of them drawn with Pillow alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

Row = Mapping[str, str | float]
_WIDTH, _HEIGHT, _MARGIN = 900, 220, 46
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """All rows under all of their names, in the order in which names first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(
            {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()} for row in rows
        )


def draw(path: Path, panels: Sequence[tuple[str, Sequence[str], Sequence[Row]]]) -> None:
    """One panel below another: (title, names, rows); rows are placed by their "step"."""
    last = max((float(row["step"]) for _, _, rows in panels for row in rows), default=1.0)
    image = Image.new("RGB", (_WIDTH, _HEIGHT * len(panels)), "white")
    canvas = ImageDraw.Draw(image)
    for k, (title, names, rows) in enumerate(panels):
        _panel(canvas, k * _HEIGHT, title, names, rows, max(last, 1.0))
    image.save(path, optimize=True)


def _panel(  # noqa: PLR0917
    canvas: ImageDraw.ImageDraw, top: int, title: str, names: Sequence[str], rows: Sequence[Row], last: float
) -> None:
    lines = {name: _points(rows, name) for name in names}
    values = [value for points in lines.values() for _, value in points]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = high if high > low else low + 1.0
    left, right, upper, lower = _MARGIN, _WIDTH - 10, top + 34, top + _HEIGHT - 20

    def place(step: float, value: float) -> tuple[float, float]:
        return left + (right - left) * step / last, lower - (lower - upper) * (value - low) / (high - low)

    canvas.rectangle((left, upper, right, lower), outline="#cccccc")
    canvas.text((4, upper - 4), f"{high:.3g}", fill="black")
    canvas.text((4, lower - 8), f"{low:.3g}", fill="black")
    canvas.text((left, top + 4), title, fill="black")
    canvas.text((right - 60, lower + 4), f"step {last:.0f}", fill="black")
    for k, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[k % len(_COLOURS)]
        canvas.text((left + 110 * k, top + 18), name, fill=colour)
        if points:
            canvas.line([place(*point) for point in points], fill=colour)


def _points(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    found = [(float(row["step"]), float(row[name])) for row in rows if row.get(name, "") != ""]
    return [(step, value) for step, value in found if math.isfinite(value)]
