"""A folder of results as a report: tables in four formats, figures in two, and a page of both in Markdown and HTML."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from recal3r.eval.compare import Difference, as_csv, as_markdown, within
from recal3r.eval.contestants import slug
from recal3r.eval.findings import Findings, longest, read_findings
from recal3r.eval.results import Result
from recal3r.eval.sweep.roll import read_rolls
from recal3r.eval.sweep.run import SPEED, TRAJECTORIES
from recal3r.eval.tables import WRITERS, tables_of
from recal3r.eval.tables.writers import html_table, markdown
from recal3r.eval.walks import read_walk

_LISTED = 20  # sequences that failed, before "and so many more"
_ENOUGH = 5  # sequences, of which a bootstrap can say anything


class Piece(NamedTuple):
    """A part of the page, in both languages."""

    markdown: str
    html: str


def write_report(folder: Path, said: Callable[[str], None] = lambda _: None) -> None:
    """Of every sweep in the folder: `report.md`, `report.html`, `tables/`, `figures/`."""
    rolls = read_rolls(folder)
    pieces: list[Piece] = []
    for roll in rolls:
        findings = read_findings(folder, roll)
        pieces += [
            _heading(roll.title, 1),
            _about(findings),
            *_tables(findings, folder),
            *_told_apart(findings, folder),
        ]
        pieces += [*_figures(findings, folder), *_failures(findings), *_shorter(findings)]
    (folder / "report.md").write_text("\n".join(piece.markdown for piece in pieces), encoding="utf-8")
    body = "\n".join(piece.html for piece in pieces)
    title = html.escape(", ".join(roll.title for roll in rolls))
    (folder / "report.html").write_text(_PAGE.format(title=title, body=body), encoding="utf-8")
    said(f"written to {folder}: report.md, report.html, tables/ (.md .csv .tex .html), figures/ (.png .svg)")


def _about(findings: Findings) -> Piece:
    roll = findings.roll
    lines = [f"network {roll.weights[:12]}"]
    lines += [f"{one.protocol}: {len(one.sequences)} sequences, protocol {one.hash[:12]}" for one in roll.asked]
    lines += [
        "bold: the best of a column; underlined: the second; a mean over fewer sequences than were asked takes no part",
    ]
    return _list(lines)


def _tables(findings: Findings, folder: Path) -> list[Piece]:
    pieces = [_heading("Tables", 2)]
    (folder / "tables").mkdir(exist_ok=True)
    for table in tables_of(findings):
        name = f"{slug(findings.roll.name)}-{slug(table.protocol)}-{table.measure.name}"
        for suffix, write in WRITERS.items():
            (folder / "tables" / f"{name}{suffix}").write_text(write(table), encoding="utf-8")
        pieces.append(Piece(markdown(table), html_table(table)))
    return pieces


def _told_apart(findings: Findings, folder: Path) -> list[Piece]:
    """Who differs from the first contestant at the longest stream, because the best of a column may be so by chance."""
    roll = findings.roll
    first, length = roll.contestants[0], longest(roll.lengths)
    differences = within(findings, first, length)
    if not differences:
        return []
    name = f"{slug(roll.name)}-against-{slug(first)}"
    for suffix, write in ((".md", as_markdown), (".csv", as_csv)):
        (folder / "tables" / f"{name}{suffix}").write_text(write(differences), encoding="utf-8")
    lines = [f"every number with its interval: tables/{name}.md"]
    for asked in roll.asked:
        for measure in findings.measures(asked):
            these = [one for one in differences if (one.protocol, one.measure) == (asked.protocol, measure)]
            lines.append(f"{asked.protocol}, {measure.label}: {_verdicts(these)}")
    frames = "all" if length is None else length
    return [_heading(f"Paired by sequence against {first}, {frames} frames, 95 % intervals", 2), _list(lines)]


def _verdicts(differences: list[Difference]) -> str:
    paired = max(one.difference.scenes for one in differences)
    if paired < _ENOUGH:
        return f"{paired} sequences are too few to tell anything apart"
    words = (("second is better", "better"), ("first is better", "worse"), ("cannot be told apart", "not told apart"))
    who = {word: [one.second for one in differences if one.verdict == verdict] for verdict, word in words}
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in who.items() if names)


def _figures(findings: Findings, folder: Path) -> list[Piece]:
    from recal3r.eval import figures  # noqa: PLC0415  # matplotlib is heavy

    name, pieces = slug(findings.roll.name), [_heading("Figures", 2)]

    def add(figure: figures.Figure | None, *parts: str) -> None:
        if figure is not None:
            path = Path("figures", "-".join((name, *map(slug, parts))))
            figures.save(figure, folder / path)
            pieces.append(_picture(path, " ".join(parts)))

    for group in findings.roll.groups:
        for asked in findings.roll.asked:
            add(figures.metric_over_length(findings, asked, group), asked.protocol, group.name, "over length")
    for asked in findings.roll.asked:
        for group in findings.roll.groups if _any_walk(findings, asked.protocol, folder) else ():
            above = figures.paths_from_above(findings, asked, group, folder / TRAJECTORIES)
            add(above, asked.protocol, group.name, "from above")
    paces = figures.read_paces(folder / SPEED, findings.roll.contestants)
    if paces:
        add(figures.speed_and_memory(paces), "speed and memory")
    return pieces if len(pieces) > 1 else []


def _any_walk(findings: Findings, protocol: str, folder: Path) -> bool:
    return any(
        read_walk(folder / TRAJECTORIES, protocol, one.contestant, one.length, one.sequence)
        for one in findings.everything()
        if one.protocol == protocol and one.error is None
    )


def _failures(findings: Findings) -> list[Piece]:
    found = findings.failures()
    if not found:
        return []
    lines = [f"{_place(one)}: {one.error}" for one in found]
    return [_heading(f"{len(found)} results are missing, and no mean has a number in their place", 2), _some(lines)]


def _shorter(findings: Findings) -> list[Piece]:
    found = findings.shorter()
    if not found:
        return []
    lines = sorted({f"{one.sequence}: {len(one.frames)} of {one.length} frames ({one.protocol})" for one in found})
    return [_heading("Sequences that have fewer frames than were asked for", 2), _some(lines)]


def _place(result: Result) -> str:
    frames = "all" if result.length is None else result.length
    return f"{result.protocol}, {result.contestant}, {frames} frames, {result.sequence}"


# -- two languages ---------------------------------------------------------------------------------------------------


def _heading(text: str, level: int) -> Piece:
    return Piece(f"{'#' * level} {text}\n", f"<h{level}>{html.escape(text)}</h{level}>")


def _some(lines: list[str]) -> Piece:
    more = [f"and {len(lines) - _LISTED} more: see the files in results/"] if len(lines) > _LISTED else []
    return _list(lines[:_LISTED] + more)


def _list(lines: list[str]) -> Piece:
    items = "".join(f"<li>{html.escape(line)}</li>\n" for line in lines)
    return Piece("".join(f"- {line}\n" for line in lines), f"<ul>\n{items}</ul>")


def _picture(path: Path, text: str) -> Piece:
    png, svg = (path.with_name(f"{path.name}{suffix}").as_posix() for suffix in (".png", ".svg"))
    return Piece(f"![{text}]({png})\n", f'<p><img src="{svg}" alt="{html.escape(text)}"></p>')


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums; font-size: 13px }}
caption {{ text-align: left; font-weight: 600; padding: .3rem 0 }}
th, td {{ padding: .15rem .6rem; text-align: right; white-space: nowrap }}
tbody th {{ text-align: left; font-weight: 400 }}
thead tr:last-child th {{ border-bottom: 1px solid #888; font-weight: 400 }}
tbody tr:nth-child(even) {{ background: #f6f6f6 }}
img {{ max-width: 100% }}
</style></head><body>
{body}
</body></html>
"""
