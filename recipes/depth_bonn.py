"""Video depth on Bonn, one scale a sequence: the paper's table of AbsRel and δ < 1.25."""

from recal3r.eval.contestants import RULES, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "depth-bonn",
        "Video depth on Bonn",
        (protocol("video-depth/bonn"),),
        (*RULES, *called("constant(0.1)")),
        (300, 500, 700),
        ("abs_rel", "delta_1_25"),
    )
