"""A command is a frozen dataclass: its fields are its options, its docstring is its help, `run` does the work.

A field without a default is a positional argument; one with a default is `--its-name`. Its metadata may have
    help     what it means
    short    another name, such as "-o"; a field that has one and no default is an option that must be given
    shown    what stands for each of its values in the help
    place    true for one with a default that is given by its place, or not at all
    parse    what makes its value of a word, where the type does not say it; a Recal3rError of it is an error of usage
Types: str, int, float, bool, Path, Literal, tuples of these, and any of them or None.
"""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from recal3r.errors import Recal3rError


class Command(Protocol):
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def run(self) -> int:
        """Does the work and returns the exit status."""
        ...


CommandSet = type[Command] | Mapping[str, type[Command]]
"""One command, or several by the word that chooses among them."""


def parse(program: str, commands: CommandSet, arguments: Sequence[str], about: str) -> Command:
    """The command that the arguments ask for; argparse ends the program where they ask for none."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    if isinstance(commands, Mapping):
        choice = parser.add_subparsers(dest="_command", metavar="command", required=True)
        for word, command in commands.items():
            add_options(choice.add_parser(word, help=_about(command), description=_about(command)), command)
        options = vars(parser.parse_args(arguments))
        return from_options(commands[options["_command"]], options)
    add_options(parser, commands)
    return from_options(commands, vars(parser.parse_args(arguments)))


def add_options(parser: argparse.ArgumentParser, command: type[Command]) -> None:
    hints = typing.get_type_hints(command)
    needed: list[str] = []  # in the line of usage, which is not the place to list options
    for field in dataclasses.fields(command):
        parsed = field.metadata.get("parse")
        settings: dict[str, Any] = {"type": _explained(parsed)} if parsed else _settings(hints[field.name])
        settings["help"] = str(field.metadata.get("help", ""))
        if field.metadata.get("shown"):
            settings["metavar"] = field.metadata["shown"]
        default, short = _default(field), field.metadata.get("short")
        names = [*([short] if short else []), f"--{field.name.replace('_', '-')}"]
        if field.metadata.get("place"):
            parser.add_argument(field.name, nargs="?", default=default, **settings)
        elif default is not dataclasses.MISSING:
            if default not in (None, False, ()):
                settings["help"] += f" (default: {_shown(default)})"
            parser.add_argument(*names, dest=field.name, default=default, **settings)
        elif short:
            needed.append(f"{short} {field.name.upper()}")
            parser.add_argument(*names, dest=field.name, required=True, **settings)
        else:
            needed.append(field.name.upper())
            parser.add_argument(field.name, **settings)
    parser.usage = " ".join(["%(prog)s", *needed, "[options]"])


def from_options(command: type[Command], options: Mapping[str, Any]) -> Command:
    values = {field.name: options[field.name] for field in dataclasses.fields(command)}
    return command(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})  # pyright: ignore[reportUnknownArgumentType]  # argparse's values have no types


def _explained(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Says argparse what was wrong with a word."""

    def parsed(word: str) -> Any:
        try:
            return parse(word)
        except Recal3rError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _shown(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # of anything


def _settings(hint: Any) -> dict[str, Any]:
    """What argparse needs to know about a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not types.NoneType]
        if len(kinds) == 1:
            return _settings(kinds[0])
    elif origin is Literal:
        return {"choices": inner, "type": type(inner[0])}
    elif origin is tuple:
        return _settings(inner[0]) | {"nargs": "*" if inner[1:] == (...,) else len(inner)}
    elif hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    elif isinstance(hint, type):
        return {"type": hint}
    raise TypeError(f"An option cannot be of the type {hint}.")


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _about(command: type[Command]) -> str:
    return (command.__doc__ or "").partition("\n\n")[0]
