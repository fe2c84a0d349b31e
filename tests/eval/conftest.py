from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eval.layouts import LAYOUTS


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a dataset by its name, written once; tests must not change it."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = LAYOUTS[name](tmp_path_factory.mktemp(name))
        return made[name]

    return folder
