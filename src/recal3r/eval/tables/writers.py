"""Tables in the formats that people and programs read: a function each, from a table to a file's text."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from recal3r.eval.tables.grid import Grid, Word, grid_of
from recal3r.eval.tables.table import Table

Mark = Callable[[str], str]


def markdown(table: Table) -> str:
    """Both headings in one line, because Markdown has no more."""
    grid = grid_of(table)
    titles = [
        heading.title if heading.columns == ("ours",) else f"{heading.title}: {column}"
        for heading in grid.headings
        for column in heading.columns
    ]
    lines = [f"**{grid.caption}**", "", f"| | {' | '.join(titles)} |", "|---" + "|---:" * len(titles) + "|"]
    lines += [f"| {name} | {' | '.join(_markdown(word) for word in words)} |" for name, words in grid.rows]
    return "\n".join(lines) + "\n"


def _markdown(word: Word) -> str:
    return _marked(word, lambda text: f"**{text}**", lambda text: f"<u>{text}</u>")


def latex(table: Table) -> str:
    """A tabular for the package booktabs."""
    grid = grid_of(table)
    spans = [f"\\multicolumn{{{len(one.columns)}}}{{c}}{{{_tex(one.title)}}}" for one in grid.headings]
    columns = [_tex(column) for heading in grid.headings for column in heading.columns]
    lines = [
        f"% {grid.caption}",
        f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
        "\\toprule",
        f" & {' & '.join(spans)} \\\\",
        *_rules(grid),
        f" & {' & '.join(columns)} \\\\",
        "\\midrule",
        *(f"{_tex(name)} & {' & '.join(_latex(word) for word in words)} \\\\" for name, words in grid.rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _rules(grid: Grid) -> list[str]:
    """A line under each stream length."""
    found: list[str] = []
    start = 2
    for heading in grid.headings:
        end = start + len(heading.columns) - 1
        found.append(f"\\cmidrule(lr){{{start}-{end}}}")
        start = end + 1
    return found


def _latex(word: Word) -> str:
    text = _tex(word.text)
    if word.text[0] in "+-":
        text = f"${text}$"
    return _marked(word._replace(text=text), lambda text: f"\\textbf{{{text}}}", lambda text: f"\\underline{{{text}}}")


_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{"<": "$<$", "°": r"$^\circ$", "²": "$^2$", "³": "$^3$", "δ": r"$\delta$", "β": r"$\beta$", "–": "--"},
    }
)


def _tex(text: str) -> str:
    return text.translate(_TEX)


def html_table(table: Table) -> str:
    grid = grid_of(table)
    spans = "".join(f'<th colspan="{len(one.columns)}">{html.escape(one.title)}</th>' for one in grid.headings)
    columns = "".join(f"<th>{column}</th>" for heading in grid.headings for column in heading.columns)
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th>{''.join(f'<td>{_html(word)}</td>' for word in words)}</tr>\n"
        for name, words in grid.rows
    )
    caption = f"<caption>{html.escape(grid.caption)}</caption>"
    head = f"<thead><tr><th></th>{spans}</tr><tr><th></th>{columns}</tr></thead>"
    return f"<table>{caption}\n{head}\n<tbody>\n{rows}</tbody></table>\n"


def _html(word: Word) -> str:
    safe = word._replace(text=html.escape(word.text))
    return _marked(safe, lambda text: f"<b>{text}</b>", lambda text: f"<u>{text}</u>")


def _marked(word: Word, best: Mark, second: Mark) -> str:
    return {1: best, 2: second}.get(word.place or 0, str)(word.text)


COLUMNS = (
    *("protocol", "metric", "contestant", "frames", "mean", "low", "high", "sequences", "of", "place"),
    *("published", "difference"),
)


def comma_separated(table: Table) -> str:
    """One line a cell, every digit; what is not known is empty. low and high: the 95 % bootstrap interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, row in table.rows.items():
        for length, cell in row.items():
            mean, low, high, sequences, of = cell.ours
            place = table.places(length).get(name, "")
            frames = "all" if length is None else length
            known = [_exact(number) for number in (mean, low, high)]
            cited = [_exact(number) for number in (cell.published, cell.difference)]
            writer.writerow((table.protocol, table.measure.name, name, frames, *known, sequences, of, place, *cited))
    return text.getvalue()


def _exact(number: float) -> str:
    return repr(number) if math.isfinite(number) else ""


WRITERS: Mapping[str, Callable[[Table], str]] = MappingProxyType(
    {".md": markdown, ".csv": comma_separated, ".tex": latex, ".html": html_table}
)
"""By the suffix of the file."""
