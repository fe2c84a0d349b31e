"""`recal3r judge`: what a network of our own has learned, in rooms that training never asked about."""

from __future__ import annotations

import dataclasses
from dataclasses import field

from recal3r.cli.command import Command
from recal3r.errors import EvalError

FRAMES = 100


@dataclasses.dataclass(frozen=True)
class Judge:
    """Walk a network through rooms of the test split under cut3r, and print what it got wrong."""

    weights: str = field(default="tiny", metadata={"place": True, "help": "a known name, or a file"})
    rooms: int = field(default=48, metadata={"help": "how many rooms of the test split"})
    workers: int = field(default=1, metadata={"help": "processes that render"})

    def run(self) -> int:
        from pathlib import Path
        from tempfile import TemporaryDirectory

        from recal3r.model.load import load_model
        from recal3r.sources.synthetic import open_shards
        from recal3r.train.footage import MappedFootage, render
        from recal3r.train.validate import stream_figures, validation_takes

        if self.rooms < 1:
            raise EvalError(f"{self.rooms} rooms say nothing; ask for 1 or more.")
        model = load_model(self.weights)
        with TemporaryDirectory(prefix="recal3r-judge-") as folder:
            clips = Path(folder) / "test"
            render(clips, "test", self.rooms, FRAMES, model.config.image_size, workers=self.workers)
            takes = validation_takes(MappedFootage([open_shards(clips)]), self.rooms, FRAMES)
            figures = stream_figures(model, takes, control=True)
        print(f"{self.rooms} rooms of the test split, {FRAMES} frames each, under cut3r")
        for name, meaning in _MEANINGS.items():
            print(f"{figures[name]:7.3f}  {meaning}")
        return 0


_MEANINGS = {
    "translation": "translation over frames 2 to 8, as a share of what 'no motion' gets wrong",
    "rotation": "rotation over frames 2 to 8, likewise",
    "abs_rel": "AbsRel of depth over the first 8 frames, in metres as it is",
    "delta_1.25": "δ < 1.25 of the same",
    "ate_32": "ATE over 32 frames, as a share of the trajectory's spread",
    "reset_ate_32": "  with the state reset after every frame",
    "line_32": "  of a camera that walks straight on",
    "ate_100": "ATE over 100 frames",
    "reset_ate_100": "  with the state reset after every frame",
    "line_100": "  of a camera that walks straight on",
}

COMMAND: type[Command] = Judge
