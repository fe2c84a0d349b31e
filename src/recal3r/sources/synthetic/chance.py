"""Randomness that can be asked for at any index, so that frame 100,000 needs no frame before it.

A generator has to be advanced; a hash has not. Everything that varies along a stream is therefore a hash of (seed,
channel, index), made smooth by a cubic B-spline: two times continuously differentiable, and never outside the range of
its control values, which is what keeps a camera inside a room without clamping.
"""

import math
import zlib

from numpy.random import Generator

_MASK = (1 << 64) - 1


def mix(*words: int) -> int:
    """A 64-bit hash of integers (the finaliser of splitmix64, once a word)."""
    state = 0x9E3779B97F4A7C15
    for word in words:
        state = (state ^ (word & _MASK)) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state = ((state ^ (state >> 31)) + 0x9E3779B97F4A7C15) & _MASK
    return state


def channel(name: str) -> int:
    """A number for a name. `hash` would change from one Python process to the next."""
    return zlib.crc32(name.encode())


def uniform(seed: int, name: str, index: int = 0) -> float:
    """A number in [0, 1) that depends on seed, name and index alone."""
    return (mix(seed, channel(name), index) >> 11) * 2.0**-53


def smooth_noise(seed: int, name: str, x: float) -> float:
    """A smooth function of x with values in [-1, 1], one independent control value per unit of x.

    Its standard deviation is about 0.40 and its mean absolute slope about 0.43 per unit.
    """
    cell = math.floor(x)
    t = x - cell
    a, b, c, d = (2.0 * uniform(seed, name, cell + k) - 1.0 for k in (-1, 0, 1, 2))
    t2, t3 = t * t, t * t * t
    return (
        a * (1.0 - 3.0 * t + 3.0 * t2 - t3)
        + b * (4.0 - 6.0 * t2 + 3.0 * t3)
        + c * (1.0 + 3.0 * t + 3.0 * t2 - 3.0 * t3)
        + d * t3
    ) / 6.0


def draw_colour(
    rng: Generator, low: float = 0.15, high: float = 0.9, saturation: float = 0.5
) -> tuple[float, float, float]:
    """A random colour of some brightness; saturation 0 is grey, 1 is anything."""
    value = rng.uniform(low, high)
    rgb = value + saturation * (rng.uniform(low, high, 3) - value)
    return (float(rgb[0]), float(rgb[1]), float(rgb[2]))
