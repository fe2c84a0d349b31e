"""What is broken, full or closed: one sentence that names it and what was kept, and that is there to be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from plyfile import PlyData

from data.seeded import seeded_frames
from pipeline.runs import ONE_THREAD, command, recal3r
from recal3r.cli.main import main
from sources.footage import cut_off, write_video


def ends(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """The sentence that the program ends in, and its notes."""
    assert main([*map(str, arguments)]) == 1
    said = capsys.readouterr().err.splitlines()
    at = next(place for place, line in enumerate(said) if line.startswith("recal3r: "))
    assert not any("Traceback" in line for line in said)
    return said[at:]


def kept(out: Path, sentence: str, begun: int = 0) -> int:
    """How many frames are, by what is said and by what can be read. `begun`: frames that some sinks already had."""
    frames = int(sentence.split(" frames are kept in ", maxsplit=1)[0])
    assert str(out) in sentence
    assert np.loadtxt(out / "trajectory.tum.txt", ndmin=2).shape in {(frames, 8), (frames + begun, 8)}
    for number in range(frames):
        assert np.asarray(Image.open(out / "depth" / f"{number:06d}.png")).dtype == np.uint16
        with np.load(out / "depth" / f"{number:06d}.npz") as arrays:
            assert np.isfinite(arrays["depth"]).all()
    return frames


def test_a_video_that_is_cut_off(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = write_video(tmp_path / "clip.mp4", 60, movflags="faststart")
    video, out = cut_off(whole, 0.5), tmp_path / "out"
    sentence, notes = ends(capsys, *command(video, out, weights, "--write", "tum,depth,ply", "--least-confidence", 1))
    frames = kept(out, notes)
    assert 10 < frames < 50
    assert f"{video} is damaged after {frames} frames, which were read" in sentence
    assert PlyData.read(str(out / "cloud.ply"))["vertex"].count > 0


def test_files_that_are_no_videos(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, text = tmp_path / "empty.mp4", tmp_path / "text.mp4"
    empty.touch()
    text.write_text("These are words.\n" * 100)
    for video, why in ((empty, "is empty (0 bytes)"), (text, "cannot be opened as a video")):
        (sentence,) = ends(capsys, *command(video, tmp_path / "out", weights))
        assert f"{video} {why}" in sentence
    assert not (tmp_path / "out").exists()


def test_one_broken_picture_in_a_hundred(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "pictures", tmp_path / "out"
    folder.mkdir()
    for number, frame in enumerate(seeded_frames(100, 48, 64)):
        Image.fromarray(frame).save(folder / f"{number}.png")
    broken = folder / "70.png"
    broken.write_bytes(broken.read_bytes()[:500])
    asked = command(folder, out, weights, "--write", "tum,depth")
    sentence, notes = ends(capsys, *asked)
    assert f"{broken} cannot be read as a picture" in sentence
    assert kept(out, notes) == 70
    assert notes.endswith("; the same command goes on from there.")

    assert main([*asked, "--skip-broken", "--overwrite"]) == 0
    assert "99 frames, 1 that could not be read left out" in capsys.readouterr().err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk (root on Linux)")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk(weights: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was written stays whole; with room, the same command goes on."""
    out = small_disk / "out"
    asked = command("synthetic:1?frames=40&width=64&height=48", out, weights, "--write", "tum,depth,colmap,gates")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(3_700_000))
    sentence, notes, *_ = ends(capsys, *asked, "--checkpoint-every", 1000)  # nor has run.json room to say so
    assert f"{small_disk}" in sentence
    assert "(No space left on device)" in sentence
    assert 0 < kept(out, notes, begun=1) < 40
    filler.unlink()
    assert main([*asked, "--checkpoint-every", "1000"]) == 0
    capsys.readouterr()
    assert np.loadtxt(out / "trajectory.tum.txt").shape == (40, 8)


def test_a_folder_that_cannot_be_written(weights: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    if os.geteuid() == 0:  # whom no mode keeps out: a disk that nobody may write to
        mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(closed)]
        if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("needs the right to mount a disk that cannot be written, or to be another user than root")
    else:
        closed.chmod(0o500)
    try:
        done = recal3r(*command("synthetic:1?frames=3", closed / "out", weights))
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(closed)], check=True)
    assert done.returncode == 1
    assert f"recal3r: The folder {closed / 'out'} cannot be made (" in done.stderr
    assert "name another" in done.stderr
    assert "Traceback" not in done.stderr


def test_whoever_reads_the_lines_may_stop(weights: Path, tmp_path: Path) -> None:
    """As `recal3r run --json | head -1` does."""
    out = tmp_path / "out"
    asked = command("synthetic:1?frames=100&width=64&height=48", out, weights, "--json", "--write", "tum,depth")
    program = [sys.executable, "-W", "error", "-m", "recal3r.cli.main", *asked]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ONE_THREAD) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        assert '"frame": 0' in done.stdout.readline()
        done.stdout.close()
        said = done.stderr.read()
    assert done.returncode == 1
    assert "recal3r: Nobody reads the output any more" in said
    assert "Traceback" not in said
    assert 0 < kept(out, said.splitlines()[-1]) < 100
