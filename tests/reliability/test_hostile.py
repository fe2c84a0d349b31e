"""Files and words from strangers: what comes of them is a value, or one sentence. Never another error, never gigabytes.

The seeds are hypothesis' own, fixed; what it ever found is kept below as examples of their own.
"""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import recal3r
from data.seeded import seeded_frames
from recal3r.engine.health import limits_of
from recal3r.errors import Recal3rError, SessionError
from recal3r.eval.canonical import override
from recal3r.eval.datasets.base import numbers, read_depth_png, tum_trajectory
from recal3r.eval.datasets.sintel import read_cam, read_dpt
from recal3r.eval.protocol import PROTOCOLS
from recal3r.model.official_config import parse_official_config
from recal3r.model.safetensors_file import read_safetensors
from recal3r.pipeline.checkpoint import Checkpoints
from recal3r.pipeline.folder import RunFolder
from recal3r.rules.registry import get_rule
from recal3r.sinks.files import FrameFiles, GrowingFile, write_whole
from recal3r.sinks.frames import FramesSink, read_frame
from recal3r.sources.images import read_picture
from recal3r.sources.open import open_source
from recal3r.viewer.gate import Policy, parse_head
from sources.footage import write_video

FUZZ = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SEEDS = st.integers(0, 2**32)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def value_or_sentence(read: Callable[[], object], *, also: tuple[type[Exception], ...] = ()) -> object:
    """What reading gives; or what it says, which is one sentence."""
    try:
        return read()
    except Recal3rError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return error
    except also as error:
        return error


