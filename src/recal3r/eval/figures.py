"""Findings as pictures, PNG and SVG. Needs matplotlib (the extra `eval`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import EvalError
from recal3r.eval.contestants import slug
from recal3r.eval.extra import evaluation_package
from recal3r.eval.findings import Findings, longest
from recal3r.eval.published import published
from recal3r.eval.sweep.roll import Asked, Group
from recal3r.eval.walks import read_walk
from recal3r.geometry.align import umeyama
from recal3r.jsontext import parsed

Figure = Any
"""Of matplotlib, which has no types of its own."""
_AT_MOST = 6  # paths in one figure
_LINES = ("-", "--", "-.")
_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f7f7f",
    "#8c564b",
    "#17becf",
    "#bcbd22",
)
_GIGABYTE = 1e9


class Style(NamedTuple):
    color: str
    linestyle: str


def _styles(group: Group) -> dict[str, Style]:
    """One for each contestant, of which ten look alike in nothing."""
    return {
        name: Style(_COLOURS[k % len(_COLOURS)], _LINES[k // len(_COLOURS) % len(_LINES)])
        for k, name in enumerate(group.contestants)
    }


def metric_over_length(findings: Findings, asked: Asked, group: Group) -> Figure | None:
    """Each metric over the length of the stream, 95 % intervals over sequences as bands, the paper's as crosses.

    None where there is only one length.
    """
    lengths = [length for length in findings.roll.lengths if length is not None]
    if len(lengths) < 2:
        return None
    measures, styles = findings.measures(asked), _styles(group)
    figure, cited = _figure((4.4 * len(measures) + 1.8, 3.8)), False
    for column, measure in enumerate(measures):
        axes = figure.add_subplot(1, len(measures), column + 1)
        for name, style in styles.items():
            found = [findings.interval(asked, name, length, measure.name) for length in lengths]
            axes.plot(lengths, [one.mean for one in found], marker="o", markersize=3, label=name, **style._asdict())
            low, high = [one.low for one in found], [one.high for one in found]
            axes.fill_between(lengths, low, high, color=style.color, alpha=0.1, linewidth=0)
            paper = [published(asked.protocol, name, length, measure.name) for length in lengths]
            axes.plot(lengths, paper, marker="x", markersize=6, linestyle="none", color=style.color)
            cited = cited or any(map(math.isfinite, paper))
        _length_axis(axes, lengths)
        axes.set_title(measure.label)
    figure.axes[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(f"{asked.protocol}: {group.name}{' (crosses: the paper)' if cited else ''}", fontsize=10)
    return figure


def _length_axis(axes: Any, lengths: Sequence[int]) -> None:
    axes.set(xscale="log", xlabel="frames")
    axes.set_xticks(lengths, [str(length) for length in lengths], fontsize=8)
    axes.minorticks_off()
    axes.grid(alpha=0.3)


# -- from above ------------------------------------------------------------------------------------------------------


def paths_from_above(findings: Findings, asked: Asked, group: Group, folder: Path) -> Figure | None:
    """The ways of the camera through the first sequences at the longest stream, each moved onto the truth by Sim(3).

    None where no way was written down.
    """
    length, styles = longest(findings.roll.lengths), _styles(group)
    drawn = 0
    panels = min(_AT_MOST, len(asked.sequences))
    across = min(3, panels)
    figure = _figure((3.6 * across + 1.8, 3.6 * math.ceil(panels / across)))
    for panel, sequence in enumerate(asked.sequences[:panels]):
        axes = figure.add_subplot(math.ceil(panels / across), across, panel + 1)
        for name, style in styles.items():
            walk = read_walk(folder, asked.protocol, name, length, sequence)
            if walk is None:
                continue
            drawn += 1
            centres, truth = walk.estimate[:, :3, 3], walk.truth[:, :3, 3]
            seen = FromAbove.of(truth)
            if name == next(iter(styles)) or not axes.lines:
                axes.plot(*seen(truth).T, color="black", linewidth=2, label="truth")
            axes.plot(*seen(umeyama(centres, truth)(centres)).T, linewidth=1, label=name, **style._asdict())
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_title(sequence, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    if not drawn:
        return None
    with_lines = next(axes for axes in figure.axes if axes.lines)
    figure.legend(*with_lines.get_legend_handles_labels(), fontsize=7, loc="outside right center")
    frames = "all" if length is None else length
    figure.suptitle(f"{asked.protocol}, {frames} frames: {group.name}, from above (m)", fontsize=10)
    return figure


class FromAbove(NamedTuple):
    """The plane in which a path spreads most: for somebody who walks, the floor. Datasets do not say where up is."""

    centre: NDArray[np.floating]  # [3]
    axes: NDArray[np.floating]  # [2, 3]

    @classmethod
    def of(cls, points: NDArray[np.floating]) -> FromAbove:
        centre = points.mean(0)
        return cls(centre, np.linalg.svd(points - centre, full_matrices=False)[2][:2])

    def __call__(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        return (points - self.centre) @ self.axes.T


# -- speed -----------------------------------------------------------------------------------------------------------


class Pace(NamedTuple):
    """Of one contestant, the median over its sequences."""

    frames_per_second: float
    gigabytes: float
    """Of the device, where there is one; of the process, where there is none. NaN where nobody says."""
    device: str


def read_paces(folder: Path, contestants: Sequence[str]) -> dict[str, Pace]:
    """By contestant; who was never timed is left out."""
    found = {name: [_speed(path) for path in sorted((folder / slug(name)).glob("*.json"))] for name in contestants}
    return {name: _pace(speeds) for name, speeds in found.items() if speeds}


def _speed(path: Path) -> Mapping[str, Any]:
    try:
        return parsed(path.read_text())
    except (OSError, ValueError) as error:
        raise EvalError(f"{path} is no measure of speed; remove it.") from error


def _pace(speeds: Sequence[Mapping[str, Any]]) -> Pace:
    bytes_held = [float(one["device_bytes"] or one["host_bytes"] or math.nan) for one in speeds]
    return Pace(
        float(np.median([one["frames_per_second"] for one in speeds])),
        float(np.median(bytes_held)) / _GIGABYTE,
        ", ".join(sorted({str(one["device"]) for one in speeds})),
    )


def speed_and_memory(paces: Mapping[str, Pace]) -> Figure:
    """Frames per second and memory, a bar for each contestant."""
    names, values = list(paces), list(paces.values())
    figure = _figure((9.6, 0.9 + 0.24 * len(names)))
    on_device = all(one.device != "cpu" for one in values)
    bars = (
        ("frames a second, one stream", [one.frames_per_second for one in values], ".1f"),
        (
            f"most memory {'on the device' if on_device else 'of the process'} (GB)",
            [one.gigabytes for one in values],
            ".2f",
        ),
    )
    for column, (title, lengths, form) in enumerate(bars):
        axes = figure.add_subplot(1, 2, column + 1)
        drawn = axes.barh(names, lengths, color=_COLOURS[column], height=0.7)
        axes.bar_label(drawn, [format(one, form) for one in lengths], padding=2, fontsize=7)
        axes.invert_yaxis()
        axes.margins(x=0.14)
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[1].set_yticklabels([])
    figure.suptitle(", ".join(sorted({one.device for one in values})), fontsize=9)
    return figure


def _figure(size: tuple[float, float]) -> Figure:
    return evaluation_package("matplotlib.figure").Figure(figsize=size, layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """PNG and SVG, of which both say nothing of when they were made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with evaluation_package("matplotlib").rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path.with_name(f"{path.name}.svg"), metadata={"Date": None})
    figure.savefig(path.with_name(f"{path.name}.png"), dpi=130)
