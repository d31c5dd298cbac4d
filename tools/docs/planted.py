"""Runs chapters with mistakes planted in them, and keeps those of the simulator's reports that lessons quote.

    python3 -m tools.docs.planted [--build DIR] [NAME...]

The mistakes are in planted.toml. Each is compiled and run: a few seconds. Writes
docs/results/mistakes_simulator.json, from which the lessons quote (tools/docs/lessons.py). NAME: only these
mistakes; default: all that are quoted. Run it after changes to a kernel with one of them, or to
the simulator's reports.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .. import results
from ..learn import project, ranks
from ..learn.trials import Workbench, variants_in

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "mistakes_simulator.json"
TIME_LIMIT = 120.0


@dataclass(frozen=True)
class Mistake:
    """A change to one file of a chapter, and the run that shows what it does: an entry of planted.toml."""

    name: str
    file: str
    before: str
    after: str
    run: str
    says: list[str]
    device: str = ""

    @property
    def chapter(self) -> project.Chapter:
        (chapter,) = project.select([self.name[:2]])
        return chapter

    def changed_text(self) -> str:
        """The file with the mistake. SystemExit if the kernel is no longer what it was."""
        text = (self.chapter.path / self.file).read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise SystemExit(f"{self.name}: {self.file} must have once: {self.before}")
        if self.before.count("\n") != self.after.count("\n"):
            raise SystemExit(f"{self.name}: reports would name other lines")
        return text.replace(self.before, self.after)

    def output(self, build: Path) -> str:
        """What the program prints with the mistake in it. SystemExit if that is not what it must say."""
        words = shlex.split(self.run)
        (variant,) = variants_in(self.run)
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            program = Workbench(build, self.chapter).program(
                {self.file: self.changed_text()}, Path(folder), [self.run], variant
            )
            done = subprocess.run(
                ranks.command(program, words),
                env=os.environ | {"GPUSIM_DEVICE": self.device},
                capture_output=True,
                text=True,
                check=False,
                timeout=TIME_LIMIT,
            )
        printed = done.stdout + done.stderr
        if missing := [words for words in self.says if words not in printed]:
            raise SystemExit(f"{self.name}: must say {missing}, and says:\n{printed}")
        return printed


MISTAKES = {
    name: Mistake(name, **entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def quoted() -> list[str]:
    """The mistakes whose reports a lesson quotes."""
    pages = (path.read_text() for path in sorted(ROOT.glob("chapters/*/*.md")))
    names = re.findall(r"<!-- planted: (\w+)", "\n".join(pages))
    return [name for name in MISTAKES if name in names]


def kept(mistake: Mistake, build: Path) -> dict:
    """What is kept of a mistake: the change, the run and its report."""
    said = [line.rstrip() for line in mistake.output(build).splitlines()]
    return {
        "command": f"build/sim/bin/{mistake.chapter.executable} {mistake.run}",
        "file": mistake.file,
        "before": mistake.before,
        "after": mistake.after,
        "report": [line for line in said if line.startswith("=====") and line != "========="],
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "sim")
    parser.add_argument("names", nargs="*", choices=[[], *MISTAKES], metavar="NAME")
    args = parser.parse_args(arguments)
    rows = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in args.names or quoted():
        rows[name] = kept(MISTAKES[name], args.build.resolve())
        print("\n".join([name, *rows[name]["report"], ""]))
    rows = {name: rows[name] for name in quoted() if name in rows}
    results.write(RESULTS, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
