"""Streaming 3D reconstruction that stays stable on streams that do not end.

model = recal3r.load_model("cut3r-512")
recon = recal3r.Reconstructor(model, rule="recal3r")
for prediction in recon.stream(images): ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recal3r import rules as rules
    from recal3r.engine.reconstructor import Reconstructor as Reconstructor
    from recal3r.engine.session import Session as Session
    from recal3r.errors import Recal3rError as Recal3rError
    from recal3r.model.config import Cut3rConfig as Cut3rConfig
    from recal3r.model.cut3r import Cut3r as Cut3r
    from recal3r.model.load import load_model as load_model
    from recal3r.sources.open import open_source as open_source
    from recal3r.types import Camera as Camera
    from recal3r.types import Frame as Frame
    from recal3r.types import Prediction as Prediction

__version__ = "0.1.0"

# Imported when first used: `recal3r --help` need not wait for torch.
_HOME = {
    "Camera": "recal3r.types",
    "Cut3r": "recal3r.model.cut3r",
    "Cut3rConfig": "recal3r.model.config",
    "Frame": "recal3r.types",
    "Prediction": "recal3r.types",
    "Recal3rError": "recal3r.errors",
    "Reconstructor": "recal3r.engine.reconstructor",
    "Session": "recal3r.engine.session",
    "load_model": "recal3r.model.load",
    "open_source": "recal3r.sources.open",
}

__all__ = [
    "Camera",
    "Cut3r",
    "Cut3rConfig",
    "Frame",
    "Prediction",
    "Recal3rError",
    "Reconstructor",
    "Session",
    "load_model",
    "open_source",
    "rules",
]


def __getattr__(name: str) -> Any:
    if name == "rules":
        return importlib.import_module("recal3r.rules")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'recal3r' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, "rules"])
