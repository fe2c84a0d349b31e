"""The pictures as they came in: what exported cameras are the cameras of."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

from PIL import Image as PillowImage

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark
from recal3r.sinks.files import FrameFiles
from recal3r.types import Image, Prediction

_FAST = 1  # of nine levels of compression; PNG loses nothing at any of them


class ImagesSink:
    """For frame 12: `000012.png`, under the name by which COLMAP's and nerfstudio's files call it."""

    needs = frozenset[str]()

    def __init__(self, folder: str | Path, *, overwrite: bool = False) -> None:
        self._files = FrameFiles(Path(folder), overwrite=overwrite)

    def __enter__(self) -> Self:
        self._files.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        if image is None:
            raise OutputError("ImagesSink writes pictures, and was given none; write(prediction, image).")
        picture = BytesIO()
        PillowImage.fromarray(image).save(picture, format="PNG", compress_level=_FAST)
        self._files.write(f"{prediction.index:06d}.png", picture.getbuffer())

    def mark(self) -> Mark:
        return self._files.mark()

    def resume(self, mark: Mark) -> None:
        self._files.resume(mark)
