"""Compiles the operators in C++ for this PyTorch: python -m fa_tutorial.build_native. Half a minute."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch

from . import builds, native

PACKAGE = Path(__file__).parent
SOURCE = PACKAGE / "cpp" / "operators.cpp"


def build() -> Path:
    """Compiles cpp/. @throws RuntimeError  one sentence"""
    from torch.utils import cpp_extension

    if not torch.version.cuda:
        raise RuntimeError("this PyTorch has no CUDA: the operators in C++ are for GPUs")
    cuda = cpp_extension.CUDA_HOME
    if not cuda:
        raise RuntimeError("there is no CUDA toolkit: put nvcc on PATH")
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    libraries = Path(torch.__file__).parent / "lib"
    target = native.library()
    target.parent.mkdir(parents=True, exist_ok=True)
    includes = [*cpp_extension.include_paths(), str(Path(cuda) / "include")]
    includes += [sysconfig.get_path("include", "posix_prefix"), str(builds.interface()), str(PACKAGE)]
    partial = target.with_suffix(".partial")
    command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", str(SOURCE)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    command += [word for path in includes for word in ("-isystem", path)]
    command += ["-o", str(partial), f"-L{libraries}", "-lc10", "-lc10_cuda"]
    command += ["-ltorch_cpu", "-ltorch_cuda", "-ltorch", "-ltorch_python", "-ldl"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        problem = next((line for line in lines if "error" in line), "no message")
        raise RuntimeError(f"{compiler} cannot compile {SOURCE}: {problem}")
    partial.replace(target)
    return target


if __name__ == "__main__":
    try:
        print(build())
    except RuntimeError as problem:
        print(f"fa_tutorial: {problem}", file=sys.stderr)
        sys.exit(1)
