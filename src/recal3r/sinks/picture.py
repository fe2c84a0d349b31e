"""The picture as the network saw it, and pictures as bytes."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image as PillowImage

from recal3r.types import Camera, Image


def seen_by(camera: Camera, image: Image | None) -> Image:
    """The window of the picture that the network saw, at its resolution; grey where there is no picture."""
    size = camera.width, camera.height
    if image is None:
        return np.full((*size[::-1], 3), 128, np.uint8)
    if camera.crop is None:
        box = (0.0, 0.0, float(image.shape[1]), float(image.shape[0]))
    else:
        (sx, sy), left, top = camera.crop.scale, camera.crop.left, camera.crop.top
        box = (left / sx, top / sy, (left + camera.width) / sx, (top + camera.height) / sy)
    return np.asarray(PillowImage.fromarray(image).resize(size, PillowImage.Resampling.BILINEAR, box))


def within(picture: Image, longest: int) -> Image:
    """Shrunk, where it is larger, to a longest side of so many pixels."""
    scale = longest / max(picture.shape[:2])
    if scale >= 1:
        return picture
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    return np.asarray(PillowImage.fromarray(picture).resize(size, PillowImage.Resampling.BOX))


def jpeg(picture: Image, quality: int = 85) -> bytes:
    content = BytesIO()
    PillowImage.fromarray(picture).save(content, format="JPEG", quality=quality)
    return content.getvalue()
