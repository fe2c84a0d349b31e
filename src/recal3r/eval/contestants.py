"""Who takes part in a long-stream study: rules, and controls that say what a number is worth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recal3r.engine.session import Session
from recal3r.errors import EvalError
from recal3r.rules.registry import describe, get_rule


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
    """Names are those of the published tables, where it is in one."""

    name: str
    rule: str
    writes: Callable[[int], bool] = _always
    """Whether the frame of this index is written."""
    after: Callable[[Session], None] = _nothing
    """What happens to the session after every frame."""
    reset_interval: int | None = None

    @property
    def slug(self) -> str:
        return slug(self.name)

    def as_data(self) -> dict[str, Any]:
        """Everything that decides what it says, so not its name."""
        return {
            "rule": describe(get_rule(self.rule)),
            "writes": self.writes.__qualname__,
            "after": self.after.__qualname__,
            "reset_interval": self.reset_interval,
        }


def slug(name: str) -> str:
    """The name as part of a file's name."""
    return re.sub(r"[^a-z0-9._=]+", "-", name.lower()).strip("-")


CONTROLS = (
    Contestant("state reset every frame", "cut3r", after=_forget_state),
    Contestant("frozen after the first frame", "cut3r", writes=_only_first),
    Contestant("new segment every 8 frames", "cut3r", reset_interval=8),
)
RULES = (
    Contestant("cut3r", "cut3r"),
    Contestant("ttt3r", "ttt3r"),
    Contestant("memix", "memix(ttt3r)"),
    Contestant("ttsa3r", "ttsa3r"),
    Contestant("recal3r", "recal3r"),
    Contestant("recal3r-release", "recal3r-release"),
    Contestant("memix(recal3r)", "memix(recal3r)"),
)
CONSTANTS = tuple(Contestant(rule, rule) for rule in (f"constant({rate})" for rate in (0.02, 0.05, 0.1, 0.2, 0.5)))
ABLATIONS = (
    Contestant("recal3r with ttt3r rate", "recal3r(residual=false, pressure=false)"),
    Contestant("recal3r residual only", "recal3r(pressure=false)"),
    Contestant("recal3r pressure only", "recal3r(residual=false)"),
    Contestant("recal3r without reliability", "recal3r(calibrated=false)"),
    Contestant("recal3r deviation only", "recal3r(entropy=false)"),
    Contestant("recal3r entropy only", "recal3r(deviation=false)"),
    Contestant("recal3r running-average anchor", "recal3r(mean_anchor=true)"),
)
BETA_BASES = tuple(
    Contestant(f"recal3r beta_base={beta}", f"recal3r(beta_base={beta})") for beta in (0, 0.01, 0.05, 0.1, 0.2)
)
EVERYONE = RULES + CONSTANTS + CONTROLS + ABLATIONS + tuple(one for one in BETA_BASES if "=0.1" not in one.name)


_KNOWN = {one.name: one for one in (*EVERYONE, *BETA_BASES)}


def known_or_rule(name: str) -> Contestant:
    """The contestant of that name, or else a rule as text."""
    return _KNOWN.get(name) or Contestant(name, name)


def called(*names: str) -> tuple[Contestant, ...]:
    """Contestants by name, in this order."""
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        raise EvalError(f"There is no contestant named {unknown[0]!r}; there are {', '.join(_KNOWN)}.")
    return tuple(_KNOWN[name] for name in names)
