"""Builds a program: compiles its sources as gpusim_kernels() of CMake does, and links them."""

from __future__ import annotations

import hashlib
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .diagnostics import explain
from .errors import SimError
from .options import Request
from .toolchain import Toolchain

CUDA_SUFFIXES = (".cu",)
CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".C", ".c++")
OTHERS = (".c", ".o", ".a", ".so")
# What nvcc includes at the beginning of each .cu file.
IMPLICIT = ("cstdio", "cstdlib", "cstring", "cmath", "cassert", "ctime", "climits", "new", "utility")


@dataclass
class Built:
    program: Path
    folder: Path  # for files of this program


def check_sources(sources: list[str]) -> None:
    """SimError if they cannot be a CUDA program."""
    if not sources:
        raise SimError("no source: give a .cu file")
    for source in sources:
        path = Path(source)
        if not path.exists():
            raise SimError(f"{source}: no such file")
        if path.is_dir():
            raise SimError(f"{source}: is a folder: give its .cu files")
        if path.suffix not in (*CUDA_SUFFIXES, *CPP_SUFFIXES, *OTHERS):
            raise SimError(f"{source}: is no CUDA source: its name should end in .cu (or .cpp, .c)")
        if path.suffix in CUDA_SUFFIXES and b"\0" in path.read_bytes()[:4096]:
            raise SimError(f"{source}: is no CUDA source: it is a binary file")


def folder_of(sources: list[str], cache: Path) -> Path:
    """Where the files of a program are built: the same folder for the same sources."""
    names = "\n".join(str(Path(source).resolve()) for source in sources)
    folder = cache / f"{Path(sources[0]).stem}-{hashlib.sha256(names.encode()).hexdigest()[:10]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def standard_of(request: Request) -> str:
    """The language: C++17, which is the least that the simulator's headers need, or a newer one."""
    name = request.std.removeprefix("gnu++").removeprefix("c++")
    year = {"03": "17", "11": "17", "14": "17", "1z": "17", "2a": "20", "2b": "23"}.get(name, name)
    if year not in ("17", "20", "23"):
        raise SimError(f"-std={request.std}: must be c++11, c++14, c++17, c++20 or c++23")
    return f"gnu++{year}"


def is_toolkit(folder: str) -> bool:
    """Whether these are the headers of an installed CUDA toolkit, which the simulator's replace."""
    path = Path(folder)
    return (path / "crt" / "host_defines.h").exists() or (path / "cuda_runtime_api.h").exists()


def own_options(request: Request) -> list[str]:
    kept: list[str] = []
    words = list(request.compiler)
    while words:
        word = words.pop(0)
        if word == "-I" and is_toolkit(words[0]):
            words.pop(0)
        else:
            kept.append(word)
    return kept


def uses_texture_references(source: Path) -> bool:
    """Whether a source, or a file beside it, has texture references, which CUDA 12 has removed."""
    text = source.read_text(encoding="utf-8", errors="replace")
    beside = [source.parent / name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE)]
    texts = [text, *(p.read_text(encoding="utf-8", errors="replace") for p in beside if p.is_file())]
    return any(re.search(r"^\s*(static\s+)?texture\s*<", each, re.MULTILINE) for each in texts)


def command_for(source: str, target: Path, request: Request, tools: Toolchain) -> list[str]:
    """Compiles one source."""
    suffix = Path(source).suffix
    own = own_options(request)
    system = [word for folder in tools.system for word in ("-isystem", folder)]
    tail = ["-c", source, "-o", str(target)]
    if suffix == ".c":
        return [tools.compiler, "-x", "c", "-w", "-O1", "-g1", *own, *system, *tail]
    common = [
        "-w",
        f"-std={standard_of(request)}",
        "-fconcepts",
        "-x",
        "c++",
        f"-I{tools.root}",
        *own,
        *system,
    ]
    if suffix in CPP_SUFFIXES:
        return [tools.compiler, "-O1", "-g1", *common, *tail]
    references = ["gpusim_texture_references.h"] if uses_texture_references(Path(source)) else []
    implicit = [word for header in (*IMPLICIT, *references) for word in ("-include", header)]
    options = without_hooks(tools.options) if request.fast else tools.options
    return [
        *tools.check,
        tools.compiler,
        f"-DGPUSIM_CUDA_ARCH={architecture_of(request)}",
        *options,
        *common,
        *implicit,
        *tail,
    ]


# The compute capabilities of runtime/emulated.cpp.
DEVICES = {"t4": 75, "a100": 80, "rtx3060": 86, "rtx4090": 89, "rtx5090": 120, "h100": 90}


def architecture_of(request: Request) -> int:
    """__CUDA_ARCH__: what -arch says, or else that of the emulated device."""
    return 10 * (request.arch or DEVICES.get(request.device or "h100", 90))


def without_hooks(options: list[str]) -> list[str]:
    """For kernels that only run: nothing is called at an access, and the compiler may optimise."""
    kept = [o for o in options if not o.startswith(("-fsanitize", "-fno-sanitize", "--param=tsan"))]
    return ["-O2" if o == "-Og" else o for o in kept]


def run_quietly(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )


def build(request: Request, tools: Toolchain, cache: Path) -> Built:
    """SimError with the compiler's message if the program does not compile."""
    check_sources(request.sources)
    folder = folder_of(request.sources, cache)
    objects, commands = [], []
    for number, source in enumerate(request.sources):
        if Path(source).suffix in (".o", ".a", ".so"):
            objects.append(source)
            continue
        target = folder / f"{number}_{Path(source).stem}.o"
        commands.append(command_for(source, target, request, tools))
        objects.append(str(target))
    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(run_quietly, commands):
            if result.returncode != 0:
                raise SimError(explain(result.stderr, tools), is_of_compiler=True)
    program = folder / "program"
    flags = [o for o in request.compiler if o.startswith(("-fopenmp", "-pthread"))]
    link = [tools.compiler, *flags, *objects, *tools.libraries, *request.linker, "-o", str(program)]
    result = run_quietly(link)
    if result.returncode != 0:
        raise SimError(explain(result.stderr, tools), is_of_compiler=True)
    return Built(program, folder)
