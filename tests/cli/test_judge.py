"""What the shipped network has learned, and that the words of the command fit its numbers."""

from __future__ import annotations

import pytest

from recal3r.cli.main import main


def test_the_shipped_network_knows_depth_and_needs_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "tiny", "--rooms", "6"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("6 rooms of the test split")
    found = [(float(line.split()[0]), line.split(maxsplit=1)[1]) for line in lines]
    figures = {meaning.split(",")[0]: number for number, meaning in found}
    assert figures["δ < 1.25 of the same"] > 0.8
    assert figures["translation over frames 2 to 8"] < 0.7
    ate, reset, line = (number for number, _ in found[4:7])
    assert ate < 0.85 * reset
    assert ate < line


def test_no_rooms_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "--rooms", "0"]) == 1
    assert "ask for 1 or more" in capsys.readouterr().err
