"""`recal3r view OUT`: a page in the browser, of a run that is finished or still being made."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path

from recal3r.cli.command import Command


@dataclasses.dataclass(frozen=True)
class View:
    """Look at a run in the browser, afterwards or while it is made."""

    folder: Path = field(metadata={"help": "what `recal3r run` has written, or is writing"})
    port: int = field(default=8080, metadata={"help": "where to listen; 0 takes any port that is free"})
    host: str = field(
        default="127.0.0.1", metadata={"help": "the address to listen on; on any but a loopback one, a token is needed"}
    )
    token: str | None = field(
        default=None, metadata={"help": "what has to stand in the address of the page; drawn at random where needed"}
    )
    clients: int = field(default=8, metadata={"help": "how many people may watch at once"})
    budget: int = field(default=1_000_000, metadata={"help": "the most points that the page is sent at first"})
    capacity: int = field(default=5_000_000, metadata={"help": "the most points that are held"})

    def run(self) -> int:
        from recal3r.viewer import FolderFrames, Viewer

        viewer = Viewer(
            FolderFrames(self.folder),
            host=self.host,
            port=self.port,
            token=self.token,
            clients=self.clients,
            title=self.folder.resolve().name,
            capacity=self.capacity,
            budget=self.budget,
        )
        with viewer:
            print(f"open {viewer.url}   (Ctrl-C ends)", flush=True)
            viewer.wait()
        return 0


COMMAND: type[Command] = View
