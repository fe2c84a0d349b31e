"""3D reconstruction on 7-Scenes over stream lengths: the paper's table of Acc, Comp and NC."""

from recal3r.eval.contestants import RULES, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "reconstruction-7scenes",
        "3D reconstruction on 7-Scenes",
        (protocol("reconstruction/7scenes"),),
        (*RULES, *called("constant(0.1)")),
        (300, 400, 500, 600, 700),
        ("acc", "comp", "nc"),
    )
