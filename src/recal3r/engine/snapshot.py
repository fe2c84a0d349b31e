"""A session as a file: safetensors with a JSON header, checksummed, written atomically."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors
import safetensors.torch
from torch import Tensor

from recal3r.engine.health import Past
from recal3r.engine.session import Session, StreamPlace, all_finite, flatten, unflatten
from recal3r.errors import SessionError
from recal3r.jsontext import parsed
from recal3r.model.cut3r import Cut3r

FORMAT_VERSION = 2
_HEADER = "recal3r_session"
Header = dict[str, Any]


def _from_1(header: Header) -> Header:
    """Before 2 there was no health: a stream's past begins anew."""
    return header | {"format_version": 2, "places": [{**place, "past": {}} for place in header["places"]]}


# What reading raises where something is missing, of another kind, or out of place.
_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, OverflowError)
_MIGRATIONS: Mapping[int, Callable[[Header], Header]] = {1: _from_1}
"""From each older format to the next one."""


def fingerprint(model: Cut3r) -> str:
    """Tells networks apart: the configuration, the precision, and the beginning of every weight."""
    digest = hashlib.sha256(f"{model.config.to_json()} {model.dtype}".encode())
    for name, sample in sorted(model.weight_samples().items()):
        digest.update(name.encode())
        digest.update(sample.double().cpu().numpy().tobytes())
    return digest.hexdigest()


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def save_session(path: Path, session: Session, model: Cut3r, settings: Mapping[str, Any]) -> None:
    """Writes the session and how it was run. The file is whole or not there at all."""
    tensors = {"state": session.state, "pose_memory": session.pose_memory}
    if session.rule_memory is not None:
        tensors |= flatten(session.rule_memory, "rule")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint(model),
        "checksum": _checksum(tensors),
        "rule_has_memory": session.rule_memory is not None,
        "places": [
            dataclasses.asdict(place) | {"T_world_segment": place.T_world_segment.tolist()} for place in session.places
        ],
        "settings": dict(settings),
    }
    data = safetensors.torch.save(tensors, {_HEADER: json.dumps(header)})
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read_header(path: Path) -> Header:
    """How the session at `path` was run, as the newest format says it."""
    if not path.is_file():
        raise SessionError(f"There is no saved session at {path}.")
    try:
        with safetensors.safe_open(path, framework="pt") as opened:  # pyright: ignore[reportUnknownVariableType]
            metadata = cast("dict[str, str] | None", opened.metadata())  # safetensors has no stubs
        header = parsed((metadata or {})[_HEADER])
        version = header["format_version"]
        while version in _MIGRATIONS:
            header = _MIGRATIONS[version](header)
            version = header["format_version"]
    except (safetensors.SafetensorError, *_MISSHAPEN) as error:
        raise SessionError(f"{path} is no saved session, or a damaged one; save it again.") from error
    except OSError as error:
        raise SessionError(f"{path} cannot be read ({error.strerror or error}); give a file you may read.") from error
    if version != FORMAT_VERSION:
        raise SessionError(
            f"{path} was saved in format {version!r:.20}, and this version of recal3r reads formats up to "
            f"{FORMAT_VERSION}; load it with the version that saved it."
        )
    return header


def load_session(path: Path, model: Cut3r, memory_type: type[Any]) -> Session:
    """The session at `path`, on the model's device; a file that is not exactly what was saved is an error."""
    header = read_header(path)
    if header.get("fingerprint") != fingerprint(model):
        raise SessionError(f"The session {path} was saved with other weights or another dtype; load it with those.")
    try:
        tensors = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, *_MISSHAPEN) as error:
        raise SessionError(f"{path} is a damaged session; save it again.") from error
    if header.get("checksum") != _checksum(tensors):
        raise SessionError(f"{path} is damaged: its checksum does not match its content.")
    # A copy: memory that is mapped from a file is aligned otherwise, and sums of it come in another order.
    tensors = {name: tensor.clone().to(model.device) for name, tensor in tensors.items()}
    try:
        return _session(path, model, header, tensors, memory_type)
    except _MISSHAPEN as error:
        raise SessionError(
            f"The session {path} was saved under another rule, or is a damaged one ({_first_line(error)}); "
            "save it again."
        ) from error


def _session(path: Path, model: Cut3r, header: Header, tensors: dict[str, Tensor], memory_type: type[Any]) -> Session:
    places = [_place(place) for place in header["places"]]
    fresh = Session.fresh(model, len(places))
    session = dataclasses.replace(
        fresh,
        state=tensors["state"],
        pose_memory=tensors["pose_memory"],
        rule_memory=unflatten(memory_type, tensors, "rule") if header["rule_has_memory"] else None,
        places=places,
    )
    for name in ("state", "pose_memory"):
        found, expected = getattr(session, name), getattr(fresh, name)
        if (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise ValueError(f"its {name} has the shape {list(found.shape)}")
    memory = () if session.rule_memory is None else (session.rule_memory,)
    if any(tensor.shape[:1] != (len(places),) for part in memory for tensor in flatten(part, "rule").values()):
        raise ValueError("its rule remembers another number of streams")
    if not all_finite(session.state, session.pose_memory, *memory).all():
        raise SessionError(f"The session {path} holds NaN or infinity; go on from an earlier one.")
    return session


def _place(entry: Mapping[str, Any]) -> StreamPlace:
    T, past = np.array(entry["T_world_segment"], dtype=np.float64), Past(**entry["past"])
    if T.shape != (4, 4) or not np.isfinite(T).all():
        raise ValueError("one of its poses is none")
    counts = (entry["frames"], entry["segment_frames"])
    if not all(type(count) is int and count >= 0 for count in counts) or type(entry["starts"]) is not bool:
        raise ValueError("its counts are none")
    return StreamPlace(*counts, entry["starts"], T, past)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:100]
