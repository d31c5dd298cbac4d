"""What this machine has (compiler, CMake, GPU), and the preset that follows."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .console import LearnError
from .project import presets

CMAKE_MINIMUM = (3, 25)
NVCC_MINIMUM = (12, 0)  # the first with C++20
COMPILER_MINIMUM = {"g++": (12,), "clang++": (14,)}


def first_output(command: list[str]) -> str | None:
    """The output of a program; None if it does not exist, fails, or hangs."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@dataclass
class Tool:
    """A program, the version found, and what is wrong with it, if anything."""

    name: str
    version: tuple[int, ...] = ()
    problem: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {_dotted(self.version)}" if self.version else "none"


def compiler_command() -> str:
    """The command of the C++ compiler that CMake uses: $CXX, or else c++."""
    return os.environ.get("CXX") or "c++"


def compiler() -> Tool:
    """The C++ compiler that CMake uses."""
    command = compiler_command()
    text = first_output([*shlex.split(command), "--version"])
    if text is None:
        wanted = "CXX does not name a compiler" if os.environ.get("CXX") else "no C++ compiler"
        return Tool(command, problem=f"{wanted}: g++ 12 or newer is needed")
    name = "clang++" if "clang" in text else "g++"
    # "g++ (Ubuntu 13.2.0-23ubuntu4) 13.2.0": the version comes after the parentheses.
    version = _version(re.sub(r"\(.*?\)", "", text.splitlines()[0])) or _version(text)
    tool = Tool(name if command == "c++" else f"{name} ({command})", version)
    if version < COMPILER_MINIMUM[name]:
        needed = _dotted(COMPILER_MINIMUM[name])
        tool.problem = f"{name} {_dotted(version)} is too old: {needed} or newer is needed"
    return tool


def cmake() -> Tool:
    text = first_output(["cmake", "--version"])
    tool = Tool("cmake", _version(text or ""))
    if tool.version < CMAKE_MINIMUM:
        what = f"cmake {_dotted(tool.version)} is too old" if text else "there is no cmake"
        tool.problem = f"{what}: {_dotted(CMAKE_MINIMUM)} or newer is needed"
    return tool


def require_toolchain() -> None:
    """LearnError if the compiler or CMake is missing or too old."""
    for tool in (compiler(), cmake()):
        if tool.problem:
            raise LearnError(f"{tool.problem} (./learn doctor says more)", 3)


def cuda_program(name: str) -> str | None:
    """A program of the CUDA toolkit: on PATH, or where the toolkit is usually installed."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return shutil.which(name) or shutil.which(name, path=str(Path(home) / "bin"))


def nvcc() -> Tool:
    path = cuda_program("nvcc")
    text = path and first_output([path, "--version"])
    if not text:
        return Tool("nvcc", problem="there is no nvcc")
    release = re.search(r"release (\d+)\.(\d+)", text)
    tool = Tool("nvcc", tuple(map(int, release.groups())) if release else ())
    if tool.version < NVCC_MINIMUM:
        tool.problem = f"{tool} is too old ({_dotted(NVCC_MINIMUM)} is the first with C++20)"
    return tool


def gpus() -> list[str]:
    """The names of the GPUs that the driver lists."""
    listing = first_output(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"])
    return listing.splitlines() if listing else []


def compute_capability() -> str | None:
    """ "9.0": of the first GPU that the driver lists. None if it does not say."""
    listing = first_output(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    first = (listing or "").partition("\n")[0].strip()
    return first if re.fullmatch(r"\d+\.\d", first) else None


def cuda_environment() -> dict[str, str]:
    """The variables with which CMake finds an nvcc that is not on PATH."""
    path = cuda_program("nvcc")
    if not path or shutil.which("nvcc") or os.environ.get("CUDACXX"):
        return {}
    return {"CUDACXX": path}


def choose_preset(asked: str | None) -> tuple[str, str]:
    """The preset and the reason: the requested one, or else cuda if there is nvcc and a GPU, or else sim."""
    source = "--preset"
    if asked is None and os.environ.get("FA_PRESET"):
        asked, source = os.environ["FA_PRESET"], "FA_PRESET"
    if asked is not None:
        if asked not in presets():
            known = ", ".join(presets())
            raise LearnError(f"{source} {asked} is not a preset: the presets are {known}", 2)
        if asked.startswith("cuda") and (problem := nvcc().problem):
            raise LearnError(f"{source} {asked}: {problem}; --preset sim needs none", 3)
        return asked, f"chosen by {source}"
    if problem := nvcc().problem:
        return "sim", problem
    if not gpus():
        return "sim", "there is an nvcc, but nvidia-smi finds no GPU"
    return "cuda", "there is an nvcc and a GPU"


def system() -> str:
    """The operating system's name."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def slowdown() -> float:
    """How many times as long as on an idle machine a program may take here: 1 to 6, from the load average."""
    return min(6.0, max(1.0, os.getloadavg()[0] / cores()))


def memory_bytes() -> int | None:
    """The size of main memory, or the share of it that this container may use."""
    sizes = []
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text()
        sizes += [int(limit)] if limit.strip().isdigit() else []
    except OSError:
        pass
    try:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        pass
    return min(sizes, default=None)
