"""Every file that CONTRIBUTING.md, docs/pages/journey.md and its drawing name exists."""

import re
import unittest
from pathlib import Path

from tools.docs import journey

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("CONTRIBUTING.md", "docs/pages/journey.md")
NAMED = re.compile(r"(?<![\w/])(?:chapters|common|docs|tests|tools)/[\w*./]*|\.ci/\w+")


def missing(text: str) -> list[str]:
    """The paths in a text that lead nowhere. NN stands for any chapter, GPU for any GPU."""
    found = []
    for named in NAMED.findall(text):
        path = named.rstrip(".").replace("NN_name", "[0-9]*").replace("NN", "[0-9]*")
        if not any(ROOT.glob(path.replace("GPU", "*").rstrip("/"))):
            found.append(named)
    return found


class Paths(unittest.TestCase):
    def test_of_the_pages(self):
        for page in PAGES:
            text = (ROOT / page).read_text(encoding="utf-8")
            self.assertGreater(len(NAMED.findall(text)), 20)
            self.assertEqual(missing(text), [], page)

    def test_of_the_drawing(self):
        for step in journey.STEPS:
            self.assertEqual(missing(journey.folder(step)), [], step.name)

    def test_a_file_that_is_gone_is_found(self):
        self.assertEqual(missing("see `common/gone/`, and `tests/`"), ["common/gone/"])


if __name__ == "__main__":
    unittest.main()
