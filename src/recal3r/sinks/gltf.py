"""Binary glTF 2.0 with what a reconstruction needs of it: points, lines and cameras.

https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html; K vertices
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recal3r.sinks.palette import linear
from recal3r.types import Array, Image

HALF_TURN = np.array([1.0, -1.0, -1.0])  # about x
_FLOAT = 5126
_ARRAY_BUFFER = 34962
_JSON, _BIN = 0x4E4F534A, 0x004E4942


class Mode(IntEnum):
    """How the vertices of a mesh are joined."""

    POINTS = 0
    LINES = 1


@dataclass
class Gltf:
    """A scene on its way into a file. What is added is given in our axes and turned into glTF's, half about x: y up and
    cameras that look along -z, where ours have y down and look along +z."""

    title: str = ""
    _binary: bytearray = field(default_factory=bytearray)
    _json: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])

    def mesh(self, name: str, mode: Mode, points: Array, colours: Image) -> None:  # [K, 3], [K, 3]
        """Coloured vertices. Nothing is added where there are none."""
        if not len(points):
            return
        positions = (points * HALF_TURN).astype("<f4")
        light = linear(colours).astype("<f4")  # what glTF wants; bytes of it would be too coarse in the dark
        bounds = {"min": positions.min(0).tolist(), "max": positions.max(0).tolist()}
        attributes = {
            "POSITION": self._accessor(positions, **bounds),
            "COLOR_0": self._accessor(light),
        }
        primitive = {"attributes": attributes, "mode": int(mode), "material": 0}
        self._add("nodes", {"name": name, "mesh": self._add("meshes", {"name": name, "primitives": [primitive]})})

    def camera(self, name: str, T_world_camera: Array, vertical_angle: float, aspect: float) -> None:
        """A perspective camera whose axis goes through the middle of its picture, in radians and width over height."""
        perspective = {"yfov": vertical_angle, "aspectRatio": aspect, "znear": 0.01}
        camera = self._add("cameras", {"name": name, "type": "perspective", "perspective": perspective})
        turned = np.diag([*HALF_TURN, 1]) @ T_world_camera @ np.diag([*HALF_TURN, 1])  # in the world, and in itself
        self._add("nodes", {"name": name, "camera": camera, "matrix": turned.T.ravel().tolist()})  # by columns

    def content(self) -> bytes:
        nodes = len(self._json.get("nodes", []))
        whole: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "recal3r"},
            "extensionsUsed": ["KHR_materials_unlit"],
            "scene": 0,
            "scenes": [{"name": self.title} | ({"nodes": list(range(nodes))} if nodes else {})],
            "materials": [{"name": "as photographed", "extensions": {"KHR_materials_unlit": {}}}],
            **self._json,
        }
        if self._binary:
            whole["buffers"] = [{"byteLength": len(self._binary)}]
        chunks = _chunk(_JSON, json.dumps(whole, separators=(",", ":")).encode(), b" ")
        if self._binary:
            chunks += _chunk(_BIN, bytes(self._binary), b"\0")
        return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks

    def _accessor(self, array: NDArray[Any], **bounds: list[float]) -> int:  # [K, 3] float32
        view = {"buffer": 0, "byteOffset": len(self._binary), "byteLength": array.nbytes, "target": _ARRAY_BUFFER}
        self._binary += array.tobytes()
        accessor = {"bufferView": self._add("bufferViews", view), "componentType": _FLOAT, "type": "VEC3"}
        return self._add("accessors", accessor | {"count": len(array)} | bounds)

    def _add(self, kind: str, entry: dict[str, Any]) -> int:
        entries = self._json.setdefault(kind, [])
        entries.append(entry)
        return len(entries) - 1


def _chunk(kind: int, content: bytes, filling: bytes) -> bytes:
    content += filling * (-len(content) % 4)
    return struct.pack("<II", len(content), kind) + content
