"""`recal3r study`: which rule keeps a long stream sound, on held-out rooms whose truth is known."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from recal3r.cli.command import Command
from recal3r.errors import EvalError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AGAINST = "cut3r"


@dataclasses.dataclass(frozen=True)
class Study:
    """Walk every rule, ablation and control through the same held-out rooms, and tabulate what they got wrong."""

    weights: str = field(metadata={"help": "a known name, or a .pth or .safetensors file"})
    output: Path = field(metadata={"help": "the folder for results; what it holds of the same study is not done again"})
    scenes: int = field(default=20, metadata={"help": "how many rooms of the test split"})
    lengths: tuple[int, ...] = field(
        default=(50, 100, 200, 400, 800), metadata={"help": "the stream lengths to score, in frames"}
    )
    contestants: tuple[str, ...] = field(
        default=(), metadata={"help": "rules, or names of the tables, instead of all rules, ablations and controls"}
    )

    def run(self) -> int:
        from recal3r.eval.contestants import EVERYONE, known_or_rule
        from recal3r.eval.study import Walks, line_scores, record, scores
        from recal3r.model.load import load_model

        if self.scenes < 1 or not self.lengths or min(self.lengths) < 3:
            raise EvalError("A study needs at least one scene, and lengths of at least 3 frames.")
        model = load_model(self.weights)
        self.output.mkdir(parents=True, exist_ok=True)
        width = model.config.image_size
        walks = Walks(scenes=self.scenes, frames=max(self.lengths), width=width, height=3 * width // 4)
        everyone = tuple(known_or_rule(name) for name in self.contestants) or EVERYONE

        table: dict[str, dict[int, dict[str, NDArray[np.floating]]]] = {}
        for contestant, found in zip(everyone, record(model, everyone, walks, self.output, print), strict=True):
            table[contestant.name] = {length: scores(found, length) for length in self.lengths}
            table["straight line"] = {length: line_scores(found, length) for length in self.lengths}
        self._report(table)
        print(f"written to {self.output}: study.md, study.csv, study.png, study.svg")
        return 0

    def _report(self, table: dict[str, dict[int, dict[str, NDArray[np.floating]]]]) -> None:
        from recal3r.eval.report import curves, markdown, paired, write_csv
        from recal3r.eval.study import METRICS

        lengths = sorted(self.lengths)
        parts = [f"{self.scenes} held-out rooms; means over rooms, with 95 % bootstrap intervals.\n"]
        parts += [markdown(table, metric, lengths) + "\n" for metric in METRICS]
        if _AGAINST in table:
            parts += [paired(table, METRICS[0], length, _AGAINST) + "\n" for length in lengths]
        (self.output / "study.md").write_text("\n".join(parts))
        write_csv(self.output / "study.csv", table)
        shown = [name for name in table if not name.startswith(("recal3r ", "constant")) or name == "constant(0.1)"]
        curves(self.output / "study", {n: table[n] for n in shown}, METRICS[:3], shown)


COMMAND: type[Command] = Study
