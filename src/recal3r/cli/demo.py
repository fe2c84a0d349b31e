"""`recal3r demo`: a room that exists nowhere, walked through and reconstructed, with the truth beside it."""

from __future__ import annotations

import dataclasses
import json
import re
import time
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

    from recal3r.model.cut3r import Cut3r
    from recal3r.sources.synthetic import SyntheticFrame
    from recal3r.types import Prediction


class Run(NamedTuple):
    """What one rule made of the walk."""

    predictions: list[Prediction]
    seconds: float
    drift: float


@dataclasses.dataclass(frozen=True)
class Demo:
    """Reconstruct a walk through a made-up room under several rules, and show it beside the truth."""

    output: Path = field(default=Path("out/demo"), metadata={"help": "the folder to write to"})
    frames: int = field(default=60, metadata={"help": "how many frames to walk"})
    seed: int = field(default=0, metadata={"help": "which room"})
    rules: tuple[str, ...] = field(default=("cut3r", "recal3r"), metadata={"help": "the update rules to compare"})
    overwrite: bool = field(default=False, metadata={"help": "write into a folder that holds files already"})

    def run(self) -> int:
        from recal3r.model.load import load_model
        from recal3r.rules import get_rule
        from recal3r.sources.synthetic import SyntheticWorld, Training, WorldConfig, split_seed

        if self.frames < 3:
            raise OutputError(f"--frames {self.frames} is too short a walk; take at least 3.")
        if self.output.is_dir() and any(self.output.iterdir()) and not self.overwrite:
            raise OutputError(f"The folder {self.output} is not empty; name a new one, or add --overwrite.")
        for rule in self.rules:
            get_rule(rule)
        self._make_folder()

        model = load_model("tiny", device="cpu")
        width = model.config.image_size
        config = WorldConfig(width=width, height=3 * width // 4, trajectory=Training())
        walk = list(SyntheticWorld(split_seed("test", self.seed), config).frames(self.frames))
        runs = {rule: self._reconstruct(model, rule, walk) for rule in self.rules}
        self._write_settings(walk)
        _picture(walk, runs).save(self.output / "reconstruction.png")
        _print_table(walk, runs)
        print(f"\nwritten to {self.output}: reconstruction.png, and for each rule a trajectory (TUM) and a cloud (PLY)")
        return 0

    def _make_folder(self) -> None:
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"The folder {self.output} cannot be made ({error.strerror}); name another.") from error

    def _reconstruct(self, model: Cut3r, rule: str, walk: list[SyntheticFrame]) -> Run:
        import recal3r
        from recal3r.geometry.vector import lengths
        from recal3r.sinks import CloudSink, Tee, TumSink

        reconstructor = recal3r.Reconstructor(model, rule)
        predictions: list[Prediction] = []
        seconds = 0.0
        trajectory, cloud = (self.output / f"{kind}-{_slug(rule)}" for kind in ("trajectory", "cloud"))
        with Tee(
            TumSink(trajectory.with_name(f"{trajectory.name}.txt"), overwrite=self.overwrite),
            CloudSink(cloud.with_name(f"{cloud.name}.ply"), overwrite=self.overwrite),
        ) as sinks:
            for frame in walk:
                start = time.perf_counter()
                prediction = reconstructor.push(recal3r.Frame(frame.image, frame.timestamp))
                seconds += time.perf_counter() - start
                sinks.write(prediction, frame.image)
                predictions.append(prediction)
        session = reconstructor.session
        return Run(predictions, seconds, lengths(session.state - session.initial_state).mean().item())

    def _write_settings(self, walk: list[SyntheticFrame]) -> None:
        from recal3r.rules import describe, get_rule
        from recal3r.sinks.trajectory import tum_line

        truth = [tum_line(frame.timestamp, frame.T_world_camera) for frame in walk]
        (self.output / "trajectory-truth.txt").write_text("\n".join(truth) + "\n")
        rules = {_slug(rule): describe(get_rule(rule)) for rule in self.rules}
        settings = {"recal3r": __version__, "frames": self.frames, "seed": self.seed, "rules": rules}
        (self.output / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")


def _slug(rule: str) -> str:
    """The rule as part of a file's name."""
    return re.sub(r"[^a-z0-9.]+", "-", rule.lower()).strip("-")


def _poses(run: Run) -> NDArray[np.floating]:
    import numpy as np

    return np.stack(
        [prediction.T_world_camera for prediction in run.predictions if prediction.T_world_camera is not None]
    )


def _print_table(walk: list[SyntheticFrame], runs: dict[str, Run]) -> None:
    import numpy as np

    from recal3r.geometry.align import trajectory_error

    truth = np.stack([frame.T_world_camera[:3, 3] for frame in walk])
    print(f"{'rule':28} {'frames/s':>9} {'mean rate':>10} {'|S - S_0|':>10} {'ATE (m)':>9}")
    for rule, run in runs.items():
        rates = [prediction.learning_rate for prediction in run.predictions if prediction.learning_rate is not None]
        error = trajectory_error(_poses(run)[:, :3, 3], truth)
        print(f"{rule:28} {len(walk) / run.seconds:9.1f} {np.mean(rates[1:]):10.3f} {run.drift:10.2f} {error:9.3f}")
    spread = np.sqrt(np.square(truth - truth.mean(0)).sum(1).mean())
    print(f"{'a camera that never moved':28} {'':>9} {'':>10} {'':>10} {spread:9.3f}")


def _picture(walk: list[SyntheticFrame], runs: dict[str, Run]) -> PillowImage:
    """Frames, true depth and each rule's depth, at six moments of the walk; one row each."""
    import numpy as np
    from PIL import Image, ImageDraw

    moments: list[int] = np.linspace(0, len(walk) - 1, 6).round().astype(int).tolist()
    height, width = walk[0].image.shape[:2]
    enlarged = -(-128 // width)  # small pictures are shown at 128 pixels or a little more
    height, width = enlarged * height, enlarged * width
    rows = {"picture": [walk[at].image for at in moments], "true depth": [_shade(walk[at].depth) for at in moments]}
    for rule, run in runs.items():
        depths = [run.predictions[at].depth for at in moments]
        rows[f"depth, {rule}"] = [_shade(depth) for depth in depths if depth is not None]

    left, gap = 150, 4
    sheet = Image.new("RGB", (left + len(moments) * (width + gap), 20 + len(rows) * (height + gap)), "white")
    draw = ImageDraw.Draw(sheet)
    for column, at in enumerate(moments):
        draw.text((left + column * (width + gap) + 2, 4), f"frame {at}", fill="black")
    for row, (name, tiles) in enumerate(rows.items()):
        top = 20 + row * (height + gap)
        draw.text((6, top + height // 2 - 6), name, fill="black")
        for column, tile in enumerate(tiles):
            sheet.paste(
                Image.fromarray(tile).resize((width, height), Image.Resampling.NEAREST),
                (left + column * (width + gap), top),
            )
    return sheet


def _shade(depth: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Near is bright: the 2nd to the 98th percentile of 1/depth, as grey."""
    import numpy as np

    inverse = 1 / np.clip(depth, 1e-3, None)
    low, high = np.percentile(inverse, (2, 98))
    grey = np.clip((inverse - low) / max(high - low, 1e-9), 0, 1) * 255
    return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)


COMMAND: type[Command] = Demo
