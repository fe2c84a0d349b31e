"""A page of the viewer as people use it, and what really reaches the screen."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

SECONDS = 60.0  # a software renderer on a busy machine takes its time

# How many points WebGL is told to draw from one picture to the next, counted where they are drawn.
COUNT_POINTS = """
window.pointsDrawn = 0;
let counted = 0;
const draw = WebGL2RenderingContext.prototype.drawArrays;
WebGL2RenderingContext.prototype.drawArrays = function (mode, first, count) {
  if (mode === WebGL2RenderingContext.POINTS) counted += count;
  return draw.call(this, mode, first, count);
};
const tick = () => {
  if (counted) window.pointsDrawn = counted;
  counted = 0;
  requestAnimationFrame(tick);
};
requestAnimationFrame(tick);
"""


class Watcher:
    """One person before a browser."""

    def __init__(self, browser: Any, url: str) -> None:
        self.errors: list[str] = []
        self.page = browser.new_context(viewport={"width": 1280, "height": 720}, accept_downloads=True).new_page()
        self.page.set_default_timeout(SECONDS * 1000)
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.add_init_script(COUNT_POINTS)
        self.response = self.page.goto(url)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.context.close()

    def _note(self, kind: str, text: str) -> None:
        if kind == "error":
            self.errors.append(text)

    def status(self) -> tuple[int, int] | None:
        """How many points the page says it shows, and of how many; None while it says nothing."""
        found = re.search(r"([\d,]+) of ([\d,]+) points", self.text())
        return None if found is None else (int(found[1].replace(",", "")), int(found[2].replace(",", "")))

    def text(self) -> str:
        return self.page.locator("body").inner_text()

    def points_drawn(self) -> int:
        return self.page.evaluate("window.pointsDrawn")

    def slider(self, label: str) -> Any:
        return self._control(label).locator("[role=slider]")

    def type(self, label: str, number: float) -> None:
        """A number into the field beside a slider."""
        field = self._control(label).locator("xpath=..").locator("input[inputmode=decimal]")
        field.fill(str(number))
        field.press("Enter")

    def choose(self, label: str, option: str) -> None:
        self._control(label).click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def click(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).click()

    def download(self, button: str) -> bytes:
        with self.page.expect_download() as waiting:
            self.click(button)
        return waiting.value.path().read_bytes()

    def pictures(self) -> set[str]:
        """The addresses of the pictures that are shown."""
        return {image.get_attribute("src") for image in self.page.locator("img").all()}

    def until(self, is_so: Callable[[], object]) -> None:
        """Waits for what is expected; where it does not come, says what the page shows instead."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if is_so():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"the page never came to what is expected; it says:\n{self.text()}\n{self.errors}")

    def _control(self, label: str) -> Any:
        name = self.page.locator("label", has_text=re.compile(f"^{re.escape(label)}$")).get_attribute("for")
        return self.page.locator(f"[id='{name}']")
