"""Camera poses on TUM-dynamics: the paper's table at 1,000 frames, with shorter streams beside it."""

from recal3r.eval.contestants import RULES, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "pose-tum",
        "Camera poses on TUM-dynamics",
        (protocol("pose/tum-dynamics"),),
        (*RULES, *called("recal3r with ttt3r rate", "recal3r without reliability", "constant(0.1)")),
        (300, 500, 1000),
        ("ate", "rpe_trans", "rpe_rot_deg"),
    )
