"""Rerun's file format, as far as it takes to write the same bytes for the same data.

The SDK encodes chunks; what it would draw at random (the ids of rows, of chunks and of the announcement of the
recording) is set here. A file is a header and messages, each with its kind and length in front, and may end anywhere
between two messages. There is no index at its end: that would have to hold an entry for every chunk of the stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from recal3r.errors import OutputError
from recal3r.sinks.extra import extra_package

_MAGIC = b"RRF2"
_HEADER = 12
_ANNOUNCEMENT, _CHUNK = 1, 2  # kinds of messages
_ID = slice(19, 35)  # two numbers of an announcement's row id, each after a byte that says its type
_KIND_AND_LENGTH = struct.Struct("<QQ")


class Encoder:
    """Turns chunks into messages, by way of a recording that the SDK keeps in memory for the length of one call."""

    def __init__(self, rerun: Any, recording: str) -> None:
        self._rerun = rerun
        self._stream = rerun.RecordingStream("recal3r", recording_id=recording, send_properties=False)
        self._memory = self._stream.memory_recording()

    def beginning(self) -> bytes:
        """What a file begins with: header and announcement."""
        encoded: bytes = self._memory.drain_as_bytes()
        announcement = next((whole for kind, whole in self._messages(encoded) if kind == _ANNOUNCEMENT), b"")
        if announcement[16:19] != b"\n\x12\t" or announcement[27:28] != b"\x11":
            raise self._unknown()
        return encoded[:_HEADER] + announcement[:19] + bytes(8) + b"\x11" + bytes(8) + announcement[36:]

    def messages(self, chunks: Iterable[Any], number: int) -> bytes:
        """Chunks that belong to one moment, the `number`-th, with ids that say so."""
        known = [self._identified(chunk, number, place) for place, chunk in enumerate(chunks)]
        self._rerun.send_chunks(known, recording=self._stream)
        messages = [whole for kind, whole in self._messages(self._memory.drain_as_bytes()) if kind == _CHUNK]
        if len(messages) != len(known):
            raise self._unknown()
        return b"".join(messages)

    def close(self) -> None:
        self._stream.disconnect()

    def _identified(self, chunk: Any, number: int, place: int) -> Any:
        """Ids are 16 bytes that grow with time: the moment, then the chunk and the row within it."""
        pyarrow = extra_package("pyarrow", "rerun", Encoder)

        batch = chunk.to_record_batch()
        rows = [struct.pack(">QII", number, place, row) for row in range(batch.num_rows)]
        column = batch.schema.get_field_index("rerun.controls.RowId")
        batch = batch.set_column(column, batch.schema.field(column), pyarrow.array(rows, pyarrow.binary(16)))
        name = f"chunk_{struct.pack('>QII', number, place, 0).hex()}"
        metadata = {**batch.schema.metadata, b"rerun:id": name.encode()}
        (identified,) = self._rerun.chunk.Chunk.from_record_batch(batch.replace_schema_metadata(metadata))
        return identified

    def _messages(self, encoded: bytes) -> Iterator[tuple[int, bytes]]:
        """Up to the end of the stream, which a footer would follow."""
        if encoded[:4] != _MAGIC:
            raise self._unknown()
        at = _HEADER
        while at < len(encoded):
            kind, length = _KIND_AND_LENGTH.unpack_from(encoded, at)
            if kind not in (_ANNOUNCEMENT, _CHUNK):
                return
            yield kind, encoded[at : at + 16 + length]
            at += 16 + length

    def _unknown(self) -> OutputError:
        version = self._rerun.__version__
        return OutputError(f"rerun-sdk {version} writes recordings in a form unknown here; install rerun-sdk 0.41.")
