"""Two folders of results, sequence by sequence: what changed, and whether that can be told from chance."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recal3r.errors import EvalError
from recal3r.eval.bootstrap import Interval, bootstrap
from recal3r.eval.findings import Findings, read_findings
from recal3r.eval.results import Result, read_results
from recal3r.eval.sweep.roll import read_rolls
from recal3r.eval.tasks import TASKS, Measure

Key = tuple[str, int | None, str]
"""protocol, length, sequence"""


class Difference(NamedTuple):
    """The second minus the first: its mean over sequences that both have, and the 95 % interval of that mean."""

    protocol: str
    length: int | None
    first: str
    second: str
    """Contestants."""
    measure: Measure
    difference: Interval

    @property
    def verdict(self) -> str:
        low, high = self.difference.low, self.difference.high
        if not self.difference.scenes:
            return "no pair"
        if not (low > 0 or high < 0):
            return "cannot be told apart"
        return "second is better" if (low > 0) == self.measure.higher_is_better else "first is better"


def compare(first: Path, second: Path, contestants: Sequence[str] = ()) -> list[Difference]:
    """Contestants of one name, each with itself; or the one named first there with the one named second here.

    The folders may be one and the same.
    """
    if len(contestants) not in (0, 2):
        raise EvalError(f"{len(contestants)} contestants were named; name two, one of each folder, or none.")
    ours, theirs = _by_contestant(first), _by_contestant(second)
    both = [(name, name) for name in ours if name in theirs]
    pairs = both if not contestants else [(contestants[0], contestants[1])]
    for name, there, folder in (
        (pair[k], side, f) for pair in pairs for k, side, f in ((0, ours, first), (1, theirs, second))
    ):
        if name not in there:
            raise EvalError(f"{folder} has no results of {name!r}; it has {', '.join(there)}.")
    found = [one for pair in pairs for one in _differences(pair, ours[pair[0]], theirs[pair[1]])]
    if not found:
        raise EvalError(f"{first} and {second} have no protocol, length and contestant in common; compare what has.")
    return found


def within(findings: Findings, first: str, length: int | None) -> list[Difference]:
    """Every other contestant of a sweep against the first, by every metric the sweep shows."""
    found: list[Difference] = []
    for asked in findings.roll.asked:
        for second in findings.roll.contestants:
            pairs = list(zip(findings.of(asked, first, length), findings.of(asked, second, length), strict=True))
            if second != first:
                found += [
                    Difference(asked.protocol, length, first, second, measure, _difference(pairs, measure.name))
                    for measure in findings.measures(asked)
                ]
    return found


def _by_contestant(folder: Path) -> dict[str, dict[Key, Result]]:
    found: dict[str, dict[Key, Result]] = {}
    for one in _asked_for(folder):
        found.setdefault(one.contestant, {})[(one.protocol, one.length, one.sequence)] = one
    return found


def _asked_for(folder: Path) -> list[Result]:
    """All results of a folder, and those that its sweeps have not reached."""
    findings: list[Findings] = [read_findings(folder, roll) for roll in read_rolls(folder)]
    return [*(one for part in findings for one in part.everything()), *read_results(folder)]


def _differences(names: tuple[str, str], first: dict[Key, Result], second: dict[Key, Result]) -> list[Difference]:
    cells = dict.fromkeys((protocol, length) for protocol, length, _ in first)
    found: list[Difference] = []
    for protocol, length in cells:
        sequences = sorted({key[2] for key in (*first, *second) if key[:2] == (protocol, length)})
        keys: list[Key] = [(protocol, length, sequence) for sequence in sequences]
        if not any(key in second for key in keys):
            continue
        pairs = [(first.get(key), second.get(key)) for key in keys]
        for one, other in pairs:
            _require_alike(one, other)
        found += [
            Difference(protocol, length, *names, measure, _difference(pairs, measure.name))
            for measure in _measures(pairs)
        ]
    return found


def _require_alike(one: Result | None, other: Result | None) -> None:
    if one is None or other is None or one.error is not None or other.error is not None:
        return  # no pair: it is counted
    if one.settings["protocol_hash"] != other.settings["protocol_hash"] or one.frames != other.frames:
        raise EvalError(
            f"{one.sequence} was measured on other frames or by another protocol in the two folders, though both call "
            f"it {one.protocol}; evaluate both alike."
        )


def _measures(pairs: Sequence[tuple[Result | None, Result | None]]) -> Sequence[Measure]:
    kinds = [one.settings["protocol"]["task"]["kind"] for pair in pairs for one in pair if one and one.settings]
    return TASKS[kinds[0]].metrics if kinds else ()


def _difference(pairs: Sequence[tuple[Result | None, Result | None]], metric: str) -> Interval:
    """A sequence that failed on either side makes no pair, and the mean says of how many it is."""
    values = [
        np.nan if one is None or other is None else other.value(metric) - one.value(metric) for one, other in pairs
    ]
    weights = [1.0 if one is None else one.weight for one, _ in pairs]
    return bootstrap(np.array(values, np.float64), np.array(weights, np.float64))


# -- as text ---------------------------------------------------------------------------------------------------------


def as_markdown(differences: Sequence[Difference]) -> str:
    lines = [
        "| protocol | frames | contestants | metric | second − first | sequences | |",
        "|---|---:|---|---|---:|---:|---|",
    ]
    for one in differences:
        mean, low, high, sequences, of = one.difference
        digits = one.measure.digits + 1
        numbers = f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})" if sequences else "–"
        names = one.first if one.first == one.second else f"{one.first} → {one.second}"
        frames = "all" if one.length is None else one.length
        words = (one.protocol, frames, names, one.measure.label, numbers, f"{sequences} of {of}", one.verdict)
        lines.append(f"| {' | '.join(map(str, words))} |")
    return "\n".join(lines) + "\n"


def as_csv(differences: Sequence[Difference]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = (
        "protocol",
        "frames",
        "first",
        "second",
        "metric",
        "difference",
        "low",
        "high",
        "sequences",
        "of",
        "verdict",
    )
    writer.writerow(columns)
    for one in differences:
        mean, low, high, sequences, of = one.difference
        numbers = [repr(number) if sequences else "" for number in (mean, low, high)]
        frames = "all" if one.length is None else one.length
        row = (one.protocol, frames, one.first, one.second, one.measure.name, *numbers, sequences, of, one.verdict)
        writer.writerow(row)
    return text.getvalue()