def damaged(seed: int, content: bytes) -> bytes:
    """Cut somewhere, or with some bytes changed, or with some put in."""
    rng = random.Random(seed)
    kind = rng.choice(("cut", "changed", "grown"))
    if kind == "cut":
        return content[: rng.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        # Headers stand at the beginning, and often at the end.
        at = rng.choice((rng.randrange(min(200, len(changed))), rng.randrange(len(changed))))
        changed[at : at + (kind == "changed")] = rng.randbytes(1 if kind == "changed" else rng.randint(1, 8))
    return bytes(changed)


# -- words ---------------------------------------------------------------------------------------------------------


@FUZZ
@given(st.text(max_size=60) | st.from_regex(r"[a-z0-9-]{0,12}(\([a-z_=0-9.,()-]{0,30}\)){0,2}", fullmatch=True))
def test_rules(text: str) -> None:
    value_or_sentence(lambda: get_rule(text))


@FUZZ
@given(st.text(max_size=60) | st.from_regex(r"([a-z]{1,10}=[0-9.enaif-]{0,6},?){0,4}", fullmatch=True))
def test_health_limits(text: str) -> None:
    value_or_sentence(lambda: limits_of(text))


@FUZZ
@given(st.text(max_size=60) | st.from_regex(r"synthetic:[0-9]{0,25}(\?[a-z]{1,8}=[0-9]{0,20}){0,2}", fullmatch=True))
def test_names_of_sources(text: str) -> None:
    value_or_sentence(lambda: open_source(text))


@FUZZ
@given(st.sampled_from(sorted(PROTOCOLS)), st.text(max_size=20), st.text(max_size=20) | JSON.map(json.dumps))
def test_changes_of_protocols(name: str, place: str, value: str) -> None:
    for assignment in (f"{place}={value}", f"frames.count={value}", f"task={value}", f"cut.{place}={value}"):
        value_or_sentence(lambda assignment=assignment: override(PROTOCOLS[name], assignment))


@FUZZ
@given(st.text(max_size=200))
def test_configurations_of_official_files(text: str) -> None:
    value_or_sentence(lambda: parse_official_config(text))
    value_or_sentence(lambda: parse_official_config(f"ARCroco3DStereo(ARCroco3DStereoConfig({text}))"))


@FUZZ
@given(st.binary(max_size=200))
def test_requests_to_the_viewer(head: bytes) -> None:
    for sent in (head, b"GET / HTTP/1.1\r\nhost: " + head + b"\r\n\r\n", b"GET /" + head + b" HTTP/1.1\r\nhost: a\r\n"):
        request = parse_head(sent)
        if request is not None:
            answer = Policy("t" * 20).answer(request, 0)
            assert answer is not None, "nobody comes in without the token"


# -- sessions ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(mini: recal3r.Cut3r, frames: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("session") / "session"
    run = recal3r.Reconstructor(mini, "ttt3r", size=None)
    for frame in frames[:2]:
        run.push(frame)
    run.save(path)
    return path.read_bytes()


def header_of(session: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(session[:8], "little")
    return json.loads(session[8 : 8 + length]), session[8 + length :]


def with_header(header: dict[str, Any], rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest


@FUZZ
@given(SEEDS)
def test_sessions_with_damage(mini: recal3r.Cut3r, session: bytes, tmp_path: Path, seed: int) -> None:
    (tmp_path / "x").write_bytes(damaged(seed, session))
    value_or_sentence(lambda: recal3r.Reconstructor.load(tmp_path / "x", mini))


@FUZZ
@given(SEEDS, JSON)
def test_sessions_whose_header_lies(mini: recal3r.Cut3r, session: bytes, tmp_path: Path, seed: int, value: Any) -> None:
    """Whoever writes a session can write a fitting checksum too."""
    header, rest = header_of(session)
    ours = json.loads(header["__metadata__"]["recal3r_session"])
    place = ours
    rng = random.Random(seed)
    for _ in range(rng.randint(0, 3)):
        entries = place.values() if isinstance(place, dict) else place
        place = rng.choice([entry for entry in entries if isinstance(entry, dict | list) and entry] or [place])
    place[rng.choice(list(place) if isinstance(place, dict) else range(len(place)))] = value
    header["__metadata__"]["recal3r_session"] = json.dumps(ours)
    (tmp_path / "x").write_bytes(with_header(header, rest))
    loaded = value_or_sentence(lambda: recal3r.Reconstructor.load(tmp_path / "x", mini))
    if isinstance(loaded, recal3r.Reconstructor):
        value_or_sentence(lambda: loaded.push(seeded_frames(1, 48, 64)[0]))


def test_a_session_that_holds_nan(mini: recal3r.Cut3r, tmp_path: Path) -> None:
    run = recal3r.Reconstructor(mini)
    run.session.state = run.session.state * np.nan
    run.save(tmp_path / "x")
    with pytest.raises(SessionError, match="NaN or infinity"):
        recal3r.Reconstructor.load(tmp_path / "x", mini)


# -- weights -------------------------------------------------------------------------------------------------------


@FUZZ
@given(data=st.data())
def test_headers_of_safetensors(tmp_path: Path, data: st.DataObject) -> None:
    """Names, types, shapes and places that do not fit the file, or that no machine could hold."""
    header = json.loads(safetensors.numpy.save({"a": np.ones((2, 3), np.float32)})[8:].partition(b"}}")[0] + b"}}")
    entry = header["a"]
    entry[data.draw(st.sampled_from(["dtype", "shape", "data_offsets", "more"]))] = data.draw(
        JSON | st.lists(st.sampled_from([0, -1, 2**31, 2**62, 3]), max_size=4)
    )
    header[data.draw(st.text(max_size=10))] = entry
    (tmp_path / "x.safetensors").write_bytes(with_header(header, b"\0" * 24))
    value_or_sentence(lambda: dict(read_safetensors(tmp_path / "x.safetensors")[1]))


# -- pictures, depth maps, videos, frames of a run -----------------------------------------------------------------


def picture(kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(seeded_frames(1, 24, 32)[0]).save(content, kind)
    return content.getvalue()


PICTURES = {kind: picture(kind) for kind in ("png", "jpeg", "webp", "tiff", "bmp")}


@pytest.mark.filterwarnings("ignore")  # Pillow warns of what it then reads or refuses
@pytest.mark.parametrize("kind", PICTURES)
@FUZZ
@given(SEEDS)
def test_pictures(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / f"x.{kind}"
    path.write_bytes(damaged(seed, PICTURES[kind]))
    found = value_or_sentence(lambda: read_picture(path, pixel_limit=1_000_000))
    assert isinstance(found, Recal3rError) or found.shape[2] == 3
    value_or_sentence(lambda: read_depth_png(path, 1000.0))


@FUZZ
@given(SEEDS)
def test_videos(small_video: Path, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "x.mp4"
    path.write_bytes(damaged(seed, small_video.read_bytes()))
    value_or_sentence(lambda: [frame.image.shape for frame in open_source(path)])


@pytest.fixture(scope="module")
def small_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "x.mp4"
    write_video(path, 4)
    return path


@pytest.fixture(scope="module")
def frame_of_a_run(mini: recal3r.Cut3r, frames: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frames")
    with FramesSink(folder) as sink:
        sink.write(recal3r.Reconstructor(mini, size=None).push(frames[0]), frames[0])
    return next(folder.glob("*.npz"))


@FUZZ
@given(SEEDS)
def test_frames_of_a_run(frame_of_a_run: Path, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "000000.npz"
    path.write_bytes(damaged(seed, frame_of_a_run.read_bytes()))
    value_or_sentence(lambda: read_frame(path))


# -- numbers of datasets -------------------------------------------------------------------------------------------


@FUZZ
@given(st.binary(max_size=300) | st.from_regex(rb"([0-9.eEnaif +-]{0,60}\n){0,4}", fullmatch=True))
def test_trajectories_and_matrices(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    value_or_sentence(lambda: tum_trajectory(path))
    value_or_sentence(lambda: numbers(path, (4, 4)))
    value_or_sentence(lambda: numbers(path, (-1, 8)))


@FUZZ
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(0, 64))
def test_files_of_sintel(tmp_path: Path, width: int, height: int, size: int) -> None:
    path = tmp_path / "x"
    for sides in ((width, height), (-2, -3), (size, 1)):
        path.write_bytes(struct.pack("<fii", 202021.25, *sides) + b"\0" * (24 if sides == (-2, -3) else 4 * size))
        value_or_sentence(lambda: read_dpt(path))
        value_or_sentence(lambda: read_cam(path))


# -- the folder of a run -------------------------------------------------------------------------------------------


@FUZZ
@given(data=st.data())
def test_what_lies_in_the_folder_of_a_run(tmp_path: Path, data: st.DataObject) -> None:
    index = {"format_version": 1, "frames": 3, "files": {"../a": "0", "/etc/passwd": "0"}, "numbers": {}}
    index[data.draw(st.sampled_from(list(index)))] = data.draw(JSON)
    (tmp_path / "checkpoint.json").write_text(json.dumps(index))
    value_or_sentence(Checkpoints(tmp_path).read)
    (tmp_path / "run.json").write_text(json.dumps(data.draw(JSON)))
    value_or_sentence(lambda: RunFolder(tmp_path).is_complete({"settings": {}}))
    value_or_sentence(lambda: RunFolder(tmp_path).frames({"settings": {}}))


def test_a_checkpoint_names_no_file_elsewhere(tmp_path: Path) -> None:
    """Not even one whose checksum it knows."""
    import hashlib

    (tmp_path / "run").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    for name in ("../elsewhere", str(elsewhere), "a/../../elsewhere"):
        index = {"format_version": 1, "frames": 3, "files": {name: digest, f"./{name}": digest}, "numbers": {}}
        (tmp_path / "run" / "checkpoint.json").write_text(json.dumps(index))
        with pytest.raises(SessionError, match="names files elsewhere"):
            Checkpoints(tmp_path / "run").read()


def test_links_in_the_output_folder_are_not_followed(tmp_path: Path) -> None:
    """Whoever can lay links there does not get other files overwritten."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    for name in (".run.json.part", "run.json", "a.npz.part", "a.npz", "trajectory.txt"):
        (folder / name).symlink_to(mine)
    write_whole(folder / "run.json", b"run")
    files = FrameFiles(folder, overwrite=True)
    files.enter()
    files.write("a.npz", b"frame")
    file = GrowingFile.begin(folder / "trajectory.txt", overwrite=True)
    file.append(b"line")
    file.close()
    assert mine.read_text() == "mine"
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert contents == {"run.json": b"run", "a.npz": b"frame", "trajectory.txt": b"line"}


# -- bombs: small files that say they are large --------------------------------------------------------------------


def png_header(width: int, height: int) -> bytes:
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = b"IDAT" + zlib.compress(b"\0" * 1000)
    parts = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (chunk, packed)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def npz_of(shape: tuple[int, ...]) -> bytes:
    """A frame of a run whose depth is said to have this shape."""
    import zipfile

    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": shape})
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("thumbnail", "depth", "confidence", "K", "T_world_camera", "timestamp"):
            archive.writestr(f"{name}.npy", array.getvalue())
    return content.getvalue()


BOMBS = {
    "x.png": png_header(2**31 - 1, 2**31 - 1),
    "y.png": png_header(60_000, 60_000),
    "x.bmp": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 58, 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0),
    "000001.npz": npz_of((2**31, 4)),
    "000002.npz": npz_of((50_000, 50_000)),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_bombs_cost_no_memory(tmp_path: Path) -> None:
    """A process that may have no more than 2 GB reads them all, and says of each why not."""
    for name, content in BOMBS.items():
        (tmp_path / name).write_bytes(content)
        assert len(content) < 3000
    script = f"""
import resource, warnings
from pathlib import Path
from recal3r.errors import Recal3rError
from recal3r.sinks.frames import read_frame
from recal3r.sources.images import read_picture
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in {sorted(BOMBS)!r}:
    path = Path({str(tmp_path)!r}) / name
    try:
        (read_frame if path.suffix == ".npz" else read_picture)(path)
    except Recal3rError as error:
        print(name, error)
print("grew", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, "kB")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == sorted(BOMBS)
    assert int(lines[-1].split()[1]) < 200_000
