"""One batch in, gradients out: eagerly anywhere, or as a captured graph on a CUDA device.

B streams · T frames
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from recal3r.engine.session import Session, choose
from recal3r.model.cut3r import Cut3r
from recal3r.train.footage import Takes
from recal3r.train.helpers import HelperHeads
from recal3r.train.lessons import Lesson, Losses, encoder_lesson, pairs_lesson, streams_lesson
from recal3r.train.recipe import Helpers

WARM_UPS = 3


class Carried(NamedTuple):
    """What streams take with them from window to window, without its gradient."""

    state: Tensor  # S [B, N, C]
    pose_memory: Tensor  # [B, M, 2C]


class Learned(NamedTuple):
    losses: Losses  # detached
    carried: Carried | None


@dataclass(frozen=True)
class Task:
    """What a step computes, whatever the batch: steps of one task are one graph."""

    kind: Literal["encoder", "pairs", "streams"]
    helpers: Helpers
    starts: tuple[bool, ...] = ()  # which streams begin anew and take nothing with them


@dataclass(frozen=True)
class Eager:
    """Computes as it goes. Gradients are where PyTorch leaves them, in the parameters."""

    model: Cut3r
    heads: HelperHeads
    precision: torch.dtype

    def __call__(self, task: Task, takes: Takes, carried: Carried | None, left: float | Tensor) -> Learned:
        for parameter in (*self.model.parameters(), *self.heads.parameters()):
            parameter.grad = None
        device = self.model.device.type
        with torch.autocast(device, self.precision, enabled=self.precision != torch.float32):
            lesson, after = _KINDS[task.kind](self.model, self.heads, takes, carried, task)
        helping = {name: left * loss for name, loss in lesson.helping.items()}
        losses = lesson.losses | helping
        torch.stack(list(losses.values())).sum().backward()  # pyright: ignore[reportUnknownMemberType]
        return Learned({name: loss.detach() for name, loss in losses.items()}, after)


class Graphed:
    """The same, recorded once per task and played back: small networks spend most of their time launching kernels."""

    def __init__(self, eager: Eager) -> None:
        self.eager = eager
        self._recordings: dict[Task, _Recording] = {}

    def __call__(self, task: Task, takes: Takes, carried: Carried | None, left: float | Tensor) -> Learned:
        if any(task.starts) and not all(task.starts):  # too many kinds of these to record each
            return self.eager(task, takes, carried, left)
        if task not in self._recordings:
            self._recordings[task] = _Recording(self.eager, task, takes, carried)
        return self._recordings[task].play(takes, carried, left)


class _Recording:
    def __init__(self, eager: Eager, task: Task, takes: Takes, carried: Carried | None) -> None:
        self.parameters = [*eager.model.parameters(), *eager.heads.parameters()]
        self.takes = Takes(*(part.clone() for part in takes))
        self.carried = None if carried is None else Carried(*(part.clone() for part in carried))
        self.left = torch.ones((), device=eager.model.device)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                eager(task, self.takes, self.carried, self.left)
        torch.cuda.current_stream().wait_stream(aside)
        for parameter in self.parameters:
            parameter.grad = None
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.learned = eager(task, self.takes, self.carried, self.left)
        self.gradients = [parameter.grad for parameter in self.parameters]

    def play(self, takes: Takes, carried: Carried | None, left: float | Tensor) -> Learned:
        for to, given in zip(self.takes, takes, strict=True):
            to.copy_(given)
        if self.carried is not None and carried is not None:
            for to, given in zip(self.carried, carried, strict=True):
                to.copy_(given)
        self.left.fill_(left)
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return self.learned


_Compute = Callable[[Cut3r, HelperHeads, Takes, Carried | None, Task], tuple[Lesson, Carried | None]]


def _encoder(
    model: Cut3r, heads: HelperHeads, takes: Takes, carried: Carried | None, task: Task
) -> tuple[Lesson, None]:
    del carried  # pictures are no streams
    return encoder_lesson(model, heads, takes, task.helpers), None


def _pairs(model: Cut3r, heads: HelperHeads, takes: Takes, carried: Carried | None, task: Task) -> tuple[Lesson, None]:
    del carried
    return pairs_lesson(model, heads, takes, task.helpers), None


def _streams(
    model: Cut3r, heads: HelperHeads, takes: Takes, carried: Carried | None, task: Task
) -> tuple[Lesson, Carried]:
    del heads  # streams are helped by the decoder's own attention
    session = Session.fresh(model, len(takes.images))
    if carried is not None:
        session.state = choose(task.starts, session.state, carried.state)
        session.pose_memory = choose(task.starts, session.pose_memory, carried.pose_memory)
        for place, starts in zip(session.places, task.starts, strict=True):
            place.starts = starts
    lesson = streams_lesson(model, session, takes, task.helpers)
    return lesson, Carried(session.state.detach(), session.pose_memory.detach())


_KINDS: Mapping[str, _Compute] = {"encoder": _encoder, "pairs": _pairs, "streams": _streams}
