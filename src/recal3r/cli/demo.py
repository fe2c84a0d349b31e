"""`recal3r demo`: a room that exists nowhere, walked through and reconstructed, with the truth beside it."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recal3r import __version__
from recal3r.cli.command import Command
from recal3r.errors import OutputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image as PillowImage

    from recal3r.eval.portrait import Picture
    from recal3r.model.cut3r import Cut3r
    from recal3r.sources.synthetic import SyntheticFrame, SyntheticWorld
    from recal3r.types import Prediction

_WRITTEN = ("tum", "depth", "ply", "frames", "report")
_POINTS = 3000  # of a frame, in the picture
_MOMENTS = 6  # of the walk, in the picture
_SOME = 30  # frames after which there is a picture of the room already


class Walk(NamedTuple):
    """The truth about every frame; of its coloured points only some are kept."""

    depths: list[NDArray[np.floating]]  # T times [H, W]
    poses: NDArray[np.floating]  # [T, 4, 4]
    points: NDArray[np.floating]  # [T, K, 3] in the world
    colours: NDArray[np.uint8]  # [T, K, 3]
    shown: list[SyntheticFrame]  # at a few moments


class Found(NamedTuple):
    """What one rule made of the walk."""

    poses: NDArray[np.floating]  # [T, 4, 4]
    points: NDArray[np.floating]  # [T, K, 3]
    abs_rel: NDArray[np.floating]  # [T]
    depths: list[NDArray[np.floating]]  # at the same moments
    frames_per_second: float


@dataclasses.dataclass(frozen=True)
class Demo:
    """Reconstruct a walk through a made-up room under several rules, and show it beside the truth."""

    output: Path = field(default=Path("out/demo"), metadata={"help": "the folder to write to"})
    frames: int = field(default=300, metadata={"help": "how many frames to walk"})
    seed: int = field(default=0, metadata={"help": "which room of the test split, none of which was trained on"})
    rules: tuple[str, ...] = field(default=("cut3r", "recal3r"), metadata={"help": "the update rules to compare"})
    weights: str = field(default="tiny", metadata={"help": "a known name, or a .pth or .safetensors file"})
    overwrite: bool = field(default=False, metadata={"help": "write into a folder that holds files already"})

    def run(self) -> int:
        from recal3r.model.load import load_model
        from recal3r.rules import get_rule
        from recal3r.sinks.files import write_whole
        from recal3r.sinks.trajectory import tum_line
        from recal3r.sources.synthetic import SyntheticWorld, Training, WorldConfig, split_seed

        if self.frames < _MOMENTS:
            raise OutputError(f"--frames {self.frames} is too short a walk; take at least {_MOMENTS}.")
        if self.output.is_dir() and any(self.output.iterdir()) and not self.overwrite:
            raise OutputError(f"The folder {self.output} is not empty; name a new one, or add --overwrite.")
        for rule in self.rules:
            get_rule(rule)
        self._make_folders()

        model = load_model(self.weights, device="cpu", dtype="float32")
        width = model.config.image_size
        config = WorldConfig(width=width, height=3 * width // 4, trajectory=Training())
        world = SyntheticWorld(split_seed("test", self.seed), config)
        walk = self._walk(world)
        found = {rule: self._reconstruct(model, rule, world, walk) for rule in self.rules}

        lines = [tum_line(frame / config.frame_rate, pose) for frame, pose in enumerate(walk.poses)]
        write_whole(self.output / "trajectory-truth.tum.txt", ("\n".join(lines) + "\n").encode())
        self._write_settings()
        _picture(walk, found).save(self.output / "reconstruction.png")
        _print_table(walk, found)
        print(f"\nThe room, its reconstructions and the ways through it: {self.output / 'reconstruction.png'}")
        for rule in self.rules:
            print(f"{rule}: {self.output / slug(rule)}: trajectory, cloud.ply, depth, report.html")
            print(f"    recal3r view {self.output / slug(rule)}")
        return 0

    def _make_folders(self) -> None:
        for folder in (self.output, *(self.output / slug(rule) for rule in self.rules)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"The folder {folder} cannot be made ({error.strerror}); name another.") from error

    def _walk(self, world: SyntheticWorld) -> Walk:
        import numpy as np

        rows: list[tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.uint8]]] = []
        shown: list[SyntheticFrame] = []
        depths: list[NDArray[np.floating]] = []
        for frame in world.frames(self.frames):
            some = sampled(frame.depth.size)
            points, colours = frame.points_world().reshape(-1, 3)[some], frame.image.reshape(-1, 3)[some]
            rows.append((frame.T_world_camera, points, colours))
            depths.append(frame.depth)
            shown += [frame] if frame.index in self._moments() else []
        poses, points, colours = zip(*rows, strict=True)
        return Walk(depths, np.stack(poses), np.stack(points), np.stack(colours), shown)

    def _moments(self) -> list[int]:
        return [round(k * (self.frames - 1) / (_MOMENTS - 1)) for k in range(_MOMENTS)]

    def _reconstruct(self, model: Cut3r, rule: str, world: SyntheticWorld, walk: Walk) -> Found:
        """The same walk through the pipeline of `recal3r run`."""
        import numpy as np

        import recal3r
        from recal3r.eval.metrics.depth import abs_rel
        from recal3r.pipeline.outputs import OUTPUTS
        from recal3r.pipeline.pipeline import Pipeline
        from recal3r.sinks import Tee
        from recal3r.sources.made_up import MadeUp

        folder = self.output / slug(rule)
        options = {"edge": 0.03, "budget": 200_000, "least_confidence": 1.0}
        sinks = Tee(*(OUTPUTS[name].open(folder, options, overwrite=self.overwrite) for name in _WRITTEN))
        outputs = sinks.needs | {"pose", "depth", "points_world", "learning_rate"}
        source = MadeUp(world.seed, frames=self.frames, config=world.config)
        pipeline = Pipeline(source, recal3r.Reconstructor(model, rule, sorted(outputs)), sinks)
        poses: list[NDArray[np.floating]] = []
        points: list[NDArray[np.floating]] = []
        errors: list[float] = []
        depths: list[NDArray[np.floating]] = []
        moments = self._moments()

        def watch(prediction: Prediction) -> None:
            pose, depth, cloud = prediction.T_world_camera, prediction.depth, prediction.points_world
            if pose is None or depth is None or cloud is None:
                raise OutputError("A prediction lacks what was asked for.")
            poses.append(pose)
            points.append(cloud.reshape(-1, 3)[sampled(depth.size)])
            errors.append(abs_rel(depth, walk.depths[prediction.index]))
            depths.extend([depth] if prediction.index in moments else [])

        with sinks:
            pipeline.run(watch)
        seconds = pipeline.stopwatch.seconds["network"]
        return Found(np.stack(poses), np.stack(points), np.array(errors), depths, self.frames / seconds)

    def _write_settings(self) -> None:
        import json

        from recal3r.rules import describe, get_rule
        from recal3r.sinks.files import write_whole

        rules = {slug(rule): describe(get_rule(rule)) for rule in self.rules}
        settings = {
            "recal3r": __version__,
            "weights": self.weights,
            "frames": self.frames,
            "seed": self.seed,
            "rules": rules,
        }
        write_whole(self.output / "settings.json", (json.dumps(settings, indent=2) + "\n").encode())


def slug(rule: str) -> str:
    """The rule as the name of a folder."""
    return re.sub(r"[^a-z0-9.]+", "-", rule.lower()).strip("-")


def sampled(pixels: int) -> slice:
    """Those of a frame that go into the picture: evenly spread."""
    return slice(None, None, max(1, pixels // _POINTS))


def _print_table(walk: Walk, found: dict[str, Found]) -> None:
    from recal3r.eval.metrics.pose import ate, rotation_drift, spread

    print(f"{'rule':28} {'frames/s':>9} {'ATE (m)':>9} {'ATE/spread':>11} {'turned (deg)':>13} {'AbsRel':>8}")
    for rule, one in found.items():
        error = ate(one.poses, walk.poses)
        numbers = f"{one.frames_per_second:9.1f} {error:9.3f} {error / spread(walk.poses):11.3f}"
        print(f"{rule:28} {numbers} {rotation_drift(one.poses, walk.poses):13.1f} {one.abs_rel.mean():8.3f}")
    print(f"{'a camera that never moved':28} {'':>9} {spread(walk.poses):9.3f} {1.0:11.3f}")


def _picture(walk: Walk, found: dict[str, Found]) -> PillowImage:
    """The room without its ceiling, true and as each rule has it after some and after all frames; below, moments."""
    import numpy as np

    from recal3r.eval.portrait import depth_picture, sheet

    rows = [
        (f"{count} frames", _rooms(walk, found, count))
        for count in sorted({min(_SOME, len(walk.poses)), len(walk.poses)})
    ]
    depths = np.stack([frame.depth for frame in walk.shown])
    near, far = np.percentile(depths, (2, 98)).tolist()
    rows += [
        ("picture", [frame.image for frame in walk.shown]),
        ("true depth", [depth_picture(depth, near, far) for depth in depths]),
    ]
    rows += [(f"depth, {rule}", [depth_picture(d, near, far) for d in one.depths]) for rule, one in found.items()]
    return sheet(rows, ["truth", *found])


def _rooms(walk: Walk, found: dict[str, Found], count: int) -> list[Picture]:
    """What there is of the room after `count` frames; each reconstruction as similarly placed as it can be."""
    import numpy as np

    from recal3r.eval.portrait import View, portrait
    from recal3r.geometry.align import umeyama

    every = slice(None, count, max(1, count // 150))  # enough to fill the picture
    truth, colours = walk.points[every].reshape(-1, 3), walk.colours[every].reshape(-1, 3)
    low, high = np.percentile(walk.points[..., 2], (1, 99))
    below = truth[:, 2] < high - 0.12 * (high - low)  # the ceiling
    view = View.of(walk.points[:: max(1, len(walk.points) // 50)].reshape(-1, 3))
    rooms = [portrait(view, truth[below], colours[below], walk.poses[:count, :3, 3])]
    for one in found.values():
        points = one.points[every].reshape(-1, 3)
        to_truth = umeyama(points.astype(np.float64), truth.astype(np.float64))
        rooms.append(portrait(view, to_truth(points)[below], colours[below], to_truth(one.poses[:count, :3, 3])))
    return rooms


COMMAND: type[Command] = Demo
