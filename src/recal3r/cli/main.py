"""`recal3r <command>`: finds the command, reads its options, runs it."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import sys
from collections.abc import Sequence

from recal3r import __version__
from recal3r.cli.command import parse
from recal3r.errors import Recal3rError

_INTERRUPTED = 130
_USAGE = 2


@dataclasses.dataclass(frozen=True)
class Entry:
    """A command by name. Its module defines `COMMAND` and is imported only when the command is asked for."""

    name: str
    module: str
    help: str


ENTRIES = (
    Entry(
        "demo", "recal3r.cli.demo", "Walk through a made-up room and reconstruct it: needs nothing but this package."
    ),
    Entry("run", "recal3r.cli.run", "Reconstruct a video, pictures or a live stream into files that others read."),
    Entry("data", "recal3r.cli.data", "Get datasets ready for evaluation, and see what is missing."),
    Entry("eval", "recal3r.cli.eval", "Measure rules on datasets, beside the published numbers, and compare two runs."),
    Entry("train", "recal3r.cli.train", "Train a network of our own on procedural rooms."),
    Entry("judge", "recal3r.cli.judge", "See what a network of our own has learned, in rooms it never saw."),
    Entry("study", "recal3r.cli.study", "Compare rules, ablations and controls on long walks whose truth is known."),
    Entry("view", "recal3r.cli.view", "Look at a run in the browser, afterwards or while it is made."),
    Entry("doctor", "recal3r.cli.doctor", "See what is installed, whether a stream would run here, and how long."),
    Entry(
        "bench", "recal3r.cli.bench", "Measure what a frame costs on this machine: by stage, by rule, beside its peak."
    ),
    Entry("weights", "recal3r.cli.weights", "List, fetch, convert and verify the weights of networks."),
)


def main(argv: list[str] | None = None) -> int:
    """Runs one command. Returns 0, 1 for an error that is explained, 2 for arguments that make no sense."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _run(arguments)
    except Recal3rError as error:
        _tell(str(error), error)
        return 1
    except BrokenPipeError as error:
        _tell("Nobody reads the output any more.", error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes when it ends
        return 1
    except KeyboardInterrupt as interrupt:
        _tell("interrupted", interrupt)
        return _INTERRUPTED
    except SystemExit as end:  # how argparse ends after --help, or after arguments that make no sense
        return end.code if isinstance(end.code, int) else _USAGE


def _tell(sentence: str, error: BaseException) -> None:
    """What ended a command, and what whoever passed it on has noted."""
    print(f"recal3r: {sentence}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)


def _run(arguments: Sequence[str]) -> int:
    parser = _parser()
    if not arguments:
        parser.print_help(sys.stderr)
        return _USAGE
    # Only the first argument is ours: what follows belongs to the command, whose module is not imported yet.
    name = parser.parse_args(arguments[:1]).command
    entry = next(entry for entry in ENTRIES if entry.name == name)
    module = importlib.import_module(entry.module)
    return parse(f"recal3r {name}", module.COMMAND, arguments[1:], entry.help).run()


def _parser() -> argparse.ArgumentParser:
    width = max(len(entry.name) for entry in ENTRIES)
    parser = argparse.ArgumentParser(
        prog="recal3r",
        usage="recal3r [--help] [--version] <command> ...",
        description="Streaming 3D reconstruction that stays stable on streams that do not end.",
        epilog="commands:\n" + "\n".join(f"  {entry.name:{width}}  {entry.help}" for entry in ENTRIES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"recal3r {__version__}", help="show the version and exit"
    )
    parser.add_argument("command", choices=[entry.name for entry in ENTRIES], help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
