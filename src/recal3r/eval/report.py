"""A study as tables and figures. Needs matplotlib (the extra `eval`)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recal3r.eval.bootstrap import Interval, bootstrap
from recal3r.eval.extra import evaluation_package

Table = Mapping[str, Mapping[int, Mapping[str, NDArray[np.floating]]]]
"""contestant -> stream length -> metric -> one number a scene."""


def markdown(table: Table, metric: str, lengths: Sequence[int]) -> str:
    """One row a contestant, one column a length: mean and 95 % interval over scenes; the best mean of a column bold."""
    intervals = {name: {n: bootstrap(rows[n][metric]) for n in lengths if n in rows} for name, rows in table.items()}
    best = {
        n: min((row[n].mean for row in intervals.values() if n in row and np.isfinite(row[n].mean)), default=np.nan)
        for n in lengths
    }
    lines = [f"| {metric} | " + " | ".join(f"{n} frames" for n in lengths) + " |", "|---" * (len(lengths) + 1) + "|"]
    for name, row in intervals.items():
        cells = [_cell(row[n], row[n].mean == best[n]) if n in row else "–" for n in lengths]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(interval: Interval, best: bool) -> str:
    if not interval.scenes:
        return "–"
    mean = f"**{interval.mean:.3f}**" if best else f"{interval.mean:.3f}"
    failed = "" if interval.scenes == interval.of else f", {interval.scenes} of {interval.of}"
    return f"{mean} ({interval.low:.3f}–{interval.high:.3f}{failed})"


def paired(table: Table, metric: str, length: int, against: str) -> str:
    """Each contestant against one other on the same scenes: mean difference and its interval; below 0 is better."""
    lines = [f"| {metric} at {length} frames | minus {against} | tells apart |", "|---|---|---|"]
    base = table[against][length][metric]
    for name, rows in table.items():
        if name != against and length in rows:
            difference = bootstrap(rows[length][metric] - base)
            apart = "yes" if difference.low > 0 or difference.high < 0 else "no"
            cell = f"{difference.mean:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
            lines.append(f"| {name} | {cell} | {apart} |")
    return "\n".join(lines)


def write_csv(path: Path, table: Table) -> None:
    """Every number, one line each."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("contestant", "frames", "metric", "scene", "value"))
        for name, rows in table.items():
            for length, metrics in rows.items():
                for metric, values in metrics.items():
                    for scene, value in enumerate(values):
                        writer.writerow((name, length, metric, scene, repr(float(value))))


def curves(path: Path, table: Table, metrics: Sequence[str], contestants: Sequence[str]) -> None:
    """Each metric over the length of the stream, with the intervals as bands. Written as PNG and SVG."""
    figure = evaluation_package("matplotlib.figure").Figure(figsize=(5.2 * len(metrics), 4.2), layout="constrained")
    palette = evaluation_package("matplotlib").colormaps["tab20"].colors
    colours = {name: palette[k % len(palette)] for k, name in enumerate(contestants)}
    for column, metric in enumerate(metrics):
        axes = figure.add_subplot(1, len(metrics), column + 1)
        for name in contestants:
            lengths = sorted(table[name])
            found = [bootstrap(table[name][n][metric]) for n in lengths]
            if any(interval.scenes for interval in found):
                axes.plot(
                    lengths, [one.mean for one in found], marker="o", markersize=3, label=name, color=colours[name]
                )
                low, high = [one.low for one in found], [one.high for one in found]
                axes.fill_between(lengths, low, high, color=colours[name], alpha=0.08, linewidth=0)
        axes.set(xscale="log", xlabel="frames", title=metric)
        axes.set_xticks(sorted({n for name in contestants for n in table[name]}))
        axes.get_xaxis().set_major_formatter("{x:.0f}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    named = {label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.axes[-1].legend(named.values(), named, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=130)
