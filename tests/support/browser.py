"""A real browser for the tests of the page: Chromium of the system, driven by Playwright; and servers for it in this process.

`LSMLAKE_SHOTS=DIR` keeps a picture of each view that a tour of all views opens, for people to look at.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn

from lsmlake import Lake
from lsmlake.serve.application import application
from lsmlake.serve.serve_settings import ServeSettings

try:
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:
    Browser = Page = object
    sync_playwright = None

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found_browser() -> str:
    """The path of the browser. Skips the test, or fails it if LSMLAKE_REQUIRE_BROWSER is 1, if one of the two is missing."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is not None and sync_playwright is not None:
        return path
    missing = "the page needs Playwright and Chromium: pip install playwright, apt-get install chromium"
    if os.environ.get("LSMLAKE_REQUIRE_BROWSER") == "1":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


@contextmanager
def browser() -> Iterator[Browser]:
    path = found_browser()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@contextmanager
def served(lake: Lake, **settings: object) -> Iterator[str]:
    """The address of a server for a lake, in a thread of this process."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = application(lake, ServeSettings(**settings))
    config = uvicorn.Config(app, lifespan="off", ws="none", access_log=False, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


@dataclass
class Visit:
    """A tab of the browser that notes what goes wrong in it.

    Attributes:
        base: the address of the server; "" for a page from a file.
        requests: the addresses that the page asked for.
        faults: errors of programs, refused scripts and styles, and what else the console says, except that a request was answered
            with an error, which the page shows.
    """

    page: Page
    base: str = ""
    requests: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(20_000)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda message: self._heard(message.type, message.text))

    def _heard(self, kind: str, text: str) -> None:
        if not text.startswith("Failed to load resource: the server responded"):
            self.faults.append(f"{kind}: {text}")

    def open(self, place: str) -> Page:
        """Goes to a place in the page and waits for its data."""
        self.page.goto(f"{self.base}/{place}")
        return self.ready()

    def ready(self) -> Page:
        """Waits until the view has its data."""
        self.page.wait_for_selector("main[aria-busy=false]")
        return self.page

    def keep_picture(self, name: str) -> None:
        """Keeps a picture of the whole page, if `LSMLAKE_SHOTS` names a folder."""
        if folder := os.environ.get("LSMLAKE_SHOTS"):
            self.page.wait_for_timeout(400)  # what moves has come to rest
            self.page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)

    def until(self, condition: str) -> None:
        """Waits until an expression is true. The policy of the page forbids to wait inside of it, which needs `eval`."""
        ends = time.monotonic() + 20
        while not self.page.evaluate(condition):
            assert time.monotonic() < ends, condition
            self.page.wait_for_timeout(50)

    def check(self) -> None:
        """Nothing went wrong, nothing was asked of another server, no text became a program, and nothing is cut at the side."""
        assert self.faults == []
        assert [url for url in self.requests if self.base and not url.startswith(f"{self.base}/")] == []
        assert self.page.evaluate("window.hacked") is None
        assert self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), self.page.url
        assert self.page.evaluate(NAMELESS) == [], f"{self.page.url}: what can be reached has a name"


NAMELESS = """[...document.querySelectorAll("button, input, textarea, a, [tabindex='0'], [role=img]")]
    .filter((one) => one.checkVisibility() && !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 120))"""
