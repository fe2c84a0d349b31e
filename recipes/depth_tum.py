"""Video depth on TUM-dynamics, in metres as they are."""

from recal3r.eval.contestants import RULES, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "depth-tum",
        "Video depth on TUM-dynamics",
        (protocol("video-depth/tum-dynamics"),),
        (*RULES, *called("constant(0.1)")),
        (300, 500, 700),
        ("abs_rel", "delta_1_25"),
    )
