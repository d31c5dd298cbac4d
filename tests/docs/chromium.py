"""A headless Chromium, controlled by its DevTools protocol over a pair of pipes. Needs only the standard
library.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-dev-shm-usage", "--allow-file-access-from-files", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# Chromium reads commands from file descriptor 3 and answers on 4.
LAUNCH = """import fcntl, os, sys
ours = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for number, fd in zip((3, 4), ours):
    os.dup2(fd, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserError(Exception):
    """The browser did not execute a command."""


def program() -> str | None:
    """The path of Chromium, or None if it is not installed, or not to be used: FA_NO_CHROMIUM=1."""
    if os.environ.get("FA_NO_CHROMIUM"):
        return None
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One Chromium with one tab. A context manager."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-")
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(from_us), str(to_us), program(), *flags],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self._buffer, self._number = b"", 0
        self._messages: deque[dict] = deque()
        self._session = None
        self.events: list[dict] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        tab = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._session = None
            self.call("Browser.close")
        except (BrowserError, OSError):
            self._process.kill()
        self._process.wait(timeout=20)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._folder.cleanup()

    def _read(self, deadline: float) -> dict:
        while not self._messages:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self._from, 1 << 20) if ready else b""
            if not data:
                raise BrowserError("Chromium closed the connection" if ready else "Chromium takes too long")
            *whole, self._buffer = (self._buffer + data).split(b"\0")
            self._messages.extend(json.loads(part) for part in whole)
        return self._messages.popleft()

    def call(self, method: str, **parameters: object) -> dict:
        """Sends a command of the protocol and returns the answer. Events in the meantime go to `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, scheme: str = "light", kind: str = "screen") -> None:
        """@param scheme  the preference of the system: light or dark   @param kind  screen or print"""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def open(self, url: str) -> None:
        """Opens a page and waits until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            answer = self._read(deadline)
            if "method" in answer:
                self.events.append(answer)

    def run(self, script: str) -> object:
        """Evaluates an expression in the page; waits for the value of a promise."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return done["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors since open(): in the console, in scripts, and of anything that could not be loaded."""
        found = []
        for event in self.events:
            what = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    details = what["exceptionDetails"]
                    found.append(details.get("exception", {}).get("description", details["text"]))
                case "Runtime.consoleAPICalled" if what["type"] in ("error", "assert"):
                    found.append(" ".join(str(a.get("value", "")) for a in what["args"]))
                case "Log.entryAdded" if what["entry"]["level"] == "error":
                    found.append(f"{what['entry']['text']} {what['entry'].get('url', '')}".strip())
                case "Network.loadingFailed" if not what.get("canceled"):
                    found.append(what["errorText"])
        return found

    def requests(self) -> list[str]:
        """The addresses requested since open()."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path) -> None:
        image = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(image))
