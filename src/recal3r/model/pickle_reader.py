"""Reads the pickle inside a torch checkpoint as a description: nothing the file names is imported or called.

A pickle is a program, and a weights file comes from a stranger. Here every global of that program becomes an inert
`Described` that records what it was given. A global that no honest checkpoint needs is an error that names it.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import pickletools
import re
import sys
from typing import Any, ClassVar, cast

from recal3r.errors import WeightsError

# Globals whose call is recorded, as patterns over "module.name". None of them is ever run; the list is what honest
# checkpoints are made of: tensors, containers, and the plain values of a training configuration.
_CALLS_RECORDED = re.compile(
    "|".join(
        (
            r"torch\._utils\._rebuild_\w+",
            r"torch\._tensor\._rebuild_\w+",
            r"torch\.(Size|device|Generator|nn\.parameter\.Parameter)",
            r"argparse\.Namespace",
            r"types\.SimpleNamespace",
            r"collections\.(OrderedDict|defaultdict|deque|Counter)",
            r"omegaconf(\.\w+)+",
            r"typing\.\w+",
            r"_?operator\.(getitem|or_)",  # how typing writes Optional[int] and int | None
            r"pathlib(\._local)?\.(Pure)?(Posix|Windows)?Path",
            r"datetime\.(date|datetime|time|timedelta|timezone)",
            r"(decimal\.Decimal|fractions\.Fraction|uuid\.UUID)",
            r"numpy\.(dtype|ndarray)",
            r"numpy\.dtypes\.\w+",
            r"numpy\.(core|_core)\.multiarray\.(scalar|_reconstruct)",
            r"numpy\.(core|_core)\.numeric\._frombuffer",
            r"_codecs\.encode",  # how pickle protocol 2 writes bytes
            r"builtins\.(set|frozenset|complex|bytearray|bytes|slice|x?range|object)",
            r"builtins\.(dict|list|tuple|int|long|float|str|unicode|bool|type)",
        )
    )
)
_PYTHON_2_NAMES = {
    "__builtin__": "builtins",
    "commands": "subprocess",
    "copy_reg": "copyreg",
}  # as protocol 2 writes them
_MEMO_WRITES = {"PUT", "BINPUT", "LONG_BINPUT"}
# What the pickle machine raises when bytes are out of place.
_DAMAGE = (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError)


class _Global(type):
    """The class that stands in for one global of the file."""

    made_by: str
    source: str

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        if not _CALLS_RECORDED.fullmatch(cls.made_by):
            raise _refusal(cls.source, cls.made_by)
        return Described.__new__(cast("type[Described]", cls), *args, **kwargs)


class Described(metaclass=_Global):
    """An object as the file describes it: by which global, from which arguments, with which state and items."""

    made_by: ClassVar[str] = ""
    """The global, as module.name."""
    source: ClassVar[str] = ""
    args: tuple[object, ...]
    state: object
    items: dict[object, object]

    def __new__(cls, *args: object, **_: object) -> Described:
        described = object.__new__(cls)
        described.args = args
        described.state = None
        described.items = {}
        return described

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        self.items[key] = value

    # What a pickle does to lists and sets; no list or set of a class of its own holds anything we need.
    def append(self, element: object) -> None: ...
    def extend(self, elements: object) -> None: ...
    def add(self, element: object) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class StoredNumbers:
    """The numbers behind one or more tensors: record `data/<key>` of the zip."""

    kind: str
    """The name of a storage class, such as torch.FloatStorage."""
    key: str
    count: int


class _Describer(pickle.Unpickler):
    def __init__(self, data: bytes, source: str) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._source = source
        self._globals: dict[str, type[Described]] = {}

    def find_class(self, module_name: str, global_name: str, /) -> type[Described]:
        path = f"{_PYTHON_2_NAMES.get(module_name, module_name)}.{global_name}"
        if _is_refused(path):
            raise _refusal(self._source, path)
        if path not in self._globals:
            # A class of this one reading: whatever the file does to it ends with it.
            self._globals[path] = _Global("Described", (Described,), {"made_by": path, "source": self._source})
        return self._globals[path]

    def persistent_load(self, pid: Any, /) -> StoredNumbers:
        match pid:
            case ("storage", _Global(made_by=kind), str(key), str(), int(count)) if count >= 0:
                return StoredNumbers(kind, key, count)
            case _:
                raise pickle.UnpicklingError("a persistent id that is no storage")


def read_description(data: bytes, source: str) -> object:
    """What the pickle `data` describes: plain values, `Described` objects and `StoredNumbers`."""
    try:
        _check_opcodes(data)
        return _Describer(data, source).load()
    except _DAMAGE as error:
        raise WeightsError(
            f"{source} holds a damaged pickle ({_one_line(error)}); download the file again or convert it anew."
        ) from error


def _check_opcodes(data: bytes) -> None:
    """Refuses what makes the pickle machine itself misbehave on a few damaged bytes."""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in _MEMO_WRITES and isinstance(argument, int) and argument > count:
            # The machine's memo is an array: a single large index would claim gigabytes.
            raise pickle.UnpicklingError(f"memo index {argument} after {count} steps")
        if opcode.name.startswith("EXT"):
            raise pickle.UnpicklingError("an extension code")


def _is_refused(path: str) -> bool:
    """Nothing of Python's own library but the recorded few; classes of other packages may be described."""
    return path.partition(".")[0] in sys.stdlib_module_names and not _CALLS_RECORDED.fullmatch(path)


def _refusal(source: str, path: str) -> WeightsError:
    return WeightsError(
        f"{source} asks for {path[:100]!r}, which no weights file needs and which may run a program; "
        "nothing was run: use a file from a source you trust."
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
