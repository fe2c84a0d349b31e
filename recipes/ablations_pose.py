"""Every ablation of ReCal3R, by camera poses on ScanNet-50."""

from recal3r.eval.contestants import ABLATIONS, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "ablations-pose",
        "Ablations by camera poses on ScanNet-50",
        (protocol("pose/scannet-50"),),
        (*called("cut3r", "ttt3r", "recal3r", "recal3r-release"), *ABLATIONS),
        (300, 500, 1000),
        ("ate", "rpe_trans", "rpe_rot_deg"),
    )
