"""Small pictures and videos for tests, whose frames can be told apart by their brightness."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

STEP = 4  # of brightness from one frame to the next


def shade(number: int, height: int = 48, width: int = 64) -> np.ndarray:
    """A grey picture that is `number` steps bright, brighter by 40 in its upper left quarter, with some texture."""
    noise = np.random.default_rng(number).integers(-6, 7, (height, width))
    grey = np.full((height, width), 20 + STEP * number) + noise
    grey[: height // 2, : width // 2] += 40
    return np.repeat(grey.clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)


def number_of(image: np.ndarray) -> int:
    """The `number` of a shade, whatever a codec made of it."""
    height, width = image.shape[:2]
    return round((float(image[height // 2 :, width // 2 :].mean()) - 20) / STEP)


def write_pictures(folder: Path, numbers: Sequence[int], suffix: str = ".png") -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"img{number}{suffix}" for number in numbers]
    for number, path in zip(numbers, paths, strict=True):
        Image.fromarray(shade(number)).save(path)
    return paths


def write_video(
    path: Path, count: int = 40, *, codec: str = "libx264", ticks: Sequence[int] | None = None, **muxer: str
) -> Path:
    """`count` shades at 30 frames/s, or shown at the given ticks of 1/90000 s."""
    with av.open(str(path), "w", options=muxer) as container:
        stream = container.add_stream(codec, rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.bit_rate = 4_000_000  # so much that brightness survives exactly enough
        stream.codec_context.time_base = tick = Fraction(1, 90000 if ticks else 30)
        for number, time in enumerate(ticks or range(count)):
            frame = av.VideoFrame.from_ndarray(shade(number), format="rgb24")
            frame.pts, frame.time_base = time, tick
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def turn(path: Path, a: int, b: int, c: int, d: int) -> Path:
    """Puts a display matrix into an MP4 file, as telephones do."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4 + 4 + 20 + 8 + 8  # name, version and flags, times and id, reserved, layer to volume
    content[at : at + 36] = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    return path


def cut_off(path: Path, part: float) -> Path:
    """A copy of the first part of a file."""
    copy = path.with_name(f"cut_{path.name}")
    content = path.read_bytes()
    copy.write_bytes(content[: int(len(content) * part)])
    return copy
