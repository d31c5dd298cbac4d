"""The kernels in Triton: on the CPU in Triton's interpreter, and compiled, though not run, for GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parents[1]
# Whether each kernel compiles, with the types that its pointers have.
COMPILE = """
import sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fa_tutorial import triton_attention

FULL = {"lse_ptr", "delta_ptr"}
NUMBERS = {"group": "i32", "seq_q": "i32", "seq_k": "i32", "rows": "i32", "scale": "fp32"}
CONSTANTS = {"CAUSAL": True, "HEAD_DIM": 64, "Br": 64, "Bc": 32}
for name in ("forward", "delta", "key_gradients", "query_gradients"):
    kernel = getattr(triton_attention, f"{name}_kernel")
    pointers = {n: "*fp32" if n in FULL else "*bf16" for n in kernel.arg_names if n.endswith("_ptr")}
    known = pointers | NUMBERS | dict.fromkeys(CONSTANTS, "constexpr")
    types = {n: known[n] for n in kernel.arg_names}
    constants = {n: CONSTANTS[n] for n in kernel.arg_names if n in CONSTANTS}
    compiled = triton.compile(ASTSource(kernel, types, constants), target=GPUTarget("cuda", 80, 32))
    print(name, "mma" in compiled.asm["ptx"], len(compiled.asm["cubin"]) > 0)
"""


@unittest.skipUnless(find_spec("triton"), "Triton is not installed")
class TritonTest(unittest.TestCase):
    def run_python(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *words],
            cwd=FOLDER,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    @unittest.skipUnless(find_spec("numpy"), "Triton's interpreter needs NumPy")
    def test_interpreted(self):
        words = ("-m", "unittest", "tests.triton_cases")
        done = self.run_python(*words, TRITON_INTERPRET="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"Ran [4-9] tests")

    def test_compiled(self):
        with tempfile.TemporaryDirectory() as cache:
            done = self.run_python("-c", COMPILE, TRITON_CACHE_DIR=cache)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            done.stdout.split("\n"),
            [
                "forward True True",
                "delta False True",
                "key_gradients True True",
                "query_gradients True True",
                "",
            ],
        )

    def test_needs_a_gpu_or_the_interpreter(self):
        from fa_tutorial import triton_attention

        q = torch.zeros(1, 1, 1, 16)
        with self.assertRaisesRegex(ValueError, "needs cuda, or TRITON_INTERPRET=1"):
            triton_attention.forward(q, q, q)


if __name__ == "__main__":
    unittest.main()
