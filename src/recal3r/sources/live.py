"""Cameras and network streams: the newest frame wins, and what is dropped is counted."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from threading import Condition, Event, Thread

from av.container import InputContainer
from av.error import FFmpegError, InvalidDataError
from av.video.frame import VideoFrame

from recal3r.sources.base import Reader, SourceError
from recal3r.sources.pyav import frame_of, opened, reason, video_of
from recal3r.types import Frame

# FFmpeg's name for cameras, and what it calls the camera of a number.
_CAMERAS = {"linux": ("v4l2", "/dev/video{}"), "darwin": ("avfoundation", "{}"), "win32": ("dshow", "video={}")}
# A stream from outside may name others; it may not name files on this machine.
_NETWORK = {"protocol_whitelist": "http,https,tls,tcp,udp,rtp,srtp,rtsp,rtmp,srt,httpproxy,crypto"}
_TIMEOUT = 10.0


@dataclass
class Counters:
    """What became of the frames so far. Changes while they are read."""

    received: int = 0  # decoded
    dropped: int = 0  # decoded, but replaced by a newer one before anybody asked
    broken: int = 0  # packets that did not decode: lost or changed on the way


class Live(Reader):
    """A stream that does not wait. A thread receives it; each time a frame is asked for, it is the newest.

    address: a URL (rtsp, http, ...), a device file, or anything else that FFmpeg opens with `container_format`.
    options: for FFmpeg, such as {"video_size": "640x480"} for cameras.
    timeout_seconds: for how long nothing may arrive before that is an error.
    """

    repeatable = False

    def __init__(
        self,
        address: str,
        *,
        container_format: str | None = None,
        options: Mapping[str, str] | None = None,
        timeout_seconds: float = _TIMEOUT,
    ) -> None:
        super().__init__()
        if timeout_seconds <= 0:
            raise SourceError(f"timeout_seconds={timeout_seconds} gives no frame a chance; use a number above 0.")
        self.address = address
        self.container_format = container_format
        self.options = {**_defaults(address), **(options or {})}
        self.timeout_seconds = timeout_seconds
        self.counters = Counters()

    @classmethod
    def camera(
        cls, device: int | str, *, options: Mapping[str, str] | None = None, timeout_seconds: float = _TIMEOUT
    ) -> Live:
        """A camera of this computer: its number, or its name to FFmpeg (`/dev/video0`)."""
        if sys.platform not in _CAMERAS:
            raise SourceError(f"Cameras of {sys.platform} are unknown; give Live an address and a container_format.")
        container_format, name = _CAMERAS[sys.platform]
        address = name.format(device) if isinstance(device, int) else device
        return cls(address, container_format=container_format, options=options, timeout_seconds=timeout_seconds)

    @property
    def description(self) -> str:
        return f"live stream {self.address}, newest frame first, frames that come too fast are dropped"

    @property
    def frames(self) -> None:
        return None

    def _read(self) -> Generator[Frame]:
        self.counters = Counters()
        newest = _Newest(self.counters)
        stopped = Event()
        thread = Thread(target=self._run, args=(newest, stopped), name="recal3r-live", daemon=True)
        thread.start()
        try:
            while (decoded := newest.take()) is not None:
                yield frame_of(decoded)
        finally:
            stopped.set()
            thread.join()

    def _run(self, newest: _Newest, stopped: Event) -> None:
        try:
            self._receive(newest, stopped)
        except BaseException as error:  # all of them are raised again, at the consumer
            newest.end(error)
        else:
            newest.end(None)

    def _receive(self, newest: _Newest, stopped: Event) -> None:
        with opened(
            self.address,
            self.address,
            container_format=self.container_format,
            options=self.options,
            timeout_seconds=self.timeout_seconds,
        ) as container:
            try:
                self._decode(container, newest, stopped)
            except FFmpegError as error:
                raise SourceError(
                    f"{self.address} broke off after {self.counters.received} frames ({reason(error)}); "
                    "see whether it still sends, or wait longer with timeout_seconds."
                ) from error

    def _decode(self, container: InputContainer, newest: _Newest, stopped: Event) -> None:
        stream = video_of(container)
        # Threads of the decoder that each hold a frame would make every frame late.
        stream.thread_type = "SLICE"
        for packet in container.demux(stream):
            if stopped.is_set():
                return
            try:
                frames = stream.decode(packet)
            except InvalidDataError:  # networks lose packets: the next key frame mends it
                self.counters.broken += 1
            else:
                for frame in frames:
                    newest.put(frame)


def _defaults(address: str) -> dict[str, str]:
    if "://" not in address:
        return {}
    return {**_NETWORK, "rtsp_transport": "tcp"} if address.startswith("rtsp") else _NETWORK


class _Newest:
    """A place for one frame. Changes: who puts replaces, who takes empties it or waits."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._changed = Condition()
        self._frame: VideoFrame | None = None
        self._ended = False
        self._error: BaseException | None = None

    def put(self, frame: VideoFrame) -> None:
        with self._changed:
            self._counters.received += 1
            self._counters.dropped += self._frame is not None
            self._frame = frame
            self._changed.notify()

    def end(self, error: BaseException | None) -> None:
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify()

    def take(self) -> VideoFrame | None:
        """The newest frame, as soon as there is one; None after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._frame is not None or self._ended)
            frame, self._frame = self._frame, None
            if frame is None and self._error is not None:
                raise self._error
            return frame
