"""What is measured, one file each."""

from recal3r.eval.tasks.base import Measure, Recorded, Score, Task
from recal3r.eval.tasks.pose import Pose
from recal3r.eval.tasks.reconstruction import Reconstruction
from recal3r.eval.tasks.video_depth import VideoDepth

__all__ = ["Measure", "Pose", "Reconstruction", "Recorded", "Score", "Task", "VideoDepth"]
