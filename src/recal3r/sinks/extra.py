"""Packages that only some sinks need."""

from __future__ import annotations

import importlib
from typing import Any

from recal3r.errors import OutputError


def extra_package(module: str, extra: str, sink: type) -> Any:
    """A module of an optional package, or the sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OutputError(
            f"{sink.__name__} needs {module}, which does not load ({error}); install recal3r[{extra}]."
        ) from error
