"""Packages that only evaluation needs, and of that only parts."""

from __future__ import annotations

import importlib
from typing import Any

from recal3r.errors import EvalError


def evaluation_package(module: str) -> Any:
    """A module of the extra `eval`, or the sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EvalError(f"This takes {module}, which does not load ({error}); install recal3r[eval].") from error
