"""`recal3r eval`: protocols and recipes on datasets, tables beside the published numbers, two runs compared."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from recal3r.cli.command import Command
from recal3r.errors import EvalError

if TYPE_CHECKING:
    from recal3r.eval.contestants import Contestant
    from recal3r.eval.sweep import Executor, Sweep

_FOLDER = {"help": "a folder that `recal3r eval run` has written to"}


@dataclasses.dataclass(frozen=True)
class Run:
    """Evaluate a recipe or a protocol: predict once, score, and write tables and figures.

    Stopped at any moment, the same command goes on where it was.
    """

    recipe: str = field(metadata={"help": "a recipe, such as recipes/pose_scannet.py, or the name of a protocol"})
    weights: str = field(metadata={"help": "a known name, or a .pth or .safetensors file"})
    output: Path = field(metadata={"help": "the folder for results, tables and figures"})
    data: tuple[str, ...] = field(default=(), metadata={"help": "where datasets are: scannet=FOLDER 7scenes=FOLDER"})
    rules: tuple[str, ...] = field(
        default=(), metadata={"help": "rules, or contestants of `recal3r eval list`, instead of the recipe's"}
    )
    lengths: tuple[int, ...] = field(default=(), metadata={"help": "stream lengths instead of the recipe's"})
    change: tuple[str, ...] = field(
        default=(), metadata={"help": "fields of the protocols to replace: frames.stride=2 task.icp=null"}
    )
    devices: tuple[str, ...] = field(
        default=("auto",), metadata={"help": "a worker for each, such as cuda:0 cuda:1, or cpu cpu"}
    )
    ray: int | None = field(default=None, metadata={"help": "run on so many Ray workers instead"})
    ray_address: str | None = field(default=None, metadata={"help": "run on the Ray cluster at this address instead"})
    gpus: float = field(default=0.0, metadata={"help": "of --ray: the share of a GPU that each worker takes"})
    threads: int = field(default=1, metadata={"help": "CPU threads of each worker"})
    store: Path | None = field(
        default=None, metadata={"help": "where predictions are kept, for several recipes to share"}
    )
    keep: bool = field(default=True, metadata={"help": "keep predictions once they are scored"})
    again: bool = field(default=False, metadata={"help": "try sequences that failed before once more"})

    def run(self) -> int:
        from recal3r.eval.page import write_report
        from recal3r.eval.results import failures
        from recal3r.eval.sweep import Plan, run_sweep
        from recal3r.model.hub import resolve

        plan = Plan(
            sweep=self._sweep(),
            weights=str(resolve(self.weights).absolute()),
            roots=_roots(self.data),
            output=self.output.absolute(),
            store=(self.store or self.output / "predictions").absolute(),
            keep=self.keep,
            threads=self.threads,
            again=self.again,
        )
        results, before = run_sweep(plan, self._executor(), _say)
        failed = len(failures(results))
        _say(f"{len(results)} results, {before} of them from before, {failed} failed")
        write_report(self.output, _say)
        return 1 if failed else 0

    def _sweep(self) -> Sweep:
        from recal3r.eval.contestants import RULES
        from recal3r.eval.protocol import PROTOCOLS
        from recal3r.eval.sweep import Sweep, read_recipe

        known = PROTOCOLS.get(self.recipe)
        sweep = Sweep(self.recipe, self.recipe, (known,), RULES) if known else read_recipe(Path(self.recipe))
        if self.rules:
            sweep = sweep.among([_contestant(name) for name in self.rules])
        if self.lengths:
            sweep = dataclasses.replace(sweep, lengths=self.lengths)
        return sweep.changed(self.change)

    def _executor(self) -> Executor:
        from recal3r.eval.sweep import OnRay, Processes, ThisProcess

        if self.ray is not None or self.ray_address is not None:
            return OnRay(self.ray or 1, self.ray_address, self.gpus)
        if not self.devices:
            raise EvalError("--devices names none; name one or more, such as cpu or cuda:0.")
        return ThisProcess(self.devices[0]) if len(self.devices) == 1 else Processes(self.devices)


def _roots(data: tuple[str, ...]) -> dict[str, Path]:
    from recal3r.eval.datasets import dataset

    roots: dict[str, Path] = {}
    for word in data:
        name, equals, folder = word.partition("=")
        if not equals or not folder:
            raise EvalError(f"--data {word} names no folder; write it like 7scenes=FOLDER.")
        roots[name] = dataset(name, folder).root.absolute()
    return roots


def _contestant(name: str) -> Contestant:
    """One that is known, or a rule as text."""
    from recal3r.eval.contestants import BETA_BASES, EVERYONE, Contestant
    from recal3r.rules.registry import get_rule

    known = next((one for one in (*EVERYONE, *BETA_BASES) if one.name == name), None)
    if known is None:
        get_rule(name)  # says what is wrong with it
    return known or Contestant(name, name)


def _say(line: str) -> None:
    print(line, flush=True)


@dataclasses.dataclass(frozen=True)
class Report:
    """Write tables and figures of results again; of a sweep that is not finished, too."""

    folder: Path = field(metadata=_FOLDER)

    def run(self) -> int:
        from recal3r.eval.page import write_report

        write_report(self.folder, _say)
        return 0


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare two folders of results sequence by sequence, with bootstrap intervals of the differences."""

    first: Path = field(metadata=_FOLDER)
    second: Path = field(metadata={"help": "another, or the same with --contestants"})
    contestants: tuple[str, ...] = field(
        default=(), metadata={"help": "one of the first folder and one of the second (default: each with itself)"}
    )
    csv: Path | None = field(default=None, metadata={"help": "a file to write the differences to as well"})

    def run(self) -> int:
        from recal3r.eval.compare import as_csv, as_markdown, compare

        differences = compare(self.first, self.second, self.contestants)
        print(as_markdown(differences), end="")
        if self.csv is not None:
            self.csv.write_text(as_csv(differences), encoding="utf-8")
        return 0


@dataclasses.dataclass(frozen=True)
class List:
    """List protocols, and contestants by their names."""

    def run(self) -> int:
        from recal3r.eval.contestants import BETA_BASES, EVERYONE
        from recal3r.eval.protocol import PROTOCOLS

        print(f"{'protocol':32} {'dataset':12} {'task':16} hash")
        for one in PROTOCOLS.values():
            print(f"{one.name:32} {one.dataset:12} {type(one.task).__name__:16} {one.hash[:12]}")
        print(f"\n{'contestant':32} rule")
        for one in dict.fromkeys((*EVERYONE, *BETA_BASES)):
            print(f"{one.name:32} {one.rule}")
        return 0


COMMAND: dict[str, type[Command]] = {"run": Run, "report": Report, "compare": Compare, "list": List}
