"""A program can contain all kernels of a chapter: its headers compile in one file, in either order.

    test_headers.py BUILD_DIR

A name that two headers define, or that `using namespace` takes from two chapters, is an error then. The order
matters: only a header that comes after both sees that a name is ambiguous.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build" / "sim"
TAKES_A_FILE = {"-c", "-o", "-MF", "-MT"}


def compiler_of(chapter: Path) -> list[str]:
    """The command that compiles chapter.cu, without its files."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if (
            entry["file"] == str(chapter / "chapter.cu")
            and f"/ch{chapter.name}_kernels.dir/" in entry["command"]
        ):
            words = iter(shlex.split(entry["command"]))
            kept = []
            for word in words:
                if word in TAKES_A_FILE:
                    next(words)
                elif word != "-MD":
                    kept.append(word)
            return [*kept, "-Wno-unused", "-fsyntax-only"]
    raise LookupError(f"{chapter.name}: no command compiles its chapter.cu")


def errors(chapter: Path, headers: Iterable[Path]) -> str:
    """What the compiler reports on a file that includes these headers."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "all.cpp"
        source.write_text("".join(f'#include "{header}"\n' for header in headers))
        done = subprocess.run([*compiler_of(chapter), source], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""


def headers_of(chapter: Path) -> list[Path]:
    return sorted(path for path in chapter.iterdir() if path.suffix in {".cuh", ".hpp"})


class Headers(unittest.TestCase):
    def test_together(self):
        for chapter in sorted((ROOT / "chapters").glob("[0-9]*_*")):
            headers = headers_of(chapter)
            if len(headers) < 2:
                continue  # chapter.cu includes it
            for order in (headers, headers[::-1]):
                with self.subTest(chapter=chapter.name, first=order[0].name):
                    self.assertEqual(errors(chapter, order), "")

    def test_clashes_are_found(self):
        chapter = ROOT / "chapters" / "01_safe_softmax"
        clashes = {
            "redefinition": ("struct Tile {};", "struct Tile { int rows; };"),
            "ambiguous": (
                "namespace first { struct Tile {}; } using namespace first;",
                "namespace second { struct Tile {}; } using namespace second; Tile tile();",
            ),
        }
        for error, codes in clashes.items():
            with self.subTest(error), tempfile.TemporaryDirectory() as folder:
                planted = [Path(folder) / f"{number}.cuh" for number in range(len(codes))]
                for path, code in zip(planted, codes, strict=True):
                    path.write_text(f"namespace fa::ch01 {{ {code} }}\n")
                    self.assertEqual(errors(chapter, [path]), "")
                self.assertIn(error, errors(chapter, [*headers_of(chapter), *planted]))


if __name__ == "__main__":
    unittest.main()
