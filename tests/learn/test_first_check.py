"""What `./learn check 01` builds in a fresh clone: python3 -m tests.learn.test_first_check BUILD."""

import re
import sys
import unittest
from pathlib import Path

from tools.learn import project, trials

BUILD = Path()  # set below

# Everything of these targets is compiled before a learner sees the first answer.
NEEDED = {
    "ch01_safe_softmax_kernels",
    "fa_chapter_headers",
    "fa_harness_once",
    "fa_diagnosis_softmax",
    "fa_harness_softmax",
    "fa_main",
    "fa_softmax",
    "gpusim",
    "gpusim_check_kernels",
}
STEPS = 26  # of Ninja, at most: each source that is compiled by itself reads its headers again


class FirstCheckTest(unittest.TestCase):
    def test_builds_what_chapter_01_needs_and_nothing_of_others(self):
        chapter = project.select(["01"])[0]
        commands = trials.ninja_commands(BUILD, chapter.executable)
        made = re.compile(r"CMakeFiles/(\w+)\.dir/\S+\.(?:o|gch)\b")
        targets = {name for line in commands for name in made.findall(line)}
        self.assertEqual(targets, NEEDED)
        self.assertLessEqual(len(commands), STEPS)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1))
    unittest.main()
