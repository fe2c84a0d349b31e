"""Who takes part in a long-stream study: rules, and controls that say what a number is worth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from recal3r.engine.session import Session


def _always(_: int) -> bool:
    return True


def _only_first(frame: int) -> bool:
    return frame == 0


def _nothing(_: Session) -> None:
    pass


def _forget_state(session: Session) -> None:
    """The state is as it was at the beginning; the pose memory stays."""
    session.state = session.initial_state.repeat(len(session.places), 1, 1)


@dataclass(frozen=True)
class Contestant:
    name: str
    rule: str
    writes: Callable[[int], bool] = _always
    """Whether the frame of this index is written."""
    after: Callable[[Session], None] = _nothing
    """What happens to the session after every frame."""
    reset_interval: int | None = None

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-")


CONTROLS = (
    Contestant("state reset every frame", "cut3r", after=_forget_state),
    Contestant("frozen after the first frame", "cut3r", writes=_only_first),
    Contestant("new segment every 8 frames", "cut3r", reset_interval=8),
)
RULES = tuple(
    Contestant(rule, rule)
    for rule in ("cut3r", "ttt3r", "memix(ttt3r)", "ttsa3r", "recal3r", "recal3r-release", "memix(recal3r)")
)
CONSTANTS = tuple(Contestant(rule, rule) for rule in (f"constant({rate})" for rate in (0.02, 0.05, 0.1, 0.2, 0.5)))
ABLATIONS = tuple(
    Contestant(f"recal3r: {what}", rule)
    for what, rule in (
        ("TTT3R's rate", "recal3r(residual=false, pressure=false)"),
        ("residual only", "recal3r(pressure=false)"),
        ("pressure only", "recal3r(residual=false)"),
        ("no reliability", "recal3r(calibrated=false)"),
        ("deviation only", "recal3r(entropy=false)"),
        ("entropy only", "recal3r(deviation=false)"),
        ("running-average anchor", "recal3r(mean_anchor=true)"),
        ("beta_base 0", "recal3r(beta_base=0)"),
        ("beta_base 0.01", "recal3r(beta_base=0.01)"),
        ("beta_base 0.05", "recal3r(beta_base=0.05)"),
        ("beta_base 0.2", "recal3r(beta_base=0.2)"),
    )
)
EVERYONE = RULES + CONSTANTS + CONTROLS + ABLATIONS
