"""A recipe is a Python file with a function `sweep() -> Sweep`: one published table or figure."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recal3r.errors import EvalError
from recal3r.eval.canonical import override
from recal3r.eval.contestants import Contestant
from recal3r.eval.protocol import Protocol


@dataclass(frozen=True)
class Group:
    """Contestants that are drawn in one figure, because more would hide each other."""

    name: str
    contestants: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """contestants × protocols × lengths, over all sequences that the protocols choose."""

    name: str
    title: str
    protocols: tuple[Protocol, ...]
    contestants: tuple[Contestant, ...]
    lengths: tuple[int | None, ...] = (None,)
    """Frames; None for all that a sequence has."""
    metrics: tuple[str, ...] = ()
    """Which metrics the tables and figures show; all, where none is named."""
    groups: tuple[Group, ...] = ()
    """One figure each; one of all contestants, where none is named."""

    def __post_init__(self) -> None:
        for kind, names in (
            ("protocols", [one.name for one in self.protocols]),
            ("contestants", [one.slug for one in self.contestants]),
            ("lengths", [str(length) for length in self.lengths]),
        ):
            if not names or len(set(names)) < len(names):
                raise EvalError(f"The sweep {self.name!r} has no {kind}, or one of them twice: {', '.join(names)}.")
        known = {one.name for one in self.contestants}
        unknown = [name for group in self.groups for name in group.contestants if name not in known]
        if unknown:
            raise EvalError(f"The sweep {self.name!r} groups {unknown[0]!r}, which takes no part; add it, or leave it.")

    def changed(self, assignments: Sequence[str]) -> Sweep:
        """The same with fields of every protocol replaced: `task.most=1000`. Such a protocol says so in its name."""
        changed = self
        for assignment in assignments:
            protocols = tuple(
                dataclasses.replace(override(one, assignment), name=f"{one.name} with {assignment}")
                for one in changed.protocols
            )
            changed = dataclasses.replace(changed, protocols=protocols)
        return changed

    def among(self, contestants: Sequence[Contestant]) -> Sweep:
        """The same with others taking part; groups keep those who still do."""
        names = {one.name for one in contestants}
        groups = (Group(one.name, tuple(name for name in one.contestants if name in names)) for one in self.groups)
        kept = tuple(one for one in groups if one.contestants)
        return dataclasses.replace(self, contestants=tuple(contestants), groups=kept)


def read_recipe(path: Path) -> Sweep:
    """Imports the file, which is ordinary code of yours, and asks it for its sweep."""
    spec = importlib.util.spec_from_file_location(f"recal3r_recipe_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise EvalError(f"{path} is no recipe; name a Python file with a function sweep(), such as those in recipes/.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.sweep() if hasattr(module, "sweep") else None
    if not isinstance(made, Sweep):
        raise EvalError(f"{path} has no function sweep() that returns a Sweep; add one, as in recipes/.")
    return made
