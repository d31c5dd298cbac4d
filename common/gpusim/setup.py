"""Compiles the simulator and puts it into the wheel: pip wheel ./common/gpusim. The wheel needs only g++.

Needs cmake, ninja, g++, Boost.Context with its static library, and libdw.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import errors, setup
from setuptools.command.build_py import build_py

FOLDER = Path(__file__).resolve().parent
BUILD = FOLDER / "build" / "wheel"
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(gpusim_wheel LANGUAGES CXX)
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost REQUIRED COMPONENTS context)
find_package(Eigen3 QUIET)
add_subdirectory({folder} gpusim)
"""
HEADERS = ("shim", "cublas/include")  # folders
BUNDLED = re.compile(r"lib(dw|elf|z|lzma|bz2|zstd)\b.*\.so")  # a machine with g++ has the others
HERE = "${here}"  # toolchain.py puts its folder there


def call(*command: object) -> str:
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError as error:
        raise errors.PlatformError(f"there is no {command[0]}, which compiles the simulator") from error
    except subprocess.CalledProcessError as error:
        raise errors.ExecError("the simulator could not be compiled: the first error is above") from error


def compiled() -> Path:
    """Compiles the simulator. Returns its build folder."""
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "CMakeLists.txt").write_text(PROJECT.format(folder=FOLDER), encoding="utf-8")
    rpath = "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags,-rpath,'$ORIGIN'"
    call("cmake", "-S", BUILD, "-B", BUILD / "out", "-G", "Ninja", "-DCMAKE_SKIP_RPATH=ON", rpath)
    print(call("cmake", "--build", BUILD / "out", "--target", "gpusim_toolchain"))
    return BUILD / "out" / "gpusim"


class BuildWithSimulator(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            raise errors.PlatformError(
                "gpusim has no editable installation: ./learn sim runs it in a checkout"
            )
        out = compiled()
        package = Path(self.build_lib) / "gpusim"
        native, headers = package / "native", package / "include" / "gpusim"
        native.mkdir(parents=True, exist_ok=True)
        tools = json.loads((out / "toolchain.json").read_text(encoding="utf-8"))

        def own(path: str) -> str:
            """The same file in the package."""
            if not path.startswith("/"):
                return path
            shutil.copy(path, native)
            return f"{HERE}/native/{Path(path).name}"

        check, *options = tools["check"]
        for library in re.findall(r"=> (\S+)", call("ldd", check)):
            if BUNDLED.match(Path(library).name):
                own(library)
        for folder in HEADERS:
            shutil.copytree(FOLDER / folder, headers / folder, dirs_exist_ok=True)
        for header in (*FOLDER.glob("*.hpp"), *FOLDER.glob("runtime/*.hpp")):
            to = headers / header.relative_to(FOLDER)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(header, to)
        tools |= {
            "compiler": "g++",
            "check": [own(check), *options],
            "root": f"{HERE}/include",
            "system": [f"{HERE}/include/gpusim/{Path(s).relative_to(FOLDER)}" for s in tools["system"]],
            "libraries": [own(each) for each in tools["libraries"]],
        }
        (package / "toolchain.json").write_text(json.dumps(tools, indent=1), encoding="utf-8")


platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
setup(cmdclass={"build_py": BuildWithSimulator}, options={"bdist_wheel": {"plat_name": platform}})
