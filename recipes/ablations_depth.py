"""Every ablation of ReCal3R, by video depth on Bonn."""

from recal3r.eval.contestants import ABLATIONS, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "ablations-depth",
        "Ablations by video depth on Bonn",
        (protocol("video-depth/bonn"),),
        (*called("cut3r", "ttt3r", "recal3r", "recal3r-release"), *ABLATIONS),
        (300, 500, 700),
        ("abs_rel", "delta_1_25"),
    )
