"""What other compilers say about the code, and what host code does under AddressSanitizer and UBSan.

    python3 -m tests.compilers nvcc TARGET    compiles a chapter for its oldest GPUs, where an instruction
                                              that they lack is an error; no spills, no serialised wgmma
    python3 -m tests.compilers clang TARGET   compiles with clang++ and sanitizers, and runs the target if it
                                              is a test

Exit status: 77, for which ctest reports a skipped test, if the compiler is not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.chapters import check_spills

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = 77


def call(*command: str | Path) -> None:
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status != 0:
        sys.exit(status)


def nvcc(target: str) -> None:
    # Without fp16, whose kernels come from the same templates as those for bf16.
    call(
        "cmake",
        "--preset=cuda",
        "-DCMAKE_CUDA_ARCHITECTURES=75;80",
        "-DCMAKE_CUDA_FLAGS=-DFA_WITHOUT_FLOAT16",
        "-DFA_PTXAS_REPORT=ON",
    )
    call("cmake", "--build", "--preset=cuda", "--target", target)
    for kernels in check_spills.DEFAULT:
        if kernels.split(":")[0] == target.removeprefix("ch"):
            call(sys.executable, "tests/chapters/check_spills.py", "build/cuda", kernels)


def clang(target: str) -> None:
    call("cmake", "--preset=sim-asan", "-DCMAKE_CXX_COMPILER=clang++")
    call("cmake", "--build", "--preset=sim-asan", "--target", target)
    if target.startswith("test_"):
        call(ROOT / "build/sim-asan/bin" / target, "--gtest_brief=1")


def main(which: str, target: str) -> int:
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    program = {"nvcc": "nvcc", "clang": "clang++"}[which]
    if not shutil.which(program):
        print(f"skipped: {program} is not installed")
        return SKIPPED
    {"nvcc": nvcc, "clang": clang}[which](target)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
