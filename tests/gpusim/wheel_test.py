"""The wheel of the simulator, installed outside of this tree: wheel_test.py.

Compiles the simulator once more, and runs a program with a race with nothing but the wheel and g++. Skipped
where this Python has no pip, venv or a setuptools that makes wheels.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPUSIM = ROOT / "common" / "gpusim"
NEEDED = ("pip", "venv", "ensurepip", "setuptools.command.bdist_wheel")


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


RACE = GPUSIM / "example" / "race.cu"


@unittest.skipUnless(all(map(is_there, NEEDED)), f"needs {', '.join(NEEDED)}")
class Wheel(unittest.TestCase):
    def test_a_program_with_nothing_but_the_wheel(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)

            def call(*words: object, status: int = 0) -> str:
                done = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                return done.stdout + done.stderr

            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
            call(*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder, GPUSIM)
            (wheel,) = folder.glob("gpusim-*.whl")
            call(sys.executable, "-m", "venv", folder / "env")
            call(folder / "env" / "bin" / "python", "-m", "pip", "install", "-q", "--no-index", wheel)
            shutil.copy(RACE, folder)
            path = ("env", "-i", "PATH=/usr/bin:/bin")
            said = call(*path, folder / "env" / "bin" / "gpusim", "run", "race.cu", status=1)
            # The README quotes what the program does not print itself.
            own = [line.rstrip() for line in said.splitlines()[2:]]
            self.assertIn("\n".join(own), (GPUSIM / "README.md").read_text(encoding="utf-8"))
            self.assertIn("Race reported between Write access by thread (32,0,0) at race.cu:8", said)


if __name__ == "__main__":
    unittest.main()
