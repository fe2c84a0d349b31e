"""A table as words, laid out: what all formats that people read have in common."""

from __future__ import annotations

import math
from typing import NamedTuple

from recal3r.eval.tables.table import Cell, Length, Table


class Word(NamedTuple):
    text: str
    place: int | None = None
    """1: the best of its column; 2: the second."""


class Heading(NamedTuple):
    """A stream length, and the columns below it."""

    title: str
    columns: tuple[str, ...]


class Grid(NamedTuple):
    caption: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, tuple[Word, ...]], ...]


def grid_of(table: Table) -> Grid:
    arrow = "higher" if table.measure.higher_is_better else "lower"
    headings = tuple(Heading(_frames(length), _columns(table, length)) for length in table.lengths)
    rows = tuple((name, _row(table, name)) for name in table.rows)
    return Grid(f"{table.protocol}: {table.measure.label}, {arrow} is better", headings, rows)


def _frames(length: Length) -> str:
    return "all frames" if length is None else f"{length} frames"


def _columns(table: Table, length: Length) -> tuple[str, ...]:
    return ("ours", "paper", "difference") if table.cites(length) else ("ours",)


def _row(table: Table, name: str) -> tuple[Word, ...]:
    words: list[Word] = []
    for length in table.lengths:
        cell, digits = table.rows[name][length], table.measure.digits
        words.append(Word(_ours(cell, digits), table.places(length).get(name)))
        if table.cites(length):
            words.append(Word(_number(cell.published, digits), table.published_places(length).get(name)))
            words.append(Word(_number(cell.difference, digits, sign="+")))
    return tuple(words)


def _ours(cell: Cell, digits: int) -> str:
    number = _number(cell.ours.mean, digits)
    return number if cell.whole else f"{number} ({cell.ours.scenes} of {cell.ours.of})"


def _number(value: float, digits: int, sign: str = "") -> str:
    return f"{value:{sign}.{digits}f}" if math.isfinite(value) else "–"
