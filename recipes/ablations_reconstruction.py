"""Every ablation of ReCal3R, by reconstruction on 7-Scenes."""

from recal3r.eval.contestants import ABLATIONS, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "ablations-reconstruction",
        "Ablations by reconstruction on 7-Scenes",
        (protocol("reconstruction/7scenes"),),
        (*called("cut3r", "ttt3r", "recal3r", "recal3r-release"), *ABLATIONS),
        (300, 500, 700),
        ("acc", "comp", "nc"),
    )
