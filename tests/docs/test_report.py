"""build/report.html in headless Chromium: on a screen, on a phone, in dark colours and on paper."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from ..learn import fixtures
from . import browse_pages, chromium

ROOT = Path(__file__).resolve().parents[2]
NO_MATPLOTLIB = 4
PAPER = 718  # pixels between the margins of A4


def attention() -> dict:
    """A chapter with more tensors, more variants and longer names than those of softmax."""
    run = fixtures.chapter(
        "07_multi_stage",
        [
            fixtures.variant(name, 2, wavefronts=(9000, 8000))
            for name in ("stages_1", "fragment_double_buffer")
        ],
    )
    run["problem"] = {"name": "attention", "batch": 1, "heads": 12, "q": "/tmp/q.npy", "v": "/tmp/v.npy"}
    for variant in run["variants"]:
        for traffic in variant["traffic"].values():
            part = {"read_bytes": 3_000_000, "write_bytes": 700_000}
            traffic["tensors"] = dict.fromkeys(("q", "k", "v", "o", "lse", "partial_sums"), part)
    return run


def make(folder: Path, name: str, runs: list[dict]) -> Path:
    """The report of some runs. Skips the test if no Python here can draw."""
    data, page = folder / f"{name}.json", folder / f"{name}.html"
    data.write_text(json.dumps(runs), encoding="utf-8")
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        command = [python, "-m", "tools.report", str(data), str(page)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return page
        if done.returncode != NO_MATPLOTLIB:
            raise AssertionError(done.stderr)
    raise unittest.SkipTest("no Python here has matplotlib")


@unittest.skipUnless(chromium.program(), "there is no Chromium")
class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="test-report-")
        cls.addClassCleanup(folder.cleanup)
        broken = fixtures.online_softmax()
        broken["variants"][1]["defects"] = [fixtures.RACE]
        simulator = [fixtures.safe_softmax(), broken, attention()]
        cls.pages = [
            make(Path(folder.name), "simulator", simulator),
            make(Path(folder.name), "gpu", [fixtures.safe_softmax("cuda")]),
        ]

    def test_screen_phone_and_dark(self):
        with chromium.Browser() as browser:
            for page in self.pages:
                self.assertEqual(browse_pages.complaints_about(browser, page, None), [], page.name)

    def test_tables_fit_a_desktop_window(self):
        too_wide = (
            "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        )
        with chromium.Browser() as browser:
            for page in self.pages:
                browser.resize(1280)
                browser.open(page.as_uri())
                self.assertEqual(browser.run(too_wide), 0, page.name)

    def test_paper(self):
        with chromium.Browser() as browser:
            for page in self.pages:
                browser.resize(PAPER)
                browser.media("light", "print")
                browser.open(page.as_uri())
                self.assertEqual(browser.run(browse_pages.AUDIT), [], page.name)

    def test_shows_what_it_should(self):
        text = self.pages[0].read_text(encoding="utf-8")
        for title in (
            "Bytes between HBM and the chip",
            "Sector efficiency",
            "Error against its tolerance",
            "Passes over shared memory",
        ):
            self.assertIn(title, text)
        self.assertIn("partial_sums written", text)
        self.assertIn("Time on the GPU", self.pages[1].read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
