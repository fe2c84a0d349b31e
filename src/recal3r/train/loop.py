"""The training loop: stage after stage, and exactly on from where it stopped."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recal3r.model.checkpoint import read_checkpoint as read_weights
from recal3r.train import checkpoint as disk
from recal3r.train.crew import ALONE, Crew
from recal3r.train.curves import Row, draw, write_rows
from recal3r.train.footage import Footage, Reels, Takes
from recal3r.train.gradients import Carried, Eager, Graphed, Task
from recal3r.train.helpers import HelperHeads
from recal3r.train.initial import compile_blocks, fresh_network, heads_in_full_precision, recall_pose_token
from recal3r.train.lessons import Losses
from recal3r.train.optimizer import Optimizer
from recal3r.train.recipe import NO_HELP, Recipe, Stage, TrainError
from recal3r.train.validate import pair_figures, stream_figures, validation_pairs, validation_takes

_LOWEST_RATE = 0.05  # of the stage's learning rate, at its end


class Trainer:
    """One recipe on its way. Everything that changes is in `contents`, so that it can be stored.

    graphs: record each kind of step once and play it back; None: on a CUDA device.
    more: asked for the footage of each new stage, where it may have grown since the last one.
    crew: the processes that do this together, of which one judges and writes.
    compiled: fuse each transformer block by PyTorch's compiler, which takes minutes at first.
    """

    def __init__(
        self,
        recipe: Recipe,
        footage: Footage,
        held_out: Footage | None,
        folder: Path,
        *,
        device: str = "cpu",
        precision: torch.dtype = torch.float32,
        graphs: bool | None = None,
        more: Callable[[], Footage] | None = None,
        crew: Crew = ALONE,
        compiled: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        self.recipe, self.footage, self.held_out, self.folder, self.say = recipe, footage, held_out, folder, say
        self.device, self.precision, self.crew = torch.device(device), precision, crew
        odd = ", ".join(stage.name for stage in recipe.stages if stage.batch % crew.size)
        if odd:
            raise TrainError(f"{crew.size} processes cannot share the batches of {odd} evenly; use a divisor.")
        self.model = fresh_network(recipe.network, recipe.seed).to(self.device)
        heads_in_full_precision(self.model, self.device.type)
        if compiled:
            compile_blocks(self.model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed + 1)
            self.helper_heads = HelperHeads(recipe.network).to(self.device)
        self.rng = np.random.default_rng(recipe.seed)
        self.rows: list[Row] = []
        self.validations: list[Row] = []
        self.stage_index, self.iteration, self.steps, self.seconds = 0, 0, 0, 0.0
        self.stopping = False
        self.more = more
        self.graphs = self.device.type == "cuda" if graphs is None else graphs
        self._enter(self.stage)

    @property
    def stage(self) -> Stage:
        return self.recipe.stages[self.stage_index]

    @property
    def finished(self) -> bool:
        return self.stage_index == len(self.recipe.stages) - 1 and self.iteration >= self.stage.iterations

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> None:
        """To the end of the recipe, to `until` steps in all, or until `stopping` is set; then writes everything."""
        self.folder.mkdir(parents=True, exist_ok=True)
        pending: list[Losses] = []
        began = time.monotonic()
        while not (self.finished or self.steps == until or self.crew.any(self.stopping)):
            if self.iteration >= self.stage.iterations:
                self.stage_index, self.iteration = self.stage_index + 1, 0
                self.footage = self.footage if self.more is None else self.more()
                self._enter(self.stage)
            pending.append(self.train_step())
            now = time.monotonic()
            self.seconds, began = self.seconds + now - began, now
            if self.iteration % self.recipe.log_every == 0:
                self._log(pending)
                pending = []
            ends = self.iteration == self.stage.iterations
            if self.crew.rank == 0 and (ends or self.iteration % self.stage.validate_every == 0):
                self.validate(thorough=ends)
                began = time.monotonic()
            if ends or self.iteration % self.recipe.checkpoint_every == 0:
                self.save()
        self.save()

    def train_step(self) -> Losses:
        """One batch. Returns its losses."""
        stage = self.stage
        self.optimizer.set_rate(learning_rate(stage, self.iteration))
        left = stage.helpers.left(self.iteration / stage.iterations)
        starts, takes = self._takes()
        task = Task(stage.kind, stage.helpers if left else NO_HELP, starts)
        learned = self.learn(task, takes, self.carried, left)
        self.carried = learned.carried
        losses = learned.losses
        self.crew.average_gradients(self._parameters())
        self.crew.average(list(losses.values()))
        norm = torch.nn.utils.clip_grad_norm_(self._parameters(), self.recipe.clip)
        if math.isfinite(float(norm)):
            self.optimizer.step()
        self.iteration, self.steps = self.iteration + 1, self.steps + 1
        return {"loss": torch.stack(list(losses.values())).sum(), "gradient": norm} | {
            name: loss.clone() for name, loss in losses.items()
        }

    def stop_on(self, *signals: signal.Signals) -> None:
        """Finish the step under way, write a checkpoint, end."""

        def stop(*_: object) -> None:
            self.stopping = True

        for one in signals:
            signal.signal(one, stop)

    def _takes(self) -> tuple[tuple[bool, ...], Takes]:
        """This process' share of the next batch, and which of its streams begin anew."""
        if self.stage.kind != "streams":
            return (), self._moved(self.crew.share(self.footage.pairs(self.rng, self.stage.batch)))
        starts, takes = self._reels().next(self.rng)
        return tuple(starts[self.crew.mine].tolist()), self._moved(self.crew.share(takes))

    def _enter(self, stage: Stage) -> None:
        """A new stage: its own optimiser, its own streams."""
        if stage.recall_starts_as_pose_token:
            recall_pose_token(self.model)
        self.optimizer = Optimizer(self.model, self.helper_heads, self.recipe)
        self.carried: Carried | None = None
        self.reels: Reels | None = None
        if stage.kind == "streams":
            self.reels = Reels(self.footage, stage.batch, stage.horizons, stage.window, self.rng)
        eager = Eager(self.model, self.helper_heads, self.precision)
        self.learn = Graphed(eager) if self.graphs else eager

    def _reels(self) -> Reels:
        if self.reels is None:
            raise TrainError(f"Stage {self.stage.name!r} has no streams; its kind must be 'streams'.")
        return self.reels

    def _moved(self, takes: Takes) -> Takes:
        return Takes(*(part.to(self.device) for part in takes))

    def _parameters(self) -> list[Tensor]:
        return [*self.model.parameters(), *self.helper_heads.parameters()]

    # -- showing -----------------------------------------------------------------------------------------------------

    def validate(self, thorough: bool) -> None:
        held_out, stage = self.held_out, self.stage
        if held_out is None or stage.kind == "encoder":
            return  # there is nothing to judge, or nothing that can be judged
        if stage.kind == "pairs":
            figures = pair_figures(self.model, self._moved(validation_pairs(held_out, 200)))
        else:
            long = thorough and stage.window >= 8
            takes = validation_takes(held_out, 48 if thorough else 24, 100 if long else 32)
            figures = stream_figures(self.model, takes, control=long)
        self.validations.append({"step": self.steps, "stage": stage.name, "iteration": self.iteration, **figures})
        self.say("   validation " + "  ".join(f"{name} {value:.3f}" for name, value in figures.items()))

    def _log(self, pending: list[Losses]) -> None:
        names = list(dict.fromkeys(name for losses in pending for name in losses))
        means = {name: float(np.mean([float(losses[name]) for losses in pending if name in losses])) for name in names}
        self.rows.append({"step": self.steps, "stage": self.stage.name, "iteration": self.iteration, **means})
        self.say(
            f"{self.stage.name} {self.iteration}/{self.stage.iterations} {self.seconds:.0f}s  "
            + "  ".join(f"{name} {value:.3f}" for name, value in means.items())
        )

    # -- storing -----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        contents = self.contents()
        if self.crew.rank != 0:
            return
        disk.write_checkpoint(self.folder, contents)
        place = disk.Place(self.stage.name, self.iteration, self.steps, round(self.seconds, 1))
        latest = {str(row["stage"]): {k: v for k, v in row.items() if isinstance(v, float)} for row in self.validations}
        disk.write_small(self.folder, self.model, place, latest)
        write_rows(self.folder / "curves.csv", self.rows)
        write_rows(self.folder / "validation.csv", self.validations)
        motion = ("translation", "rotation", "abs_rel", "ate_32", "ate_100")
        parts = ("camera", "world", "translation", "rotation", "step_translation", "step_rotation")
        draw(
            self.folder / "curves.png",
            [("losses", parts, self.rows), ("validation on held-out scenes", motion, self.validations)],
        )

    def contents(self) -> dict[str, Any]:
        carried = None if self.carried is None else Carried(*(self.crew.whole(part) for part in self.carried))
        return {
            "recipe": self.recipe.name,
            "model": self.model.state_dict(),
            "helper_heads": self.helper_heads.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": disk.generator_to_json(self.rng),
            "stage": self.stage.name,
            "iteration": self.iteration,
            "steps": self.steps,
            "seconds": self.seconds,
            "reels": None if self.reels is None else self.reels.to_json(),
            "carried": None if carried is None else carried._asdict(),
            "rows": self.rows,
            "validations": self.validations,
        }

    def restore(self, contents: dict[str, Any]) -> None:
        self.go_to(contents["stage"], contents["iteration"])
        self.model.load_state_dict(contents["model"])
        self.helper_heads.load_state_dict(contents["helper_heads"])
        self.optimizer.load_state_dict(contents["optimizer"])
        if self.reels is not None:
            self.reels.restore(contents["reels"])
        carried = contents["carried"]
        self.carried = (
            None
            if carried is None
            else Carried(**{name: self.crew.own(whole).to(self.device) for name, whole in carried.items()})
        )
        self.rng = disk.generator_from_json(contents["rng"])
        self.steps, self.seconds = contents["steps"], contents["seconds"]
        self.rows, self.validations = contents["rows"], contents["validations"]

    def start_from(self, weights: Path, stage: str, iteration: int = 0) -> None:
        """Only the weights are known: moments are gathered anew, while the learning rate warms up."""
        self.model.load_official_state_dict(read_weights(weights).tensors)
        self.go_to(stage, iteration)

    def go_to(self, stage: str, iteration: int) -> None:
        names = [one.name for one in self.recipe.stages]
        if stage not in names:
            raise TrainError(f"The recipe has no stage {stage!r}; it has {', '.join(names)}.")
        self.stage_index, self.iteration = names.index(stage), iteration
        self._enter(self.stage)


def learning_rate(stage: Stage, iteration: int) -> float:
    """Warms up, then falls as a cosine does."""
    warm = min(1.0, (iteration + 1) / stage.warmup)
    fall = 0.5 * (1 + math.cos(math.pi * iteration / stage.iterations))
    return stage.learning_rate * warm * (_LOWEST_RATE + (1 - _LOWEST_RATE) * fall)
