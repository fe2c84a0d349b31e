"""How the state moves: one paper, one file, the equations numbered in it."""

from recal3r.rules.base import Decision, Evidence, Memoryless, Nothing, UpdateRule
from recal3r.rules.constant import Constant
from recal3r.rules.cut3r import Cut3rRule
from recal3r.rules.memix import Memix
from recal3r.rules.recal3r import Recal3r
from recal3r.rules.recal3r_release import Recal3rRelease
from recal3r.rules.registry import available, describe, get_rule, register
from recal3r.rules.ttsa3r import Ttsa3r
from recal3r.rules.ttt3r import Ttt3r

__all__ = [
    "Constant",
    "Cut3rRule",
    "Decision",
    "Evidence",
    "Memix",
    "Memoryless",
    "Nothing",
    "Recal3r",
    "Recal3rRelease",
    "Ttsa3r",
    "Ttt3r",
    "UpdateRule",
    "available",
    "describe",
    "get_rule",
    "register",
]
