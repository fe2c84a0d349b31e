"""The numbers of the ReCal3R paper, so that tables can show them beside ours."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("published.json")


def published(protocol: str, contestant: str, length: int | None, metric: str) -> float:
    """NaN where the paper says nothing. Protocols and contestants are called as they are here.

    A protocol with a changed field has another name, so it is never set beside a number it was not measured like.
    """
    frames = "all" if length is None else str(length)
    found = _numbers().get(protocol, {}).get(contestant, {}).get(frames, {}).get(metric)
    return math.nan if found is None else float(found)


@functools.cache
def _numbers() -> Mapping[str, Any]:
    """protocol -> contestant -> frames -> metric -> number"""
    return json.loads(_FILE.read_text(encoding="utf-8"))
