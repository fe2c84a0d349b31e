"""The synthetic world as a source: endless, the same for the same seed."""

from __future__ import annotations

from collections.abc import Generator

from recal3r.sources.base import Reader, SourceError
from recal3r.sources.synthetic import SyntheticWorld, WorldConfig
from recal3r.types import Frame


class MadeUp(Reader):
    """Pictures and timestamps of a walk through a made-up room; their truth is `SyntheticWorld(seed, config)`'s.

    frames: how many; None for no end.
    """

    def __init__(
        self,
        seed: int,
        *,
        frames: int | None = None,
        width: int | None = None,
        height: int | None = None,
        config: WorldConfig | None = None,
    ) -> None:
        super().__init__()
        if frames is not None and frames < 1:
            raise SourceError(f"frames={frames} of a synthetic world is no stream; use 1 or more, or None for no end.")
        if config is not None and (width, height) != (None, None):
            raise SourceError("A synthetic world was given a size beside a whole configuration; put the size into it.")
        self.seed = seed
        self.config = config or _sized(width, height)
        self._frames = frames

    @property
    def description(self) -> str:
        length = "without an end" if self._frames is None else f"{self._frames} frames"
        return f"synthetic world {self.seed}: {self.config.width}x{self.config.height}, {length}"

    @property
    def frames(self) -> int | None:
        return self._frames

    def _read(self) -> Generator[Frame]:
        for frame in SyntheticWorld(self.seed, self.config).frames(self._frames):
            yield Frame(frame.image, frame.timestamp)


def _sized(width: int | None, height: int | None) -> WorldConfig:
    """Where one side is given, the other follows at 4:3."""
    usual = WorldConfig()
    if width is None and height is None:
        return usual
    width = width or round((height or usual.height) * usual.width / usual.height)
    return WorldConfig(width=width, height=height or round(width * usual.height / usual.width))
