"""What all tests share: the small network, its frames, and where the golden arrays lie."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data.seeded import seeded_frames
from networks import seeded_network
from recal3r.model.cut3r import Cut3r

SHARED = Path(os.environ.get("RECAL3R_SHARED", Path(__file__).parents[2] / "shared"))

FIGURE = "figure"


def pytest_configure() -> None:
    """Programs that tests start can be interrupted, also where the tests were started with Ctrl-C ignored, as shells
    do with what runs in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes goes first, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture
def say(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Puts a line among the figures at the end of the run, from whichever process the test is in."""
    return lambda line: record_property(FIGURE, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    figures = [(report.nodeid, text) for report in reports for name, text in report.user_properties if name == FIGURE]
    if figures:
        terminalreporter.section("figures")
    for test, text in figures:
        terminalreporter.write_line(f"{test.rpartition('::')[2]}: {text}")


@pytest.fixture(scope="session")
def mini() -> Cut3r:
    return seeded_network("mini-linear")


@pytest.fixture(scope="session")
def frames() -> np.ndarray:
    """uint8 [12, 48, 64, 3]."""
    return seeded_frames(12, 48, 64)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of facts, golden arrays and recordings beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the shared folder, which is not at {SHARED} (set RECAL3R_SHARED)")
    return SHARED
