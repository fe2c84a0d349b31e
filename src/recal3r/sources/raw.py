"""Raw pictures through a pipe: `ffmpeg -i x -f rawvideo -pix_fmt rgb24 - | program`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import BinaryIO

import numpy as np

from recal3r.sources.base import Reader, SourceError
from recal3r.types import Frame


class RawPipe(Reader):
    """Frames of `width` x `height` x 3 bytes, red, green, blue, one after the other with nothing between them.

    rate: frames a second, for timestamps; None leaves frames without.
    pipe: where the bytes come from; standard input unless given. It is read from where it stands and not closed.
    """

    repeatable = False

    def __init__(self, width: int, height: int, rate: float | None = None, pipe: BinaryIO | None = None) -> None:
        super().__init__()
        if width < 1 or height < 1 or (rate is not None and not 0 < rate < float("inf")):
            raise SourceError(
                f"Raw frames of {width}x{height} at rate={rate} cannot be; "
                "give width and height in pixels and, if known, a finite rate above 0."
            )
        self.width = width
        self.height = height
        self.rate = rate
        self._pipe = pipe

    @property
    def description(self) -> str:
        rate = "" if self.rate is None else f" at {self.rate:g} frames/s"
        return f"raw rgb24 pictures of {self.width}x{self.height}{rate} from a pipe"

    @property
    def frames(self) -> None:
        return None

    def _read(self) -> Generator[Frame]:
        pipe = self._pipe or sys.stdin.buffer
        size = self.width * self.height * 3
        number = 0
        while data := _read_up_to(pipe, size):
            self._require_whole(len(data), size, number)
            image = np.frombuffer(data, np.uint8).reshape(self.height, self.width, 3)
            yield Frame(image, None if self.rate is None else number / self.rate)
            number += 1
        if not number:
            raise SourceError(
                f"The pipe ended before its first frame of {size} bytes; start what writes {self.width}x{self.height} "
                "rgb24 pictures to it, and see whether that failed."
            )

    def _require_whole(self, got: int, size: int, number: int) -> None:
        if got < size:
            raise SourceError(
                f"The pipe ended {got} bytes into a frame of {size}, after {number} whole frames of "
                f"{self.width}x{self.height} rgb24; see whether its writer failed or has another size."
            )


def _read_up_to(pipe: BinaryIO, size: int) -> bytearray:
    """`size` bytes, fewer only at the end: one read of a pipe may bring any part of what was asked for."""
    data = bytearray()
    while len(data) < size and (part := pipe.read(size - len(data))):
        data += part
    return data
