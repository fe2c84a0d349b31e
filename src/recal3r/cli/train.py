"""`recal3r train`: footage in, weights out."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from recal3r.cli.command import Command

if TYPE_CHECKING:
    from recal3r.train.crew import Crew

FRAMES_A_CLIP, CLIPS_A_FOLDER = 100, 1000


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a network of our own by a recipe; ends cleanly, and can go on later, when it is told to stop."""

    data: Path = field(metadata={"help": "the folder whose train* and validation* folders hold clips"})
    out: Path = field(metadata={"help": "the folder for checkpoints, weights and curves"})
    recipe: Literal["tiny", "tiny-cpu"] = field(default="tiny", metadata={"help": "what is trained, stage by stage"})
    resume: bool = field(default=False, metadata={"help": "go on from the checkpoint in the folder"})
    weights: Path | None = field(default=None, metadata={"help": "begin with these weights, at --stage"})
    stage: str | None = field(default=None, metadata={"help": "the stage to begin (with --weights or --resume)"})
    iteration: int = field(default=0, metadata={"help": "the iteration of that stage"})
    render: int = field(default=0, metadata={"help": "render this many clips into the data folder first"})
    workers: int = field(default=1, metadata={"help": "processes that render"})
    device: Literal["auto", "cpu", "cuda"] = field(default="auto", metadata={"help": "where to train"})
    precision: Literal["bfloat16", "float32"] = field(default="bfloat16", metadata={"help": "of the trunk"})
    graphs: bool | None = field(default=None, metadata={"help": "play back recorded steps (default: on a GPU)"})
    threads: int | None = field(default=None, metadata={"help": "CPU threads of each process"})
    processes: int = field(default=1, metadata={"help": "processes that share every batch: one a core is fastest"})
    compiled: bool = field(default=False, metadata={"help": "fuse blocks by PyTorch's compiler: minutes, then faster"})

    def run(self) -> int:
        from recal3r.train.crew import crew

        if self.render:
            from recal3r.train.recipe import RECIPES

            _render(self.data, self.render, RECIPES[self.recipe].network.image_size, self.workers)
        with crew(self.processes, self.train) as me:
            self.train(me)
        return 0

    def train(self, me: Crew) -> None:
        """The whole of it, as one of those who do it."""
        import signal

        import torch

        from recal3r.train.checkpoint import read_checkpoint
        from recal3r.train.footage import Footage, open_footage
        from recal3r.train.loop import Trainer
        from recal3r.train.recipe import RECIPES

        if self.threads is not None or me.size > 1:
            torch.set_num_threads(self.threads or max(1, torch.get_num_threads() // me.size))
        device = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device

        def footage(now: Footage | None = None) -> Footage:
            return open_footage(self.data, "train", torch.device(device), now)

        trainer = Trainer(
            RECIPES[self.recipe],
            footage(),
            open_footage(self.data, "validation"),
            self.out,
            device=device,
            precision=torch.bfloat16 if self.precision == "bfloat16" else torch.float32,
            graphs=self.graphs,
            more=lambda: footage(trainer.footage),
            crew=me,
            compiled=self.compiled,
            say=_say if me.rank == 0 else _say_nothing,
        )
        trainer.stop_on(signal.SIGTERM, signal.SIGINT)
        if self.resume:
            trainer.restore(read_checkpoint(self.out))
            if self.stage is not None:
                trainer.go_to(self.stage, self.iteration)
        elif self.weights is not None:
            trainer.start_from(self.weights, self.stage or RECIPES[self.recipe].stages[0].name, self.iteration)
        trainer.run()


COMMAND: type[Command] = Train


def _render(folder: Path, clips: int, width: int, workers: int) -> None:
    """Clips to learn from, in folders that can be used as soon as they are there; held-out ones first."""
    from recal3r.train.footage import render

    render(folder / "validation", "validation", 48, FRAMES_A_CLIP, width, workers=workers)
    for first in range(0, clips, CLIPS_A_FOLDER):
        count = min(CLIPS_A_FOLDER, clips - first)
        name = folder / f"train-{first // CLIPS_A_FOLDER:03d}"
        render(name, "train", count, FRAMES_A_CLIP, width, workers=workers, first=first)


def _say(line: str) -> None:
    print(line, flush=True)


def _say_nothing(line: str) -> None:
    """One process speaks for all."""
    del line
