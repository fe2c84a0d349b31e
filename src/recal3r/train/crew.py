"""Processes that train one network together: each computes the gradient of its share of every batch.

All draw the same batches and take the same steps, so that what they store is what one process alone would store.

B streams of the whole batch · b = B / size streams of one process
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, distributed

from recal3r.errors import Recal3rError
from recal3r.train.footage import Takes
from recal3r.train.recipe import TrainError


@dataclass(frozen=True)
class Crew:
    rank: int = 0
    size: int = 1

    @property
    def mine(self) -> slice:
        """Which streams of a batch are this process'."""
        return slice(self.rank, None, self.size)

    def share(self, takes: Takes) -> Takes:  # [B, ...] -> [b, ...]
        return Takes(*(part[self.mine] for part in takes))

    def whole(self, part: Tensor) -> Tensor:  # [b, ...] -> [B, ...]: what `share` took apart
        if self.size == 1:
            return part
        parts = [torch.empty_like(part) for _ in range(self.size)]
        distributed.all_gather(parts, part.contiguous())
        return torch.stack(parts, dim=1).flatten(0, 1)

    def own(self, whole: Tensor) -> Tensor:  # [B, ...] -> [b, ...]
        return whole[self.mine].clone()

    def average_gradients(self, parameters: Sequence[Tensor]) -> None:
        """What one process had no use for, as a token of first frames where no stream began, counts as 0 there. What
        none had use for keeps no gradient."""
        if self.size == 1:
            return
        used = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        distributed.all_reduce(used)
        for parameter, anywhere in zip(parameters, used, strict=True):
            if anywhere and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.average([parameter.grad for parameter in parameters if parameter.grad is not None])

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Puts into each tensor its mean over the processes."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors]) / self.size
        distributed.all_reduce(flat)
        first = 0
        for tensor in tensors:
            tensor.copy_(flat[first : first + tensor.numel()].view_as(tensor))
            first += tensor.numel()

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in one of the processes: the same answer in all."""
        if self.size == 1:
            return flag
        up = torch.tensor(float(flag))
        distributed.all_reduce(up)
        return bool(up > 0)


ALONE = Crew()


@contextmanager
def crew(size: int, work: Callable[[Crew], None]) -> Generator[Crew]:
    """This process with `size - 1` others, which do `work` (it must be picklable) meanwhile."""
    if size < 1:
        raise TrainError(f"{size} processes train nothing; use 1 or more, at best one a core.")
    if size == 1:
        yield ALONE
        return
    with TemporaryDirectory(prefix="recal3r-crew-") as folder:
        meeting = Path(folder) / "meeting"
        spawn = multiprocessing.get_context("spawn")
        others = [
            spawn.Process(target=_join, args=(Crew(rank, size), meeting, work), daemon=True) for rank in range(1, size)
        ]
        for other in others:
            other.start()
        with _met(Crew(0, size), meeting) as me:
            yield me
            for other in others:
                other.join()


@contextmanager
def _met(me: Crew, meeting: Path) -> Generator[Crew]:
    distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=me.rank, world_size=me.size)
    try:
        yield me
    finally:
        distributed.destroy_process_group()


def _join(me: Crew, meeting: Path, work: Callable[[Crew], None]) -> None:
    with _met(me, meeting):
        try:
            work(me)
        except Recal3rError as error:
            sys.exit(f"process {me.rank}: {error}")
