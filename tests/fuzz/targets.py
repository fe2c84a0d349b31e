"""What strangers may hand us, byte by byte: each target reads it, and nothing but a value or a `Recal3rError` may come.

Used by `guided.py`, which is led by what the bytes make run, and by `test_seeds.py`, which reads again what was found.
"""

from __future__ import annotations

import functools
import io
import json
import pickle
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image

import recal3r
from data.seeded import seeded_frames
from networks import SMALLEST
from recal3r.engine.health import limits_of
from recal3r.engine.snapshot import read_header
from recal3r.errors import Recal3rError
from recal3r.eval.canonical import override
from recal3r.eval.datasets.base import numbers, read_depth_png, tum_trajectory
from recal3r.eval.datasets.sintel import read_cam, read_dpt
from recal3r.eval.protocol import PROTOCOLS
from recal3r.eval.results import read_result
from recal3r.model.checkpoint import read_checkpoint
from recal3r.model.load import untrained
from recal3r.model.official_config import parse_official_config
from recal3r.model.pickle_reader import read_description
from recal3r.model.safetensors_file import read_safetensors
from recal3r.pipeline.checkpoint import Checkpoints
from recal3r.rules.registry import get_rule
from recal3r.sinks.frames import read_frame
from recal3r.sources.images import read_picture
from recal3r.viewer.gate import Policy, parse_head

Target = Callable[[bytes], None]


def value_or_sentence(read: Callable[[], object]) -> None:
    try:
        read()
    except Recal3rError as error:
        if "\n" in str(error):
            raise AssertionError(f"more than one sentence: {error}") from error


def _from_file(suffix: str, *readers: Callable[[Path], object]) -> Target:
    """A target whose bytes are a file's."""
    path = Path(tempfile.mkdtemp(prefix="recal3r-fuzz-")) / f"x{suffix}"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries warn of what they then read or refuse
            for reader in readers:
                value_or_sentence(lambda reader=reader: reader(path))

    return read


def _words(*readers: Callable[[str], object]) -> Target:
    def read(data: bytes) -> None:
        text = data.decode(errors="replace")
        for reader in readers:
            value_or_sentence(lambda reader=reader: reader(text))

    return read


