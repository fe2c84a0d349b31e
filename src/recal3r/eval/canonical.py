"""Values as data: the same value always gives the same text, and the text its hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from recal3r.errors import EvalError
from recal3r.jsontext import parsed

T = TypeVar("T")


def as_data(value: object) -> Any:
    """Frozen dataclasses as JSON objects that name their kind, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: as_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [as_data(part) for part in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {str(key): as_data(part) for key, part in cast("Mapping[str, object]", value).items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise EvalError(
        f"A value of {type(value).__name__} cannot be written down; use numbers, text, tuples, dataclasses."
    )


def to_json(value: object) -> str:
    return json.dumps(as_data(value), sort_keys=True, separators=(",", ":"))


def digest(value: object) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(to_json(value).encode()).hexdigest()


def override(value: T, assignment: str) -> T:
    """The value with one of its fields replaced: `frames.count=500`, `task.icp=null`; the right side is JSON."""
    place, equals, text = assignment.partition("=")
    if not equals or not place:
        raise EvalError(f"{assignment!r} replaces nothing; write it like frames.count=500.")
    try:
        new = parsed(text)
    except ValueError:
        new = text
    return _replaced(value, place.split("."), new, assignment)


def _replaced(value: T, path: list[str], new: object, assignment: str) -> T:
    names = [field.name for field in dataclasses.fields(cast("Any", value))] if dataclasses.is_dataclass(value) else []
    name, *deeper = path
    if name not in names:
        raise EvalError(
            f"{assignment!r} names no field {name!r}; {type(value).__name__} has {', '.join(names) or 'none'}."
        )
    old = getattr(value, name)
    if deeper:
        return _with(value, name, _replaced(old, deeper, new, assignment), assignment)
    if isinstance(new, list):
        new = tuple(cast("list[object]", new))
    if isinstance(old, float) and type(new) is int:
        new = float(new)
    if old is not None and new is not None and type(new) is not type(old):
        raise EvalError(f"{assignment!r} gives a {type(new).__name__} where {name} is a {type(old).__name__}.")
    return _with(value, name, new, assignment)


def _with(value: T, name: str, new: object, assignment: str) -> T:
    try:
        return dataclasses.replace(cast("Any", value), **{name: new})
    except (TypeError, ValueError, AttributeError) as error:  # of what the value checks when it is made
        raise EvalError(f"{assignment!r} gives {name} something of another kind; give it one of its own.") from error
