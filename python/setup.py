"""Compiles the kernels and puts them into the wheel: pip wheel ./python.

An editable installation uses those in build/ of the checkout instead.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from setuptools import errors, setup
from setuptools.command.build_py import build_py

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parent
BUILD = CHECKOUT / "build" / "wheel"  # with a folder cuda, as FA_TUTORIAL_BUILD must be
# Machine code for compute capabilities 7.5, 8.x and 9.0, and PTX for later ones. For kernels that need a
# certain GPU, fa_require_architecture() (cmake/Backend.cmake) leaves others out.
ARCHITECTURES = "75-real;80-real;90"
# The operators in C++ are for one PyTorch: that of this Python, not of the environment that pip builds in.
COMPILE_OPERATORS = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
import torch
if torch.version.cuda:
    runpy.run_module("fa_tutorial.build_native", run_name="__main__", alter_sys=True)
"""


def builds_module() -> ModuleType:
    """fa_tutorial.builds, without the package, which needs PyTorch."""
    spec = importlib.util.spec_from_file_location("builds", FOLDER / "fa_tutorial" / "builds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


builds = builds_module()


def program(name: str, variable: str = "") -> str:
    """A program on PATH or of the CUDA toolkit, or the one that a variable names. @throws PlatformError"""
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    path = os.environ.get(variable) or shutil.which(name) or shutil.which(name, path=f"{home}/bin")
    if not path:
        raise errors.PlatformError(
            f"there is no {name}, which a wheel is compiled with: put it on PATH, or run {builds.EDITABLE}, "
            f"which uses what is built in the checkout, also the simulator"
        )
    return path


def libraries(chapters: list[str]) -> list[Path]:
    """Compiles the chapters' libraries."""
    options = {
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_CUDA_ARCHITECTURES": os.environ.get("CUDAARCHS", ARCHITECTURES),
        "CMAKE_CUDA_COMPILER": program("nvcc", "CUDACXX"),
        "FA_BACKEND": "cuda",
        "FA_PORTABLE": "ON",
    }
    folder, cmake = BUILD / "cuda", program("cmake")
    program("ninja")
    configure = [cmake, "-S", CHECKOUT, "-B", folder, "-G", "Ninja"]
    configure += [f"-D{name}={value}" for name, value in options.items()]
    compile_ = [cmake, "--build", folder, "--target", *(f"ch{name}_library" for name in chapters)]
    environment = os.environ | {"NINJA_STATUS": "[%f/%t, %e s] "}
    for command in (configure, compile_):
        if subprocess.run(command, check=False, env=environment).returncode != 0:
            raise errors.ExecError("the kernels could not be compiled: the first error is above")
    return [folder / "lib" / f"libch{name}.so" for name in chapters]


def operators() -> list[Path]:
    """Compiles cpp/ if this Python has a PyTorch for GPUs. Without, the operators in Python run."""
    command = [sys.executable, "-I", "-c", COMPILE_OPERATORS, FOLDER]
    environment = os.environ | {"FA_TUTORIAL_BUILD": str(BUILD)}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode == 0 and done.stdout:
        return [Path(done.stdout.splitlines()[-1])]
    why = done.stderr.splitlines()[-1] if done.returncode else "this PyTorch is for CPUs"
    print(f"without the operators in C++: {why}")
    return []


class BuildWithKernels(build_py):
    def run(self):
        if self.editable_mode:
            super().run()
            return
        if not (CHECKOUT / "chapters").is_dir():
            raise errors.PlatformError(
                "the kernels are not here: pip wheel ./python in a checkout builds a wheel"
            )
        chapters = [name for name in builds.chapters() if name not in builds.SOFTMAX]
        files = [*libraries(chapters), *operators(), builds.interface() / "library.hpp"]
        package = Path(self.build_lib) / "fa_tutorial"
        shutil.rmtree(package, ignore_errors=True)  # of another time
        super().run()
        (package / "lib").mkdir()
        for file in files:
            shutil.copy(file, package / "lib")


platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
setup(cmdclass={"build_py": BuildWithKernels}, options={"bdist_wheel": {"plat_name": platform}})
