"""What video files and live streams share: opening by PyAV, and a decoded picture the right way up."""

from __future__ import annotations

from collections.abc import Mapping

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from recal3r.sources.base import SourceError
from recal3r.types import Frame, Image


def opened(
    name: str,
    address: str,
    *,
    container_format: str | None = None,
    options: Mapping[str, str] | None = None,
    timeout_seconds: float | None = None,
) -> InputContainer:
    """The container behind an address, which has a video; to be closed by the caller. `name` is for people."""
    try:
        container = av.open(
            address,
            format=container_format,
            options=dict(options or {}),
            timeout=timeout_seconds,
            metadata_errors="replace",
        )
    except (FFmpegError, ValueError) as error:
        raise SourceError(
            f"{name} cannot be opened as a video ({reason(error)}); "
            "give a complete file or a running stream that FFmpeg plays."
        ) from error
    if not container.streams.video:
        container.close()
        raise SourceError(f"{name} has no pictures in it, only other streams; give a file or stream with a video.")
    if getattr(container.streams.video[0], "codec_context", None) is None:
        container.close()
        raise SourceError(f"{name} holds pictures of a kind that FFmpeg does not know; convert it, as to H.264.")
    return container


def video_of(container: InputContainer) -> VideoStream:
    """Its first video, decoded by as many threads as help."""
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    return stream


def frame_of(decoded: VideoFrame) -> Frame:
    return Frame(_turned(decoded.to_ndarray(format="rgb24"), decoded), seconds(decoded))


def seconds(decoded: VideoFrame) -> float | None:
    """When it is to be shown, exactly as the file says; None where it does not."""
    if decoded.pts is None or decoded.time_base is None:
        return None
    return float(decoded.pts * decoded.time_base)


def reason(error: BaseException) -> str:
    """FFmpeg's own words, without number and address."""
    return getattr(error, "strerror", None) or str(error)


def _turned(pixels: np.ndarray, decoded: VideoFrame) -> Image:
    """As the display matrix says: x_shown = a x + c y, y_shown = b x + d y, with a, b, c, d of -1, 0 and 1."""
    matrix = decoded.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return pixels
    a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
    if abs(b) > abs(a):  # a quarter turn: x and y change places
        pixels, a, d = pixels.swapaxes(0, 1), c, b
    return np.ascontiguousarray(pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1])
