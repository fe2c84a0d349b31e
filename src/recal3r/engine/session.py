"""All that a stream is, between two frames.

B streams side by side · N state tokens · C decoder width · M pose memory slots
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_type_hints

import numpy as np
import torch
from torch import Tensor

from recal3r.engine.health import Past
from recal3r.errors import StreamError
from recal3r.model.cut3r import Cut3r
from recal3r.types import Array

T = TypeVar("T")


@dataclass
class StreamPlace:
    """Where one stream stands."""

    frames: int = 0
    """Frames seen."""
    segment_frames: int = 0
    """Frames written since the last reset."""
    starts: bool = True
    """Whether the next written frame is the first of a segment."""
    T_world_segment: Array = field(default_factory=lambda: np.eye(4))
    """Where this segment's first camera stands in the world of the stream's first one. [4, 4]"""
    past: Past = field(default_factory=Past)
    """What the stream's health is judged by."""


@dataclass
class Session:
    """The one object that changes while a stream runs. Its tensors are replaced, never written into.

    They are laid out as a saved session is, contiguous and a row for each stream: the order of sums in what follows
    depends on the layout, and a loaded session has to go on bit for bit.
    """

    state: Tensor  # S [B, N, C]
    initial_state: Tensor  # S_0 [1, N, C]
    pose_memory: Tensor  # [B, M, 2C]
    initial_memory: Tensor  # [1, M, 2C]
    rule_memory: Any  # a NamedTuple of tensors [B, ...], or None before the rule's first frame
    places: list[StreamPlace]

    @classmethod
    def fresh(cls, model: Cut3r, streams: int = 1) -> Session:
        state, memory = model.initial_state(), model.initial_memory()
        return cls(
            state=state.repeat(streams, 1, 1),
            initial_state=state,
            pose_memory=memory.repeat(streams, 1, 1),
            initial_memory=memory,
            rule_memory=None,
            places=[StreamPlace() for _ in range(streams)],
        )

    @property
    def starts(self) -> list[bool]:
        return [place.starts for place in self.places]

    def begin_segment(self, stream: int, T_world_segment: Array) -> None:
        """Forgets everything one stream has seen, but for where in the world it was."""
        forget = [i == stream for i in range(len(self.places))]
        self.state = choose(forget, self.initial_state.repeat(len(forget), 1, 1), self.state)
        self.pose_memory = choose(forget, self.initial_memory.repeat(len(forget), 1, 1), self.pose_memory)
        place = self.places[stream]  # its rule memory is replaced when the next frame starts it
        place.segment_frames, place.starts, place.T_world_segment = 0, True, T_world_segment
        place.past = replace(place.past, first_drift=None)

    def fork(self) -> Session:
        """An independent copy."""
        return Session(
            self.state.clone(),
            self.initial_state,
            self.pose_memory.clone(),
            self.initial_memory,
            None if self.rule_memory is None else map_tensors(torch.clone, self.rule_memory),
            [replace(place, T_world_segment=place.T_world_segment.copy()) for place in self.places],
        )


# -- values made of tensors, nested NamedTuples of [B, ...] ----------------------------------------------------------


def map_tensors(function: Any, *trees: Any) -> Any:
    """`function` over the tensors of equally built NamedTuples."""
    first = trees[0]
    if isinstance(first, Tensor):
        return function(*trees)
    return type(first)(*(map_tensors(function, *parts) for parts in zip(*trees, strict=True)))


def choose(flags: Sequence[bool], yes: T, no: T) -> T:
    """Per stream, `yes` where its flag is up and `no` elsewhere; no copy where all agree."""
    if all(flags):
        return yes
    if not any(flags):
        return no

    def pick(a: Tensor, b: Tensor) -> Tensor:
        if a.shape != b.shape:
            raise StreamError(
                "Some streams of a batch were not to be written while the frame size changed, and this rule's memory "
                "cannot hold both sizes side by side; push such streams one by one."
            )
        mask = torch.tensor(flags, device=a.device).view(-1, *[1] * (a.ndim - 1))
        return torch.where(mask, a, b)

    return map_tensors(pick, yes, no)


def all_finite(*trees: Any) -> Tensor:  # [B]
    """Per stream, on its device: whether no number is NaN or infinite (or so large that a sum of them is)."""
    sums = [
        tensor.detach().reshape(tensor.shape[0], -1).sum(1) for tree in trees for tensor in flatten(tree, "").values()
    ]
    return torch.stack(sums).isfinite().all(0)


def where_sound(sound: Tensor, new: T, old: T | None) -> T:
    """Per stream, `new` where it is sound, bit for bit, and `old` elsewhere, without asking the device.

    Where there is no old one, or one of another size, `new` stands in for it with 0 for every number that is none.
    """

    def pick(a: Tensor, b: Tensor) -> Tensor:
        b = torch.nan_to_num(a, 0.0, 0.0, 0.0) if a is b or a.shape != b.shape else b
        return torch.where(sound.view(-1, *[1] * (a.ndim - 1)), a, b)

    return map_tensors(pick, new, new if old is None else old)


def flatten(tree: Any, prefix: str) -> dict[str, Tensor]:
    """Its tensors by dotted name."""
    if isinstance(tree, Tensor):
        return {prefix: tree}
    flat: dict[str, Tensor] = {}
    for name, part in tree._asdict().items():
        flat |= flatten(part, f"{prefix}.{name}")
    return flat


def unflatten(kind: type[T], tensors: dict[str, Tensor], prefix: str) -> T:
    """The inverse of `flatten`; a tensor that is missing is a KeyError."""
    if kind is Tensor:
        return tensors[prefix]  # type: ignore[return-value]
    hints = get_type_hints(kind)
    return kind(*(unflatten(hint, tensors, f"{prefix}.{name}") for name, hint in hints.items()))
