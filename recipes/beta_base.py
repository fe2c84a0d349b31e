"""How much ReCal3R writes where it does not trust a token: β_base from 0 to 0.2, by camera poses on ScanNet-50."""

from recal3r.eval.contestants import BETA_BASES
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep


def sweep() -> Sweep:
    return Sweep(
        "beta-base",
        "β_base by camera poses on ScanNet-50",
        (protocol("pose/scannet-50"),),
        BETA_BASES,
        (300, 500, 1000),
        ("ate", "rpe_trans", "rpe_rot_deg"),
    )
