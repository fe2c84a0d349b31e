"""A protocol is data: what is measured on which frames, cut how. It is named, hashed, and stored with every result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from recal3r.errors import EvalError
from recal3r.eval.canonical import digest
from recal3r.eval.choice import Evenly, Every, First, FirstSparse, FrameChoice, Named, SequenceChoice, Spread
from recal3r.eval.cuts import Central, Cropped, Cut, Squeezed
from recal3r.eval.datasets.base import Sequence, Shot
from recal3r.eval.datasets.tum import DYNAMICS
from recal3r.eval.metrics.depth import Metric, Scale, ScaleAndShift
from recal3r.eval.tasks import Pose, Reconstruction, Task, VideoDepth


@dataclass(frozen=True)
class Protocol:
    name: str
    dataset: str
    task: Task
    frames: FrameChoice
    sequences: SequenceChoice = field(default_factory=Every)
    cut: Cut = field(default_factory=Cropped)

    @property
    def hash(self) -> str:
        """Of everything that decides the numbers, so not of the name."""
        return digest(dataclasses.replace(self, name=""))

    def at(self, count: int) -> Protocol:
        """The same for streams of so many frames."""
        return dataclasses.replace(self, frames=dataclasses.replace(self.frames, count=count))  # type: ignore[type-var]

    def shots(self, sequence: Sequence) -> tuple[Shot, ...]:
        """The frames that are shown and scored: chosen among those whose truth the task can use."""
        usable = [shot for shot in sequence.shots if self.task.usable(shot)]
        chosen = tuple(usable[place] for place in self.frames.of(len(usable)))
        if not chosen:
            raise EvalError(
                f"Of {len(sequence.shots)} frames of {sequence.name} {len(usable)} are usable and none is taken; "
                "`recal3r data verify` says what is missing."
            )
        return chosen


_BONN_FIVE = Named(("balloon2", "crowd2", "crowd3", "person_tracking2", "synchronous"))
_SCANNET_50 = Evenly(50)
_DYNAMICS = Named(DYNAMICS)

PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        one.name: one
        for one in (
            # The paper's own; `.at(n)` gives the streams of its tables.
            Protocol("pose/scannet-50", "scannet", Pose(), Spread(), _SCANNET_50),
            Protocol("pose/tum-dynamics", "tum", Pose(), Spread(), _DYNAMICS),
            Protocol("video-depth/bonn", "bonn", VideoDepth(Scale()), Spread(), cut=Squeezed()),
            Protocol("video-depth/tum-dynamics", "tum", VideoDepth(Metric()), Spread(), _DYNAMICS, Squeezed()),
            Protocol("reconstruction/7scenes", "7scenes", Reconstruction(), FirstSparse(), cut=Central()),
            Protocol("reconstruction/nrgbd", "nrgbd", Reconstruction(), FirstSparse(), cut=Central()),
            # As the papers it is compared with choose frames.
            Protocol("pose/scannet-50/ttt3r", "scannet", Pose(), First(stride=3), _SCANNET_50),
            Protocol("pose/scannet-50/cut3r", "scannet", Pose(), First(90, stride=3), _SCANNET_50),
            Protocol("pose/scannet-50/memix", "scannet", Pose(), First(), _SCANNET_50),
            Protocol("pose/tum-dynamics/ttt3r", "tum", Pose(), First(), _DYNAMICS),
            Protocol("pose/tum-dynamics/cut3r", "tum", Pose(), First(90, stride=3), _DYNAMICS),
            Protocol("video-depth/bonn/ttt3r", "bonn", VideoDepth(Scale()), First(start=30), _BONN_FIVE, Squeezed()),
            # Beyond the paper.
            Protocol("pose/bonn", "bonn", Pose(), Spread()),
            Protocol("pose/sintel", "sintel", Pose(), First()),
            Protocol("pose/kitti", "kitti", Pose(), First()),
            Protocol("pose/tum-folder", "tum-folder", Pose(), First()),
            Protocol("video-depth/sintel", "sintel", VideoDepth(ScaleAndShift()), First(), cut=Squeezed()),
            Protocol("pose/synthetic", "synthetic", Pose(), First(), cut=Central()),
            Protocol("video-depth/synthetic", "synthetic", VideoDepth(Metric()), First(), cut=Central()),
            Protocol(
                "reconstruction/synthetic",
                "synthetic",
                Reconstruction(central=None, most=10_000),
                First(),
                cut=Central(),
            ),
        )
    }
)


def protocol(name: str) -> Protocol:
    found = PROTOCOLS.get(name)
    if found is None:
        raise EvalError(f"There is no protocol named {name!r}; there are {', '.join(PROTOCOLS)}.")
    return found