def as_checkpoint(pickled: bytes) -> bytes:
    """A torch file whose pickle is `pickled`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/data/0", b"\0" * 64)
    return content.getvalue()


def _pickle() -> Target:
    whole = _from_file(".pth", read_checkpoint)

    def read(data: bytes) -> None:
        value_or_sentence(lambda: read_description(data, "the fuzzer's"))
        whole(as_checkpoint(data))

    return read


def _safetensors(path: Path) -> None:
    for tensor in read_safetensors(path)[1].values():
        tensor.sum()


@functools.cache
def network() -> recal3r.Cut3r:
    return untrained(SMALLEST, device="cpu", dtype="float32")


@functools.cache
def _saved_session() -> bytes:
    path = Path(tempfile.mkdtemp(prefix="recal3r-fuzz-")) / "whole"
    run = recal3r.Reconstructor(network(), "ttt3r", size=None)
    run.push(seeded_frames(1, 32, 32)[0])
    run.save(path)
    return path.read_bytes()


def _session() -> Target:
    """What a session says of itself, with tensors and a checksum that fit: whoever writes one can write all of it."""
    content = _saved_session()
    length = int.from_bytes(content[:8], "little")
    header, tensors = json.loads(content[8 : 8 + length]), content[8 + length :]

    def load(path: Path) -> None:
        recal3r.Reconstructor.load(path, network()).push(seeded_frames(1, 32, 32)[0])

    read_file = _from_file("", read_header, load)

    def read(data: bytes) -> None:
        text = json.dumps(header | {"__metadata__": {"recal3r_session": data.decode(errors="replace")}}).encode()
        read_file(struct.pack("<Q", len(text)) + text + tensors)

    return read


def _protocol(text: str) -> None:
    override(PROTOCOLS[sorted(PROTOCOLS)[len(text) % len(PROTOCOLS)]], text)


def _request(data: bytes) -> None:
    request = parse_head(data)
    if request is not None and Policy("t" * 20).answer(request, 0) is None:
        raise AssertionError("somebody came in without the token")


def _run_folder() -> Target:
    folder = Path(tempfile.mkdtemp(prefix="recal3r-fuzz-"))

    def read(data: bytes) -> None:
        (folder / "checkpoint.json").write_bytes(data)
        value_or_sentence(Checkpoints(folder).read)

    return read


def _picture(path: Path) -> None:
    if read_picture(path, pixel_limit=1_000_000).dtype != np.uint8:
        raise AssertionError("a picture of something else than bytes")


TARGETS: dict[str, Callable[[], Target]] = {
    "pickle": _pickle,
    "checkpoint": lambda: _from_file(".pth", read_checkpoint),
    "safetensors": lambda: _from_file(".safetensors", _safetensors, read_checkpoint),
    "session": _session,
    "run-folder": _run_folder,
    "words": lambda: _words(get_rule, limits_of, _protocol),
    "official-config": lambda: _words(
        parse_official_config, lambda text: parse_official_config(f"ARCroco3DStereo(ARCroco3DStereoConfig({text}))")
    ),
    "trajectory": lambda: _from_file(
        ".txt", tum_trajectory, lambda path: numbers(path, (4, 4)), lambda path: numbers(path, (-1, 8))
    ),
    "sintel": lambda: _from_file(".dpt", read_dpt, read_cam),
    "result": lambda: _from_file(".json", read_result),
    "frame": lambda: _from_file(".npz", read_frame),
    "picture": lambda: _from_file(".png", _picture, lambda path: read_depth_png(path, 1000.0)),
    "request": lambda: _request,
}
"""By name; making one may take a moment."""


# -- where to begin: whole ones ------------------------------------------------------------------------------------


def examples() -> dict[str, list[bytes]]:
    length = int.from_bytes(_saved_session()[:8], "little")
    session = json.loads(_saved_session()[8 : 8 + length])["__metadata__"]["recal3r_session"]
    weights = {"model.a": torch.arange(6.0).view(2, 3), "model.b": torch.ones(4, dtype=torch.float16)}
    state: dict[str, object] = {"model": {"a": weights["model.a"], "b": [1, 2.5, None, (True, "x")]}}
    torch_file, picture = io.BytesIO(), io.BytesIO()
    torch.save(state, torch_file)
    Image.fromarray(seeded_frames(1, 8, 8)[0]).save(picture, "png")
    identity = " ".join(["1 0 0 0", "0 1 0 0", "0 0 1 0", "0 0 0 1"])
    index = {"format_version": 1, "frames": 3, "files": {"trajectory.txt": "0"}, "numbers": {"x": 1.0}}
    return {
        "pickle": [pickle.dumps(value, protocol) for value in (index, [1, (2.5, None)]) for protocol in (0, 2, 4)],
        "checkpoint": [torch_file.getvalue(), as_checkpoint(pickle.dumps(index, 2))],
        "safetensors": [safetensors.torch.save(weights), safetensors.torch.save(weights, {"a": "b"})],
        "session": [session.encode()],
        "run-folder": [json.dumps(index).encode()],
        "words": [b"memix(recal3r(beta_base=0.1,entropy=false))", b"drift=2,patience=50", b"frames.count=30", b"ttt3r"],
        "official-config": [b"head_type='dpt', img_size=(512, 512), depth_mode=('exp', -inf, inf)"],
        "trajectory": [b"0.0 0 0 0 0 0 0 1\n1.5 1 2 3 0 0 0 1\n", identity.encode(), b"# a comment\n0,1,2\n"],
        "sintel": [struct.pack("<fii", 202021.25, 2, 1) + b"\0" * 8],
        "result": [b'{"frames": ["1"], "metrics": {"ate": 0.1}}'],
        "frame": [as_frame((2, 3)), as_frame((2**31, 4))],
        "picture": [picture.getvalue()],
        "request": [b"GET /?token=tttttttttttttttttttt HTTP/1.1\r\nhost: a\r\ncookie: a=b\r\n\r\n"],
    }


NONSENSE = (
    *(b"[" * 4000, b'{"a":' * 1300, b"(" * 3000, b"memix(" * 600, b"-" * 3000),
    *(b"9" * 5000, b"frames.count=" + b"9" * 5000, b"frames.count=" + b"[" * 3000, b"drift=" + b"9" * 5000),
    *(b"constant(" + b"9" * 5000 + b")", b"drift=1e999", b'{"format_version":1,"frames":' + b"[" * 3000),
)
"""What is nested or long beyond reason, which a search by single bytes does not come upon."""


def as_frame(shape: tuple[int, ...]) -> bytes:
    """A frame of a run whose arrays are said to have this shape."""
    array, content = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("thumbnail", "depth", "confidence", "K", "T_world_camera", "timestamp"):
            archive.writestr(f"{name}.npy", array.getvalue() + b"\0" * 24)
    return content.getvalue()
