"""The figure of pose error over stream length, 50 to 1,000 frames, on ScanNet-50 and TUM-dynamics.

It also draws speed and memory, and the camera's ways from above.
"""

from recal3r.eval.contestants import RULES, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "pose-lengths",
        "Camera poses over stream lengths",
        (protocol("pose/scannet-50"), protocol("pose/tum-dynamics")),
        (*RULES, *called("constant(0.1)")),
        (50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000),
        ("ate", "rpe_trans", "rpe_rot_deg"),
    )
