"""A session as a file: safetensors with a JSON header, checksummed, written atomically."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors
import safetensors.torch
from torch import Tensor

from recal3r.engine.session import Session, StreamPlace, flatten, unflatten
from recal3r.errors import SessionError
from recal3r.model.cut3r import Cut3r

FORMAT_VERSION = 1
_HEADER = "recal3r_session"


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


def read_header(path: Path) -> dict[str, Any]:
    """How the session at `path` was run."""
    if not path.is_file():
        raise SessionError(f"There is no saved session at {path}.")
    try:
        with safetensors.safe_open(path, framework="pt") as opened:  # pyright: ignore[reportUnknownVariableType]
            metadata = cast("dict[str, str] | None", opened.metadata())  # safetensors has no stubs
        header = json.loads((metadata or {})[_HEADER])
        version = header["format_version"]
    except (safetensors.SafetensorError, KeyError, json.JSONDecodeError, TypeError) as error:
        raise SessionError(f"{path} is no saved session, or a damaged one; save it again.") from error
    if version != FORMAT_VERSION:
        raise SessionError(
            f"{path} was saved in format {version}, and this version of recal3r reads format {FORMAT_VERSION}."
        )
    return header


def load_session(path: Path, model: Cut3r, memory_type: type[Any]) -> Session:
    """The session at `path`, on the model's device; a file that is not exactly what was saved is an error."""
    header = read_header(path)
    if header["fingerprint"] != fingerprint(model):
        raise SessionError(f"The session {path} was saved with other weights or another dtype; load it with those.")
    try:
        tensors = safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise SessionError(f"{path} is a damaged session; save it again.") from error
    if header["checksum"] != _checksum(tensors):
        raise SessionError(f"{path} is damaged: its checksum does not match its content.")
    # A copy: memory that is mapped from a file is aligned otherwise, and sums of it come in another order.
    tensors = {name: tensor.clone().to(model.device) for name, tensor in tensors.items()}
    session = Session.fresh(model, len(header["places"]))
    try:
        session.state, session.pose_memory = tensors["state"], tensors["pose_memory"]
        session.rule_memory = unflatten(memory_type, tensors, "rule") if header["rule_has_memory"] else None
    except KeyError as error:
        raise SessionError(f"The session {path} was saved under another rule: it has no tensor {error}.") from error
    session.places = [
        StreamPlace(**place | {"T_world_segment": np.array(place["T_world_segment"])}) for place in header["places"]
    ]
    return session
