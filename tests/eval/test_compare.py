"""Two folders of results, paired by sequence."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest

from eval.made_up import folder_of, result, some_results, without
from recal3r.cli.main import main
from recal3r.errors import EvalError
from recal3r.eval.compare import Difference, as_csv, as_markdown, compare
from recal3r.eval.contestants import called

FIRST = {"cut3r": 0.150, "recal3r": 0.030}


def by_metric(differences: list[Difference], contestant: str) -> dict[str, Difference]:
    return {one.measure.name: one for one in differences if one.second == contestant}


def test_a_small_gain_on_every_sequence_is_told_apart(tmp_path: Path) -> None:
    """Sequences differ by more than the gain, so only pairs can show it."""
    names = tuple(f"scene-{k}" for k in range(12))
    folders = []
    for gain, where in ((0.0, "a"), (0.01, "b")):
        results = [
            result(one, 300, name, {"acc": 0.1 * (k + 1) - gain + 0.001 * (k % 3), "nc": 0.6 + gain, "comp": 0.03})
            for k, name in enumerate(names)
            for one in called("recal3r")
        ]
        folders.append(folder_of(tmp_path / where, results, names=names))
    found = by_metric(compare(*folders), "recal3r")
    assert found["acc"].difference.mean == pytest.approx(-0.01)
    assert found["acc"].difference.high < 0
    assert found["acc"].verdict == "second is better"
    assert found["nc"].verdict == "second is better"
    assert found["comp"].verdict == "cannot be told apart"
    assert by_metric(compare(folders[1], folders[0]), "recal3r")["acc"].verdict == "first is better"


def test_a_sequence_that_failed_on_one_side_makes_no_pair(tmp_path: Path) -> None:
    first = folder_of(tmp_path / "a", some_results(FIRST))
    broken = without(some_results(FIRST), "fire/seq-03", "recal3r", "broken")
    second = folder_of(tmp_path / "b", broken[:-1])  # and the last one was not reached
    found = by_metric(compare(first, second), "recal3r")["acc"].difference
    assert (found.scenes, found.of) == (1, 3)
    assert found.mean == 0
    text = as_markdown(compare(first, second))
    assert "1 of 3" in text
    assert "no pair" in as_csv(compare(first, second)), "acc_median was never measured"


def test_two_contestants_of_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, some_results(FIRST))
    table = tmp_path / "differences.csv"
    arguments = ["eval", "compare", str(folder), str(folder), "--contestants", "cut3r", "recal3r", "--csv", str(table)]
    assert main(arguments) == 0
    assert "| cut3r → recal3r | Acc (m) | -0.1200 (-0.1200 to -0.1200) | 3 of 3 | second is better |" in (
        capsys.readouterr().out
    )
    rows = {row["metric"]: row for row in csv.DictReader(table.read_text().splitlines())}
    assert float(rows["acc"]["difference"]) == pytest.approx(-0.12)


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    first = folder_of(tmp_path / "a", some_results(FIRST))
    other_frames = [dataclasses.replace(one, frames=("0",)) for one in some_results(FIRST)]
    with pytest.raises(EvalError, match="other frames or by another protocol"):
        compare(first, folder_of(tmp_path / "b", other_frames))
    with pytest.raises(EvalError, match="in common"):
        compare(first, folder_of(tmp_path / "c", some_results({"ttt3r": 0.1})))
    with pytest.raises(EvalError, match="has no results of 'ttt3r'; it has cut3r, recal3r"):
        compare(first, first, ("ttt3r", "cut3r"))
    with pytest.raises(EvalError, match="name two"):
        compare(first, first, ("cut3r",))
    with pytest.raises(EvalError, match="holds no sweep"):
        compare(first, tmp_path / "nothing")
