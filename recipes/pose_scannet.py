"""Camera poses on ScanNet-50 over stream lengths: the paper's table of ATE and RPE."""

from recal3r.eval.contestants import RULES, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "pose-scannet",
        "Camera poses on ScanNet-50",
        (protocol("pose/scannet-50"),),
        (*RULES, *called("constant(0.1)")),
        (300, 500, 1000),
        ("ate", "rpe_trans", "rpe_rot_deg"),
    )
