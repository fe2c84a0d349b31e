"""What is wrong with a stream reaches people: the log, the run's files, the report, the lines of JSON."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import recal3r
from data.seeded import seeded_frames
from networks import MINI, seeded_network
from pipeline.runs import EVERYTHING, command
from recal3r.cli.main import main
from recal3r.errors import StreamError
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.decoder import Decoder
from recal3r.pipeline.run import Run
from recal3r.pipeline.settings import Settings

HURT = 4  # the frame for which the network gives NaN
FRAMES = 9


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("given")
    (folder / "pictures").mkdir()
    for number, frame in enumerate(seeded_frames(FRAMES, 48, 64)):
        Image.fromarray(frame).save(folder / "pictures" / f"{number:03d}.png")
    model = seeded_network("mini-linear")
    write_safetensors(folder / "mini.safetensors", Cut3rConfig(**MINI, head="linear"), model.official_state_dict())
    return folder / "pictures", folder / "mini.safetensors"


@pytest.fixture
def hurt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network gives NaN for one frame: to the state, and for its pose."""
    forward, calls = Decoder.forward, iter(range(1000))

    def hurts(*arguments, **named):
        decoded = forward(*arguments, **named)
        if next(calls) == HURT:
            return decoded._replace(candidate=decoded.candidate * np.nan, pose=decoded.pose * np.nan)
        return decoded

    monkeypatch.setattr(Decoder, "forward", hurts)


@pytest.mark.usefixtures("hurt")
def test_one_frame_without_numbers(
    given: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every sink ends well, holds the other frames and nothing of that one; all say so who are to."""
    output = tmp_path / "out"
    with caplog.at_level(logging.WARNING, "recal3r.health"):
        assert main([*command(given[0], output, given[1], "--write", EVERYTHING, "--json")]) == 0
    told = capsys.readouterr()

    assert [record.message for record in caplog.records if "NaN" in record.message] == [
        f"frame {HURT}: The network gave NaN or infinity for this frame: nothing of it was written into the state."
    ]
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert [line["health"]["finite"] for line in lines[:-1]] == [t != HURT for t in range(FRAMES)]
    assert lines[HURT]["T_world_camera"] is lines[HURT]["intrinsics"] is None
    assert lines[-1]["unwell"]["numbers"] == 1
    assert "numbers in 1" in told.err

    known = json.loads((output / "run.json").read_text())
    assert known["health"]["unwell"]["numbers"] == known["health"]["alarms"]["numbers"] == 1
    rows = [json.loads(line) for line in (output / "health.jsonl").read_text().splitlines()]
    assert [row["frame"] for row in rows if not row["finite"]] == [HURT]
    page = (output / "report.html").read_text()
    assert "Health" in page
    assert f"Frame {HURT}: The network gave NaN" in page

    kept = [t for t in range(FRAMES) if t != HURT]
    trajectory = np.loadtxt(output / "trajectory.tum.txt")
    assert trajectory[:, 0].tolist() == kept
    assert np.isfinite(trajectory).all()
    assert len(list((output / "depth").glob("*.npz"))) == len(kept)
    transforms = json.loads((output / "transforms.json").read_text(), parse_constant=pytest.fail)
    assert len(transforms["frames"]) == len(kept)


def test_limits_of_a_run_are_options(given: tuple[Path, Path], tmp_path: Path) -> None:
    settings = Settings(
        str(given[0]), tmp_path / "out", write=("health",), weights=str(given[1]), rule="constant(rate=0)"
    )

    def unwell(name: str, health: str) -> dict:
        output = tmp_path / name
        return dict(Run(Settings(**{**vars(settings), "output": output, "health": health}))().unwell)

    assert unwell("strict", "patience=3,turn=181,jump=1e9")["frozen"] == FRAMES - 1 - 2
    assert unwell("patient", "turn=181") == {}
    assert unwell("none", "none") == {}
    for wrong, match in {"height=3": "no health limit named 'height'", "drift": "'drift' is no health limit"}.items():
        with pytest.raises(StreamError, match=match):
            unwell("wrong", wrong)


def test_the_log_does_not_fill_up(mini: recal3r.Cut3r, caplog: pytest.LogCaptureFixture) -> None:
    """A camera that turns round with every frame is said after 1, 2, 4, 8... of them."""
    run = recal3r.Reconstructor(mini, size=None, outputs=("pose",), health="turn=0.001,patience=1")
    with caplog.at_level(logging.WARNING, "recal3r.health"):
        for frame in seeded_frames(40, 48, 64):
            run.push(frame)
            run.session.places[0].past = recal3r.engine.health.replace(run.session.places[0].past, beyond={})
    said = [record.message for record in caplog.records if "turned" in record.message]
    assert len(said) == 6
    assert "(32 times so far)" in said[-1]
