"""Inline PTX that is not simulated stops the compilation, with one line.

inline_ptx_test.py TOOLCHAIN

TOOLCHAIN is the toolchain.json of a build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compile_and_run(text: str, toolchain: str) -> tuple[int, list[str]]:
    """The status of `gpusim run`, and the lines that name the source."""
    with tempfile.TemporaryDirectory(prefix="gpusim-ptx-") as folder:
        source = Path(folder) / "k.cu"
        source.write_text(text, encoding="utf-8")
        env = {**os.environ, "GPUSIM_TOOLCHAIN": toolchain, "PYTHONPATH": str(ROOT / "common" / "gpusim")}
        done = subprocess.run(
            [sys.executable, "-m", "gpusim", "run", str(source)],
            check=False,
            env=env,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, [line for line in done.stdout.splitlines() if "k.cu:" in line]


class InlinePtx(unittest.TestCase):
    toolchain = ""

    def expect_error(self, ptx: str, words: str) -> None:
        kernel = f"__global__ void k(unsigned* x) {{\n  unsigned v;\n  asm {ptx};\n  *x = v;\n}}\n"
        text = kernel + "int main() {}\n"
        status, lines = compile_and_run(text, self.toolchain)
        self.assertEqual(status, 2, lines)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("k.cu:3: error: ", lines[0])
        self.assertIn(words, lines[0])

    def test_an_unknown_instruction(self) -> None:
        self.expect_error(
            'volatile("tcgen05.alloc.b32 %0, 32;" : "=r"(v))', "the PTX instruction tcgen05.alloc.b32"
        )

    def test_an_unknown_register(self) -> None:
        self.expect_error('("mov.u32 %0, %%nosuch;" : "=r"(v))', "the special register %nosuch")

    def test_an_undeclared_register(self) -> None:
        self.expect_error('("mov.u32 %0, other;" : "=r"(v))', "PTX names other")

    def test_instructions_of_the_cpu_stay(self) -> None:
        text = 'void wait() { asm volatile("pause" ::: "memory"); }\nint main() { wait(); }\n'
        status, lines = compile_and_run(text, self.toolchain)
        self.assertEqual(status, 0, lines)


if __name__ == "__main__":
    InlinePtx.toolchain = sys.argv.pop(1)
    unittest.main()
