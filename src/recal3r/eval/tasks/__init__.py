"""What is measured, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from recal3r.eval.tasks.base import Measure, Recorded, Score, Task
from recal3r.eval.tasks.pose import Pose
from recal3r.eval.tasks.reconstruction import Reconstruction
from recal3r.eval.tasks.video_depth import VideoDepth

TASKS: Mapping[str, type[Task]] = MappingProxyType({kind.__name__: kind for kind in (Pose, VideoDepth, Reconstruction)})
"""By the name that results write down."""

__all__ = ["TASKS", "Measure", "Pose", "Reconstruction", "Recorded", "Score", "Task", "VideoDepth"]
