"""The report as a page: what the sink remembered, in HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, cast

import numpy as np

from recal3r.sinks.cloud import Cloud
from recal3r.sinks.health import Troubles
from recal3r.sinks.report_charts import Chart, data_url, ground_map, number, upright
from recal3r.sinks.thinned import Curves, Moment
from recal3r.types import Array

_EXPLAINED = {
    "learning_rate": ("β, how far tokens move", "0 keeps a token, 1 overwrites it."),
    "alignment": ("Alignment g", "how well tokens and frame fit; what TTT3R moves by."),
    "pressure": ("Pressure h", "how much tokens were written lately; it holds them back."),
    "residual": ("Residual r", "how much of the frame the state does not explain: one number a frame."),
    "deviation": ("Deviation d", "how far tokens have gone from where they began, least 0, most 1."),
    "entropy": ("Entropy e", "how evenly tokens look at the frame: 1 is everywhere alike."),
    "reliability": ("Reliability ρ", "little gone astray and well focused: near 1. Undecided: ½."),
    "trust": ("Trust R", "how much β follows the frame instead of the base rate."),
}


_FIGURES = {"confidence": "confidence", "learning_rate": "mean β", "horizon": "frames remembered"}
_RELIABLE = " Reliability is that of the state's tokens behind each pixel, from 0 to 1."


@dataclass(frozen=True)
class Story:
    """All that a report tells."""

    about: Mapping[str, object]
    ended: str | None  # why, where it was before its time
    path: Array  # T_world_camera [K, 4, 4], in the order of time, the last one included
    walked: float
    moments: list[Moment]
    curves: Curves
    cloud: Cloud
    edge: float
    timings: Mapping[str, Any]
    troubles: Troubles


def page(story: Story) -> str:
    here = files("recal3r.sinks")
    style, script = ((here / f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    timings = json.dumps(story.timings, indent=1).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>recal3r report</title>\n<style>\n{style}</style></head>\n<body><main>\n"
        f"{_header(story)}\n{_map(story)}\n{_strip(story)}\n{_health(story)}\n{_charts(story)}\n{_table(story)}\n"
        '<section id="time" hidden><h2>Timings</h2><table></table></section>\n'
        f'</main>\n<script type="application/json" id="timings">{timings}</script>\n'
        f"<script>\n{script}</script></body></html>\n"
    )


def _header(story: Story) -> str:
    figures = [("frames", f"{story.curves.count:,}")]
    if len(story.path):
        figures.append(("metres walked", number(story.walked)))
    figures += [
        (title, number(_usual(story.curves, name))) for name, title in _FIGURES.items() if name in story.curves.names
    ]
    shown = "".join(f"<li><b>{value}</b>{title}</li>" for title, value in figures)
    source = story.about.get("source")
    if isinstance(source, Mapping):
        source = cast("Mapping[str, object]", source).get("description")
    said = f"<p>{escape(str(source))}</p>" if source is not None else ""
    ended = f'<p class="ended">Ended before its time. {escape(story.ended)}</p>' if story.ended else ""
    return f'<header><h1>Reconstruction report</h1>{said}{ended}<ul class="figures">{shown}</ul></header>'


def _usual(curves: Curves, name: str) -> float:
    """The median over time; infinite where nothing finite was ever there, as a horizon may be."""
    known = curves.mean(name)
    known = known[np.isfinite(known)]
    return float(np.median(known)) if known.size else np.inf


def _map(story: Story) -> str:
    if not len(story.path):
        return "<section><p>No frame was written.</p></section>"
    R = upright(story.path[:, :3, :3])
    drawn = ground_map(story.path[:, :3, 3] @ R.T, story.cloud._replace(points=story.cloud.points @ R.T), story.edge)
    return (
        f"<section><h2>From above</h2>{drawn}<p>The path of the camera, from its "
        '<span class="mark start"></span> start to its <span class="mark end"></span> end, over what it saw below its '
        "own height. The first camera looks up the page; down is where the cameras, on average, have their lower edge."
        "</p></section>"
    )


def _strip(story: Story) -> str:
    if not story.moments:
        return ""
    rows = [name for name in ("picture", "depth", "confidence", "reliability") if name in story.moments[-1]]
    cards = "".join(_card(moment, rows) for moment in story.moments)
    reliable = _RELIABLE if "reliability" in rows else ""
    return (
        f'<section><h2>Moments</h2><div class="strip" tabindex="0">{cards}</div><p>The picture, its depth (near is '
        f"bright) and the confidence in it, each stretched over the range below it.{reliable}</p></section>"
    )


def _card(moment: Moment, rows: list[str]) -> str:
    width, height = moment["size"].tolist()
    pictures: list[str] = []
    for name in rows:
        if name not in moment:
            pictures.append(f'<div class="none" style="aspect-ratio:{width}/{height}">no {name}</div>')
            continue
        url = data_url(moment[name].tobytes(), "image/jpeg")
        pictures.append(f'<img src="{url}" alt="{name}" loading="lazy" style="aspect-ratio:{width}/{height}">')
        low, high = moment.get(f"{name}_range", np.array([0.0, 1.0])).tolist()
        if name != "picture":
            pictures.append(f"<small>{name} {low:.2g} – {high:.2g}{' m' * (name == 'depth')}</small>")
    seconds = float(moment["timestamp"])
    when = "" if np.isnan(seconds) else f" <small>{seconds:,.2f} s</small>"
    return f"<figure><figcaption>{int(moment['index'])}{when}</figcaption>{''.join(pictures)}</figure>"


def _health(story: Story) -> str:
    """What the monitor said; of a stream that was well, that."""
    troubles = story.troubles
    if not troubles.unwell:
        return "<section><h2>Health</h2><p>Nothing was beyond its limit.</p></section>"
    counted = ", ".join(f"{escape(kind)} in {count:,}" for kind, count in sorted(troubles.unwell.items()))
    said = "".join(f"<li>Frame {index}: {escape(sentence)}</li>" for index, sentence in troubles.sentences)
    more = troubles.alarms - len(troubles.sentences)
    rest = f"<p>And {more:,} more.</p>" if more else ""
    return f"<section><h2>Health</h2><p>Frames beyond a limit: {counted}.</p><ul>{said}</ul>{rest}</section>"


def _charts(story: Story) -> str:
    curves = story.curves
    first = [
        _chart(curves, "confidence", "Confidence", "of the depth map: mean, and where 80 % of the pixels lie."),
        _chart(curves, "horizon", "Memory horizon", "frames until half of what the state holds is overwritten."),
    ]
    gates = [_chart(curves, name, *_EXPLAINED.get(name, (name, "")), after=" Mean, and 80 % of the tokens.")
             for name in curves.names if "." not in name and name not in ("confidence", "horizon")]  # fmt: skip
    sections = [("Over time", first), ("Gates", gates)]
    return "".join(
        f'<section><h2>{title}</h2><div class="charts">{"".join(charts)}</div></section>'
        for title, charts in sections
        if any(charts)
    )


def _chart(curves: Curves, name: str, title: str, says: str, after: str = "") -> str:
    if name not in curves.names:
        return ""
    banded = f"{name}.p10" in curves.names
    band = (curves.mean(f"{name}.p10"), curves.mean(f"{name}.p90")) if banded else None
    said = says + after if banded and after else says
    return Chart(title, said, curves.frames, curves.mean(name), band, counts=name == "horizon").html()


def _table(story: Story) -> str:
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in flattened(story.about)
    )
    return f"<section><h2>How it was made</h2><table>{rows}</table></section>" if rows else ""


def flattened(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    """`settings.rule`, as text, for what stands in tables within tables."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(cast("Mapping[str, object]", value), f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value)
