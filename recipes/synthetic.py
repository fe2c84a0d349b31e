"""What anyone can run (`make paper-synthetic`): all rules, ablations and controls on held-out made-up rooms."""

from recal3r.eval.contestants import ABLATIONS, BETA_BASES, CONTROLS, EVERYONE, RULES, Contestant, called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Group, Sweep

CONSTANTS = called("constant(0.02)", "constant(0.1)", "constant(0.5)")
TAKING_PART = tuple(one for one in EVERYONE if not one.name.startswith("constant") or one in CONSTANTS)


def sweep() -> Sweep:
    return Sweep(
        "synthetic",
        "Held-out made-up rooms",
        (protocol("pose/synthetic"), protocol("video-depth/synthetic"), protocol("reconstruction/synthetic")),
        TAKING_PART,
        (25, 50, 100, 200, 400),
        ("ate_share", "ate", "rpe_trans", "rpe_rot_deg", "abs_rel", "delta_1_25", "acc", "comp", "nc"),
        (
            group("rules", (*RULES, *called("constant(0.1)", "state reset every frame"))),
            group("constants and controls", (*called("cut3r", "recal3r"), *CONSTANTS, *CONTROLS)),
            group("ablations", (*called("cut3r", "recal3r"), *ABLATIONS)),
            group("beta_base", tuple(one for one in BETA_BASES if one in TAKING_PART) + called("recal3r")),
        ),
    )


def group(name: str, contestants: tuple[Contestant, ...]) -> Group:
    return Group(name, tuple(one.name for one in contestants))
