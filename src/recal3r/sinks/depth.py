"""Depth maps as 16-bit PNG in millimetres, and as they are in NPZ; one file a frame."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from PIL import Image as PillowImage

from recal3r.errors import OutputError
from recal3r.sinks.base import asked_for
from recal3r.types import Image, Prediction

MILLIMETRES = 1000.0
FARTHEST = 65535  # what 16 bits hold; 0 says that there is no depth


class DepthSink:
    """For frame 12: `000012.png` (uint16 millimetres, 0 where there is no depth or it is too far) and `000012.npz`
    (float32 depth, and confidence, NaN where it was not asked for)."""

    def __init__(self, folder: str | Path, *, png: bool = True, npz: bool = True, overwrite: bool = False) -> None:
        self._folder, self._png, self._npz, self._overwrite = Path(folder), png, npz, overwrite

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"The folder {self._folder} cannot be made ({error.strerror}); name another.") from error
        if not self._overwrite and any(self._folder.iterdir()):
            raise OutputError(f"The folder {self._folder} is not empty; name a new one, or ask to overwrite.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        depth = asked_for(prediction.depth, "depth", self)
        stem = self._folder / f"{prediction.index:06d}"
        try:
            if self._png:
                unfinished = stem.with_suffix(".png.part")
                PillowImage.fromarray(millimetres(depth)).save(unfinished, format="PNG")
                unfinished.replace(stem.with_suffix(".png"))
            if self._npz:
                unfinished = stem.with_suffix(".npz.part")
                confidence = prediction.confidence_camera
                known = np.full(depth.shape, np.nan) if confidence is None else confidence
                with unfinished.open("wb") as file:
                    np.savez_compressed(file, depth=depth.astype(np.float32), confidence=known.astype(np.float32))
                unfinished.replace(stem.with_suffix(".npz"))
        except OSError as error:
            raise OutputError(f"{stem}.* cannot be written ({error.strerror}); what came before it is kept.") from error


def millimetres(
    depth: np.ndarray[tuple[int, ...], np.dtype[np.floating]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    scaled = np.rint(np.nan_to_num(depth.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0) * MILLIMETRES)
    return np.where((scaled > 0) & (scaled <= FARTHEST), scaled, 0).astype(np.uint16)
