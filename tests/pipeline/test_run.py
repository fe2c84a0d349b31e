"""Runs that end well, that are gone on with, and that end in one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.runs import content
from recal3r.errors import ConfigError, OutputError, SessionError, StreamError
from recal3r.model.load import load_model
from recal3r.pipeline.checkpoint import Checkpoints
from recal3r.pipeline.folder import RunFolder, differences
from recal3r.pipeline.outputs import OUTPUTS, names_of
from recal3r.pipeline.pipeline import Pipeline
from recal3r.pipeline.run import Run, Summary
from recal3r.pipeline.settings import Settings
from recal3r.sinks.base import Tee
from recal3r.sources.base import Source, SourceError
from recal3r.sources.raw import RawPipe
from recal3r.types import Prediction

FRAMES = 24


@pytest.fixture
def settings(pictures: Path, weights: Path, tmp_path: Path) -> Settings:
    return Settings(str(pictures), tmp_path / "out", write=("tum", "depth", "colmap"), weights=str(weights))


@pytest.fixture
def copied(pictures: Path, tmp_path: Path) -> Path:
    """Pictures that may be broken."""
    return Path(shutil.copytree(pictures, tmp_path / "copied"))


class Told:
    """Remembers what it was told, and raises where it is to."""

    def __init__(self, ends_after: int | None = None, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.ends_after, self.error = ends_after, error
        self.begun: list[tuple[int, int | None]] = []
        self.frames: list[int] = []

    def begin(self, source: Source, done: int, total: int | None) -> None:
        self.begun.append((done, total))

    def frame(self, prediction: Prediction) -> None:
        self.frames.append(prediction.index)
        if len(self.frames) == self.ends_after:
            raise self.error


def known(settings: Settings) -> dict:
    return json.loads((settings.output / "run.json").read_text())


def refused(settings: Settings, kind: type[Exception], match: str) -> str:
    """The notes of the one sentence it ends in."""
    with pytest.raises(kind, match=match) as caught:
        Run(settings)()
    assert "\n" not in str(caught.value)
    return " ".join(getattr(caught.value, "__notes__", []))


# -- runs that end well ----------------------------------------------------------------------------------------------


def test_a_folder_of_pictures(settings: Settings) -> None:
    told = Told()
    summary = Run(settings)(told)
    assert isinstance(summary, Summary)
    assert (summary.frames, summary.resumed_at, summary.was_complete) == (FRAMES, 0, False)
    assert told.begun == [(0, FRAMES)]
    assert told.frames == list(range(FRAMES))
    assert np.loadtxt(settings.output / "trajectory.tum.txt").shape == (FRAMES, 8)
    assert len(list((settings.output / "depth").glob("*.npz"))) == FRAMES
    assert not (settings.output / ".resume").exists()

    found = known(settings)
    assert (found["complete"], found["frames"]) == (True, FRAMES)
    assert found["settings"]["rule"].startswith("recal3r(beta_base=0.1, ")
    assert len(found["weights"]["sha256"]) == 64
    assert found["outputs"] == {"tum": "trajectory.tum.txt", "depth": "depth", "colmap": "colmap"}
    assert {"recal3r", "python", "torch", "numpy"} == found["versions"].keys()
    timings = json.loads((settings.output / "timings.json").read_text())
    assert timings["frames"] == FRAMES
    assert {"network", "sinks"} <= timings["stages"].keys()


def test_a_finished_run_is_left_alone(settings: Settings) -> None:
    Run(settings)()
    before = {path: path.stat().st_mtime_ns for path in settings.output.rglob("*")}
    summary = Run(settings)()
    assert (summary.was_complete, summary.frames) == (True, FRAMES)
    assert {path: path.stat().st_mtime_ns for path in settings.output.rglob("*")} == before
    assert not Run(replace(settings, overwrite=True))().was_complete


def test_only_what_sinks_need_is_computed(settings: Settings) -> None:
    model = load_model(settings.weights)
    for write, outputs in {
        ("tum",): {"pose"},
        ("tum", "depth"): {"pose", "depth", "confidence_camera"},
        ("images",): {"pose"},
        ("nerfstudio",): {"pose", "camera"},
        ("gates",): {"pose", "learning_rate"},
    }.items():
        run = Run(replace(settings, write=write))
        assert set(run._reconstructor(model, run._sinks(overwrite=False), None).outputs) == outputs


def test_frames_and_the_options_of_sources(settings: Settings) -> None:
    Run(replace(settings, frames=5, stride=2, start=3))()
    assert len(np.loadtxt(settings.output / "trajectory.tum.txt")) == 5
    assert "one in 2, frames 3 to the end" in known(settings)["source"]["description"]
    assert refused(replace(settings, rate=30.0), SourceError, "do not fit .*it takes stride, start") == ""


def test_clouds_are_filtered_as_they_are_asked_to_be(settings: Settings) -> None:
    points = {}
    for name, asked in {
        "all": {"least_confidence": 1.0},
        "sure": {"least_confidence": 4.0},
        "near": {"least_confidence": 1.0, "farthest": 0.5},
        "clean": {"least_confidence": 1.0, "drop_edges": True, "drop_sky": True},
        "few": {"least_confidence": 1.0, "cloud_points": 50},
    }.items():
        output = settings.output / name
        Run(replace(settings, write=("ply",), output=output, frames=4, **asked))()
        header = (output / "cloud.ply").read_bytes().partition(b"end_header")[0].decode()
        points[name] = int(header.partition("element vertex ")[2].split()[0])
    assert all(0 <= points[name] < points["all"] for name in ("sure", "near", "clean", "few"))
    assert 0 < points["few"] <= 50


# -- runs that are gone on with --------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 8, 23])
def test_an_interrupted_run_goes_on_where_it_was(settings: Settings, tmp_path: Path, frames: int) -> None:
    Run(settings)()
    interrupted = replace(settings, output=tmp_path / "interrupted", checkpoint_every=5)
    with pytest.raises(KeyboardInterrupt) as caught:
        Run(interrupted)(Told(ends_after=frames))
    assert f"{frames} frames are kept in {interrupted.output}; the same command goes on" in caught.value.__notes__[0]
    assert (known(interrupted)["complete"], known(interrupted)["ended"]) == (False, "interrupted")
    assert len(np.loadtxt(interrupted.output / "trajectory.tum.txt", ndmin=2)) == frames, "what was done is readable"

    told = Told()
    assert Run(interrupted)(told).resumed_at == frames
    assert told.begun == [(frames, FRAMES)], "not a frame was done twice"
    assert told.frames == list(range(frames, FRAMES))
    assert content(interrupted.output) == content(settings.output)


def test_a_crash_goes_on_from_the_last_checkpoint(settings: Settings, tmp_path: Path) -> None:
    Run(settings)()
    crashed = replace(settings, output=tmp_path / "crashed", checkpoint_every=5)
    with pytest.raises(ZeroDivisionError):
        Run(crashed)(Told(ends_after=13, error=ZeroDivisionError))
    assert Run(crashed)().resumed_at == 10
    assert content(crashed.output) == content(settings.output)


def test_what_has_changed_is_named(settings: Settings, weights: Path, copied: Path, tmp_path: Path) -> None:
    settings = replace(settings, source=str(copied))
    with pytest.raises(KeyboardInterrupt):
        Run(settings)(Told(ends_after=5))
    before = content(settings.output)
    for change, named in {
        "rule": ("cut3r", r"settings.rule was \"recal3r\(.*\" and is \"cut3r\(\)\""),
        "frames": (9, "settings.frames was null and is 9"),
        "stride": (2, "settings.source_options.stride was null and is 2"),
        "reset_interval": (9, "settings.reset_interval was null and is 9"),
        "write": (("tum",), r"settings.write was \[\"tum\", \"depth\", \"colmap\"\] and is \[\"tum\"\]"),
        "dtype": ("float64", "machine.dtype was"),
    }.items():
        asked, match = named
        refused(replace(settings, **{change: asked}), OutputError, match)
    other = tmp_path / "other.safetensors"
    content_of_other = bytearray(weights.read_bytes())
    content_of_other[-3] ^= 1
    other.write_bytes(content_of_other)
    refused(replace(settings, weights=str(other)), OutputError, "weights.sha256 was")
    (copied / "999.png").write_bytes((copied / "000.png").read_bytes())
    refused(settings, OutputError, "source.description was .*: 24 of 24.* and is .*: 25 of 25")
    assert content(settings.output) == before
    (copied / "999.png").unlink()
    assert Run(replace(settings, checkpoint_every=3))().resumed_at == 5, "how often it is noted may change"


def test_a_source_that_became_shorter(settings: Settings, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(settings, source=str(copied), skip_broken=True)
    with pytest.raises(KeyboardInterrupt):
        Run(settings)(Told(ends_after=20))
    for picture in sorted(copied.iterdir())[3:]:
        picture.write_bytes(b"")
    refused(settings, SourceError, "has 3 frames now, fewer than the 20 that were done")


def test_damage_is_one_sentence(settings: Settings) -> None:
    with pytest.raises(KeyboardInterrupt):
        Run(settings)(Told(ends_after=5))
    resume = settings.output / ".resume"
    index = resume / "checkpoint.json"
    whole = {path: path.read_bytes() for path in resume.iterdir()}
    for name, damage, match in (
        ("checkpoint.json", b"{", "checkpoint.json is damaged; begin anew with --no-resume --overwrite"),
        ("checkpoint.json", whole[index].replace(b'"format_version": 1', b'"format_version": 9'), "is of format 9"),
        ("session-000000005.safetensors", b"x" * 100, "is not what was saved there"),
        ("sinks-000000005.safetensors", b"", "is not what was saved there"),
    ):
        (resume / name).write_bytes(damage)
        refused(settings, SessionError, match)
        (resume / name).write_bytes(whole[resume / name])
    (settings.output / "trajectory.tum.txt").write_text("short")
    refused(settings, OutputError, "trajectory.tum.txt holds 5 bytes, fewer than")
    assert Run(replace(settings, resume=False, overwrite=True))().resumed_at == 0


# -- folders ---------------------------------------------------------------------------------------------------------


def test_what_others_wrote_stays(settings: Settings) -> None:
    (settings.output / "depth").mkdir(parents=True)
    mine = {"mine.txt": "mine", "depth/mine.png": "mine", "trajectory.tum.txt": "mine"}
    for name, text in mine.items():
        (settings.output / name).write_text(text)
    refused(settings, OutputError, "out holds files already; name a new one, or add --overwrite")
    assert {name: (settings.output / name).read_text() for name in mine} == mine

    Run(replace(settings, overwrite=True))()
    assert (settings.output / "mine.txt").read_text() == "mine"
    assert (settings.output / "depth" / "mine.png").read_text() == "mine"
    assert (settings.output / "trajectory.tum.txt").read_text() != "mine"
    refused(replace(settings, rule="cut3r"), OutputError, "holds a finished run already; name a new one")
    assert known(settings)["settings"]["rule"].startswith("recal3r(")


def test_a_folder_cannot_be_made(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "out"):
        refused(replace(settings, output=output), OutputError, "cannot be made .*; name another")


def test_two_runs_do_not_write_to_one_folder(settings: Settings) -> None:
    folder = RunFolder(settings.output)
    folder.make()
    with folder.ours_alone():
        refused(settings, OutputError, "Another run is writing to .*out; wait for it, or name another folder")
    assert Run(settings)().frames == FRAMES


def test_nothing_is_made_where_there_is_nothing_to_do(settings: Settings, tmp_path: Path) -> None:
    for change, kind in (
        ({"source": "nothing"}, SourceError),
        ({"rule": "none"}, Exception),
        ({"weights": "none"}, Exception),
    ):
        with pytest.raises(kind):
            Run(replace(settings, **change))()
    assert not settings.output.exists()


def test_settings_that_make_no_sense() -> None:
    for change, match in (
        ({"frames": 0}, "frames=0 is nothing to run with"),
        ({"checkpoint_every": 0}, "checkpoint_every=0"),
        ({"write": ("colmap", "colmap-text")}, "the same folder; write one of them"),
    ):
        with pytest.raises(ConfigError, match=match):
            Settings("source", Path("out"), **change)
    with pytest.raises(OutputError, match="no output named 'nothing'; there are tum, kitti"):
        names_of("tum,nothing")
    with pytest.raises(OutputError, match="No output is named; there are"):
        names_of(" , ")
    assert names_of("ply, tum,tum") == ("tum", "ply")


def test_differences_name_every_entry() -> None:
    assert differences({"a": {"b": 1, "c": None}}, {"a": {"b": 2}}) == ["a.b was 1 and is 2"]
    assert differences({}, {"a": {"b": 2}, "c": 3}) == ["a.b was null and is 2", "c was null and is 3"]
    assert differences({"a": [1]}, {"a": [1]}) == []


# -- broken streams --------------------------------------------------------------------------------------------------


def test_one_broken_picture(settings: Settings, copied: Path, pictures: Path, tmp_path: Path) -> None:
    """Says which, keeps what came before, and goes on when it was replaced."""
    Run(settings)()
    broken = copied / "010.png"
    broken.write_bytes(broken.read_bytes()[:60])
    asked = replace(settings, source=str(copied), output=tmp_path / "broken")
    notes = refused(asked, SourceError, r"010.png cannot be read as a picture .*; replace it, or leave it out")
    assert notes == f"10 frames are kept in {asked.output}; the same command goes on from there."
    assert len(np.loadtxt(asked.output / "trajectory.tum.txt")) == 10
    assert "010.png" in known(asked)["ended"]

    shutil.copyfile(pictures / "010.png", broken)
    assert Run(asked)().resumed_at == 10
    whole, found = content(settings.output), content(asked.output)
    whole.pop("run.json"), found.pop("run.json")  # which name the folders of pictures
    assert found == whole


def test_a_broken_picture_is_left_out_where_that_is_asked_for(settings: Settings, copied: Path) -> None:
    for name in ("003.png", "017.png"):
        (copied / name).write_bytes(b"broken")
    summary = Run(replace(settings, source=str(copied), skip_broken=True))()
    assert (summary.frames, (summary.left_out or {})["count"]) == (22, 2)
    left_out = known(settings)["left_out"]
    assert left_out["count"] == 2
    assert "003.png" in left_out["sentences"][0]


def test_a_stream_without_a_picture(settings: Settings, copied: Path) -> None:
    for path in copied.iterdir():
        path.write_bytes(b"broken")
    notes = refused(replace(settings, source=str(copied)), SourceError, "000.png cannot be read")
    assert notes == ""


def test_a_live_stream_has_no_checkpoints(settings: Settings, weights: Path, tmp_path: Path) -> None:
    with (tmp_path / "raw").open("w+b") as pipe:
        pipe.write(bytes(64 * 48 * 3) * 4 + b"cut")
        pipe.seek(0)
        model = load_model(weights)
        run = Run(settings)
        sinks = Tee(OUTPUTS["tum"].open(tmp_path, {}, overwrite=False))
        source = RawPipe(64, 48, 10.0, pipe)
        with pytest.raises(StreamError, match="cannot be read again"):
            Pipeline(source, run._reconstructor(model, sinks, None), sinks, checkpoints=Checkpoints(tmp_path))
        pipeline = Pipeline(source, run._reconstructor(model, sinks, None), sinks)
        with pytest.raises(SourceError, match="3 bytes into a frame"), sinks:
            pipeline.run()
    assert pipeline.done == pipeline.written == 4
    assert len(np.loadtxt(tmp_path / "trajectory.tum.txt")) == 4


def test_a_live_stream_that_was_not_there_is_tried_again(settings: Settings) -> None:
    """Nothing was kept that could be lost; but a live run that was killed is not written over."""
    asked = replace(settings, source="http://127.0.0.1:9/a.mp4", write=("tum",))
    for _ in range(2):
        refused(asked, SourceError, "cannot be opened as a video")
    refused(replace(asked, rule="cut3r"), OutputError, "holds files already; name a new one")
    content_of_run = known(asked)
    del content_of_run["ended"]
    (asked.output / "run.json").write_text(json.dumps(content_of_run))
    refused(asked, OutputError, "holds files already; name a new one")


def test_ctrl_c_is_how_a_live_stream_ends(settings: Settings, weights: Path, tmp_path: Path) -> None:
    with (tmp_path / "raw").open("w+b") as pipe:
        pipe.write(bytes(64 * 48 * 3) * 4)
        pipe.seek(0)
        sinks = Tee(OUTPUTS["tum"].open(tmp_path, {}, overwrite=False))
        reconstructor = Run(settings)._reconstructor(load_model(weights), sinks, None)
        pipeline = Pipeline(RawPipe(64, 48, 10.0, pipe), reconstructor, sinks)
        with sinks:
            pipeline.run(Told(ends_after=3).frame)
    assert pipeline.done == pipeline.written == 3
    assert len(np.loadtxt(tmp_path / "trajectory.tum.txt")) == 3


@pytest.mark.parametrize("at", [0, 3])
def test_an_error_of_a_sink_ends_the_run(settings: Settings, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """It is raised where frames are pushed, and what was written before is kept."""
    write = raising_at(at)
    monkeypatch.setattr("recal3r.sinks.depth.DepthSink.write", write)
    notes = refused(settings, OutputError, "the disk is full")
    assert notes == (f"{at} frames are kept in {settings.output}; the same command begins again." if at else "")
    monkeypatch.undo()
    assert Run(settings)().frames == FRAMES


def raising_at(at: int) -> Callable[..., None]:
    def write(self: object, prediction: Prediction, image: object = None) -> None:
        if prediction.index == at:
            raise OutputError("the disk is full")

    return write
