"""Every test that docs/reliability.md names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_promise_has_its_test() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = NAMED.findall(page)
    assert len(named) > 50
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).is_file() or (test and test not in functions(ROOT / file))
    ]
    assert missing == []


def test_every_row_names_a_test() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert rows
    assert [row for row in rows if not NAMED.search(row)] == []
