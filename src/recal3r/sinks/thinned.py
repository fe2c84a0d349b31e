"""A stream without an end, remembered in bounded space: fewer and fewer moments of it, always evenly spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark

Moment = Mapping[str, NDArray[Any]]


class Thinned:
    """Every `stride`-th moment, from the first on. When there are more than the budget, the stride doubles.

    It changes as moments come; how many have come alone decides which are kept.
    """

    def __init__(self, budget: int) -> None:
        if budget < 1:
            raise OutputError(f"A budget of {budget} keeps nothing of a stream; use 1 or more.")
        self.budget, self.stride, self.count = budget, 1, 0
        self.kept: list[Moment] = []

    def offer(self, make: Callable[[], Moment]) -> None:
        """The next moment; it is made only if it is kept."""
        if self.count % self.stride == 0:
            self.kept.append(make())
        self.count += 1
        if len(self.kept) > self.budget:
            self.kept, self.stride = self.kept[::2], 2 * self.stride

    def mark(self) -> Mark:
        arrays = {f"{place}/{name}": part for place, moment in enumerate(self.kept) for name, part in moment.items()}
        return Mark({"stride": self.stride, "count": self.count, "kept": len(self.kept)}, arrays)

    def resume(self, mark: Mark) -> None:
        self.stride, self.count = mark.numbers["stride"], mark.numbers["count"]
        self.kept = [mark.inside(str(place)).arrays for place in range(mark.numbers["kept"])]


class Curves:
    """Numbers a frame, drawn over time: their mean, least and most in each of at most `budget` stretches of frames.

    When there are more stretches, neighbours are put together: no peak is lost, however long the stream. NaN is a
    number that a frame did not have.
    """

    def __init__(self, budget: int) -> None:
        if budget < 2:
            raise OutputError(f"A budget of {budget} stretches draws no curve; use 2 or more.")
        self.budget, self.stride, self.count = budget, 1, 0
        self.names: tuple[str, ...] = ()
        # [stretches, names, (how many, sum, least, most)]
        self._stretches: NDArray[np.float64] = np.empty((0, 0, 4))

    def add(self, numbers: Mapping[str, float]) -> None:
        self._know(numbers)
        if self.count % self.stride == 0:
            self._begin_stretch()
        self.count += 1
        row = self._stretches[-1]
        for place, name in enumerate(self.names):
            number = numbers.get(name, np.nan)
            if np.isfinite(number):
                many, total, least, most = row[place]
                row[place] = many + 1, total + number, min(least, number), max(most, number)

    def mean(self, name: str) -> NDArray[np.float64]:  # [stretches], NaN where there was none
        many, total = self._stretches[:, self.names.index(name), :2].T
        return np.divide(total, many, out=np.full(len(many), np.nan), where=many > 0)

    def span(self, name: str) -> NDArray[np.float64]:  # [stretches, (least, most)]
        stretches = self._stretches[:, self.names.index(name)]
        return np.where(stretches[:, :1] > 0, stretches[:, 2:], np.nan)

    @property
    def frames(self) -> NDArray[np.float64]:
        """Where each stretch lies: the middle of its frames, counted from 0."""
        begins = np.arange(len(self._stretches)) * self.stride
        return (begins + np.minimum(begins + self.stride, self.count) - 1) / 2

    def mark(self) -> Mark:
        numbers = {"stride": self.stride, "count": self.count, "names": list(self.names)}
        return Mark(numbers, {"stretches": self._stretches.copy()})

    def resume(self, mark: Mark) -> None:
        self.stride, self.count = mark.numbers["stride"], mark.numbers["count"]
        self.names, self._stretches = tuple(mark.numbers["names"]), mark.arrays["stretches"].copy()

    def _know(self, numbers: Mapping[str, float]) -> None:
        new = tuple(name for name in numbers if name not in self.names)
        self.names += new
        self._stretches = np.concatenate((self._stretches, _empty(len(self._stretches), len(new))), axis=1)

    def _begin_stretch(self) -> None:
        if len(self._stretches) == self.budget:
            even, odd = self._stretches[::2], self._stretches[1::2]
            odd = np.concatenate((odd, _empty(len(even) - len(odd), len(self.names))))
            least, most = np.minimum(even[..., 2], odd[..., 2]), np.maximum(even[..., 3], odd[..., 3])
            self._stretches = np.stack((even[..., 0] + odd[..., 0], even[..., 1] + odd[..., 1], least, most), -1)
            self.stride *= 2
            if self.count % self.stride:
                return
        self._stretches = np.concatenate((self._stretches, _empty(1, len(self.names))))


def _empty(stretches: int, names: int) -> NDArray[np.float64]:
    return np.broadcast_to((0.0, 0.0, np.inf, -np.inf), (stretches, names, 4))
