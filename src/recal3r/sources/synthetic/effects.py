"""What a real camera does to a picture. The ground truth of a frame is never touched by it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import ConfigError
from recal3r.sources.synthetic.chance import channel, mix, smooth_noise, uniform

_EXPOSURE_PERIOD = 24.0  # frames between independent values of the exposure


@dataclass(frozen=True)
class Effects:
    """All off by default."""

    moving_objects: int = 0  # boxes that move along a path of their own, 0 to 2
    exposure: float = 0.0  # largest change of brightness, in stops
    motion_blur: float = 0.0  # share of the time between two frames that the shutter is open
    blur_samples: int = 5  # pictures averaged while it is open
    noise: float = 0.0  # standard deviation of sensor noise, in steps of 1/255
    dropped: float = 0.0  # share of frames that never arrive

    def __post_init__(self) -> None:
        if self.moving_objects not in (0, 1, 2):
            raise ConfigError(f"moving_objects={self.moving_objects}: their lane has room for 0, 1 or 2.")
        if not 0.0 <= self.dropped <= 0.9:
            raise ConfigError(f"dropped={self.dropped} leaves no stream; use a share between 0 and 0.9.")
        if not 0.0 <= self.motion_blur <= 1.0 or self.blur_samples < 2:
            raise ConfigError(
                f"motion_blur={self.motion_blur} with {self.blur_samples} samples is no shutter; use a share of the "
                f"frame time between 0 and 1, and 2 samples or more."
            )
        for name, value in (("exposure", self.exposure), ("noise", self.noise)):
            if not 0.0 <= value < np.inf:
                raise ConfigError(f"{name}={value} is no strength; use a finite number, 0 or more.")


def is_dropped(effects: Effects, seed: int, index: int) -> bool:
    """Whether frame `index` never arrives. Frame 0 always does."""
    return index > 0 and uniform(seed, "dropped", index) < effects.dropped


def shutter_times(effects: Effects) -> list[float]:
    """Moments, in frames from the middle of the exposure, at which sub-frames are rendered."""
    count = effects.blur_samples
    return [effects.motion_blur * ((k + 0.5) / count - 0.5) for k in range(count)]


def develop(image: NDArray[np.float32], effects: Effects, seed: int, index: int) -> NDArray[np.uint8]:
    """Exposure, then noise: [H, W, 3] in 0..255 to bytes. The values given are overwritten."""
    if effects.exposure:
        image *= np.float32(2.0 ** (effects.exposure * smooth_noise(seed, "exposure", index / _EXPOSURE_PERIOD)))
    if effects.noise:
        rng = np.random.default_rng(mix(seed, channel("noise"), index))
        image += np.float32(effects.noise) * rng.standard_normal(image.shape, np.float32)
    return np.clip(image + np.float32(0.5), 0.0, 255.0).astype(np.uint8)
