"""Depth maps as 16-bit PNG in millimetres, and as they are in NPZ; one file a frame."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from PIL import Image as PillowImage

from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.files import FrameFiles
from recal3r.types import Image, Prediction

MILLIMETRES = 1000.0
FARTHEST = 65535  # what 16 bits hold; 0 says that there is no depth


class DepthSink:
    """For frame 12: `000012.png` (uint16 millimetres, 0 where there is no depth or it is too far) and `000012.npz`
    (float32 depth, and confidence, NaN where it was not asked for)."""

    needs = frozenset({"depth", "confidence_camera"})

    def __init__(self, folder: str | Path, *, png: bool = True, npz: bool = True, overwrite: bool = False) -> None:
        self._png, self._npz = png, npz
        self._files = FrameFiles(Path(folder), overwrite=overwrite)

    def __enter__(self) -> Self:
        self._files.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        depth = asked_for(prediction.depth, "depth", self)
        if self._png:
            picture = BytesIO()
            PillowImage.fromarray(millimetres(depth)).save(picture, format="PNG")
            self._files.write(f"{prediction.index:06d}.png", picture.getbuffer())
        if self._npz:
            confidence, arrays = prediction.confidence_camera, BytesIO()
            known = np.full(depth.shape, np.nan) if confidence is None else confidence
            np.savez_compressed(arrays, depth=depth.astype(np.float32), confidence=known.astype(np.float32))
            self._files.write(f"{prediction.index:06d}.npz", arrays.getbuffer())

    def mark(self) -> Mark:
        return self._files.mark()

    def resume(self, mark: Mark) -> None:
        self._files.resume(mark)


def millimetres(
    depth: np.ndarray[tuple[int, ...], np.dtype[np.floating]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    scaled = np.rint(np.nan_to_num(depth.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0) * MILLIMETRES)
    return np.where((scaled > 0) & (scaled <= FARTHEST), scaled, 0).astype(np.uint16)
