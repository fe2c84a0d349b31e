"""Processes that share every batch train the network that one process trains."""

import dataclasses
from functools import partial
from pathlib import Path

import pytest
import torch

from recal3r.sources.synthetic import open_shards
from recal3r.train import checkpoint as disk
from recal3r.train.crew import ALONE, Crew, crew
from recal3r.train.footage import MappedFootage, Takes
from recal3r.train.loop import Trainer
from recal3r.train.recipe import TrainError
from train.short import SHORT

MIXED = {"long": (4, 8)}  # streams begin one by one, so that not every process has one that does
EVEN = dataclasses.replace(
    SHORT,
    stages=tuple(
        dataclasses.replace(stage, batch=4, horizons=MIXED.get(stage.name, stage.horizons)) for stage in SHORT.stages
    ),
)
STOPPED = 10  # in the middle of a stream


def _train(me: Crew, clips: Path, folder: Path, until: int | None = None, resume: bool = False) -> Trainer:
    torch.set_num_threads(1)
    footage = MappedFootage([open_shards(clips)])
    trainer = Trainer(EVEN, footage, None, folder, crew=me, say=lambda _: None)
    if resume:
        trainer.restore(disk.read_checkpoint(folder))
    trainer.run(until)
    return trainer


def _train_and_forget(me: Crew, clips: Path, folder: Path, until: int | None) -> None:
    _train(me, clips, folder, until)


def test_two_processes_train_what_one_trains_and_stop_where_one_can_go_on(clips, tmp_path, one_thread):
    alone = _train(ALONE, clips, tmp_path / "alone")
    together = partial(_train_and_forget, clips=clips, folder=tmp_path / "both", until=STOPPED)
    with crew(2, together) as me:
        together(me)
    left = disk.read_checkpoint(tmp_path / "both")
    assert len(left["carried"]["state"]) == 4  # of the whole batch
    trainer = _train(ALONE, clips, tmp_path / "both", resume=True)
    assert len(trainer.rows) == len(alone.rows) == 14
    # Choice losses are means over what is seen in a share, not in the batch; hence not to the last digit.
    for row, expected in zip(trainer.rows, alone.rows, strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=2e-2)
    for name, tensor in alone.model.state_dict().items():
        torch.testing.assert_close(trainer.model.state_dict()[name], tensor, atol=5e-3, rtol=0, msg=name)


def test_shares_make_up_the_whole():
    takes = Takes(*(torch.arange(6.0).view(6, 1) for _ in Takes._fields))
    shares = [Crew(rank, 3).share(takes).images for rank in range(3)]
    assert torch.equal(torch.stack(shares, dim=1).flatten(0, 1), takes.images)
    assert torch.equal(Crew(1, 3).own(takes.images), shares[1])


def test_no_process_is_an_error():
    with pytest.raises(TrainError, match="use 1 or more"), crew(0, print):
        pass


def test_batches_that_cannot_be_shared_evenly_are_an_error(footage, tmp_path):
    with pytest.raises(TrainError, match="2 processes cannot share the batches of long evenly"):
        Trainer(SHORT, footage, None, tmp_path, crew=Crew(0, 2))
