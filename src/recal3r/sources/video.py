"""Video files: one frame in memory, true timestamps, upright, and plain words where a file breaks off."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import av
from av.container import InputContainer
from av.error import EOFError as AvEOFError
from av.error import FFmpegError
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from recal3r.sources.base import Reader, Selection, Skipped, SourceError
from recal3r.sources.pyav import frame_of, opened, reason, seconds, video_of
from recal3r.types import Frame


class Video(Reader):
    """The frames of a video file.

    start_seconds, end_seconds: only the frames shown from the one until before the other, by the file's own clock.
    start, end, stride: of those, counted from 0, the ones from `start` to before `end`, every `stride`-th.
    skip_broken: leave out what does not decode, and count it in `skipped`. Otherwise a damaged file gives the frames
        before the damage, and then raises.

    A file is decoded from its beginning, so that numbers and times are exact whatever its index says.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        stride: int = 1,
        start: int = 0,
        end: int | None = None,
        start_seconds: float | None = None,
        end_seconds: float | None = None,
        skip_broken: bool = False,
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.skip_broken = skip_broken
        self.skipped = Skipped()
        self._selection = Selection(stride, start, end)
        self._window = _window(start_seconds, end_seconds)
        with _opened_file(self.path) as container:
            self._description = _describe(self.path, container)
            self._declared = container.streams.video[0].frames or None

    @property
    def description(self) -> str:
        first, last = self._window
        window = "" if self._window == _ALWAYS else f", {first:g} s to {last:g} s"
        return f"{self._description}{window}{self._selection}"

    @property
    def frames(self) -> int | None:
        """As the file declares; None where it does not, or where times select."""
        if self._declared is None or self._window != _ALWAYS:
            return None
        return self._selection.count(self._declared)

    def _read(self) -> Generator[Frame]:
        self.skipped = Skipped()
        given = 0
        with _opened_file(self.path) as container:
            decoding = _Decoding(self.path, container, self.skipped if self.skip_broken else None)
            for number, decoded in enumerate(self._in_window(decoding.frames())):
                if self._selection.is_past(number):
                    break
                if number in self._selection:
                    yield frame_of(decoded)
                    given += 1
        if not given:
            raise SourceError(
                f"Of the {decoding.count} frames that {self.path} has until {decoding.last:.2f} s none is selected"
                f"{self._selection}; choose an earlier start."
            )

    def _in_window(self, frames: Iterable[VideoFrame]) -> Iterator[VideoFrame]:
        if self._window == _ALWAYS:
            yield from frames
            return
        first, last = self._window
        for frame in frames:
            time = seconds(frame)
            if time is None:
                raise SourceError(f"{self.path} has no timestamps to select by; use start and end, which count frames.")
            if time >= last:
                return
            if time >= first:
                yield frame


_ALWAYS = (float("-inf"), float("inf"))


def _window(start_seconds: float | None, end_seconds: float | None) -> tuple[float, float]:
    first = _ALWAYS[0] if start_seconds is None else start_seconds
    last = _ALWAYS[1] if end_seconds is None else end_seconds
    if not first < last:
        raise SourceError(
            f"start_seconds={start_seconds}, end_seconds={end_seconds} selects no frames; "
            "the end comes after the start."
        )
    return first, last


def _opened_file(path: Path) -> InputContainer:
    """Read as a file whatever its name looks like; a playlist inside it may not fetch anything from elsewhere."""
    try:
        empty = path.stat().st_size == 0
    except OSError as error:
        raise SourceError(f"{path} cannot be opened ({error.strerror}); give a video file that is there.") from error
    if empty:
        raise SourceError(f"{path} is empty (0 bytes); copy or record it again.")
    return opened(str(path), f"file:{path.absolute()}", options={"protocol_whitelist": "file"})


def _describe(path: Path, container: InputContainer) -> str:
    stream = container.streams.video[0]
    codec = stream.codec_context
    frames = f", {stream.frames} frames" if stream.frames else ""
    duration = f", {container.duration / av.time_base:.2f} s" if container.duration else ""
    return f"video {path}: {codec.name} {codec.width}x{codec.height}{frames}{duration}"


class _IncompletePacketError(Exception):
    """The file ends in the middle of a compressed picture. Decoded, it would be grey below."""


class _Decoding:
    """One pass through a file, which knows how far it came. Changes as it goes."""

    def __init__(self, path: Path, container: InputContainer, skipped: Skipped | None) -> None:
        self.count = 0
        self.last = 0.0  # seconds
        self._path = path
        self._container = container
        self._stream = video_of(container)
        self._skipped = skipped

    def frames(self) -> Iterator[VideoFrame]:
        try:
            for packet in self._container.demux(self._stream):
                yield from self._counted(self._decoded(packet))
        except (FFmpegError, _IncompletePacketError) as error:
            yield from self._counted(_held_back(self._stream))
            self._report(reason(error), error)
        else:
            self._report_early_end()

    def _decoded(self, packet: Packet[VideoStream]) -> list[VideoFrame]:
        try:
            if packet.is_corrupt:
                raise _IncompletePacketError("it ends in the middle of a picture")
            return self._stream.decode(packet)
        except (FFmpegError, _IncompletePacketError) as error:
            if self._skipped is None:
                raise
            self._report(reason(error), error)
            return []

    def _counted(self, frames: Iterable[VideoFrame]) -> Iterator[VideoFrame]:
        for frame in frames:
            self.count += 1
            self.last = seconds(frame) or self.last
            yield frame

    def _report(self, why: str, cause: BaseException | None) -> None:
        error = SourceError(
            f"{self._path} is damaged after {self.count} frames, which were read, at {self.last:.2f} s ({why}); "
            "copy it again, or accept what does decode with skip_broken."
        )
        if self._skipped is None:
            raise error from cause
        self._skipped.add(error)

    def _report_early_end(self) -> None:
        """Matroska files that are cut off end like whole ones, but declare how long they were to be."""
        declared = _declared_end(self._container, self._stream)
        interval = self.last / max(1, self.count - 1)
        if declared is not None and declared - self.last > 0.5 + 2 * interval:
            self._report(f"it declares {declared:.2f} s", None)


def _held_back(stream: VideoStream) -> list[VideoFrame]:
    """Whole frames that the decoder keeps until it knows that none is to be shown before them."""
    try:
        return stream.decode(None)
    except AvEOFError:  # asked before: there are none
        return []


def _declared_end(container: InputContainer, stream: VideoStream) -> float | None:
    if "matroska" not in container.format.name:
        return None
    if "DURATION" in stream.metadata:
        hours, minutes, rest = stream.metadata["DURATION"].split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(rest.rstrip("\0"))
    alone = len(container.streams) == 1  # otherwise the sound may go on for longer
    return container.duration / av.time_base if alone and container.duration else None
