"""A run to look at, and a browser to look at it with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from room import walk, write_run

from recal3r.sources.synthetic import SyntheticFrame

pytest.importorskip("viser")

CHROMIUM = (
    os.environ.get("RECAL3R_CHROMIUM") or which("chromium") or which("chromium-browser") or which("google-chrome")
)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
]


@pytest.fixture(scope="session")
def frames() -> list[SyntheticFrame]:
    return walk(16)


@pytest.fixture(scope="session")
def run(frames: list[SyntheticFrame], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("viewer") / "room", frames)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed (apt-get install chromium, or set RECAL3R_CHROMIUM)")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, which drives the browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
