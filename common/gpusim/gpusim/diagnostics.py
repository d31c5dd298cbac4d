"""What the compiler says, for people who have never seen the simulator's headers."""

from __future__ import annotations

import re

from .toolchain import Toolchain

PLACE = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::\d+)?: (?P<kind>fatal error|error|warning|note): (?P<text>.*)"
)
MOST_ERRORS = 5
# Headers of what the simulator does not have.
FEATURES = {
    r"cusparse": "cuSPARSE",
    r"cufft": "cuFFT",
    r"curand": "this part of cuRAND",
    r"cublas": "this part of cuBLAS",
    r"cusolver": "cuSOLVER",
    r"cudnn": "cuDNN",
    r"nccl": "NCCL",
    r"torch/|ATen/|c10/|pybind11/": "PyTorch extensions",
    r"cutlass/|cute/": "CUTLASS",
    r"nvrtc": "NVRTC",
    r"nvml": "NVML",
    r"npp": "NPP",
    r"optix": "OptiX",
    r"cuda_gl_interop|GL/|GLFW": "interoperation with OpenGL",
    r"mpi\.h": "MPI, which is not installed",
    r"thrust/": "this part of Thrust",
    r"cub/": "this part of CUB",
    r"cooperative_groups/": "this part of cooperative groups",
    r"cuda/": "this part of libcu++",
}


def is_of_simulator(file: str, tools: Toolchain) -> bool:
    return any(file.startswith(folder) for folder in tools.system) or "/gpusim/runtime/" in file


def tidy(lines: list[str]) -> list[str]:
    """Without tags of the simulator. Where the front end has made a line longer, the compiler's column is not
    the user's: it goes, and with it the line that points there.
    """
    result: list[str] = []
    for line in lines:
        line = re.sub(r"\[abi:\w+\]", "", line)
        source = re.match(r" *\d+ \| (.*)", result[-1]) if result else None
        if (
            source
            and re.match(r" +\| [ ~]*\^", line)
            and line.index("^") - line.index("|") > len(source[1]) + 2
        ):
            if len(result) > 1:
                result[-2] = re.sub(r"^([^\s:]+:\d+):\d+:", r"\1:", result[-2])
            continue
        result.append(line)
    return result


def explain(output: str, tools: Toolchain) -> str:
    """The errors of the user's files, each with its lines of source; at most MOST_ERRORS of them."""
    shown: list[str] = []
    errors = 0
    keeps = False
    last_of_user = ""  # "required from here", if an error is inside a header of the simulator
    for line in output.splitlines():
        place = PLACE.match(line)
        if place is None:
            if found := re.match(r"(\S+:\d+):\d+:\s+required from", line):
                if not is_of_simulator(found[1], tools):
                    last_of_user = found[1]
            elif line.startswith(("In file included", "                 from")) or ": In " in line:
                keeps = False
            elif keeps:
                shown.append(line)
            elif re.search(r"undefined reference|multiple definition", line):
                errors += 1
                shown.append(re.sub(r"^/\S*ld(\.\w+)?: ", "", line))
            continue
        kind, file = place["kind"], place["file"]
        inside = is_of_simulator(file, tools)
        if kind in ("error", "fatal error"):
            errors += 1
            keeps = not inside and errors <= MOST_ERRORS
            if missing := re.match(r"(\S+): No such file or directory", place["text"]):
                shown.append(line)
                shown += explain_header(missing[1])
                keeps = True
            elif keeps:
                shown.append(line)
            elif inside and errors <= MOST_ERRORS:
                shown.append(f"{last_of_user or file}: error: {place['text']}")
        else:
            keeps = kind == "note" and not inside and errors <= MOST_ERRORS
            if keeps:
                shown.append(line)
    if errors > MOST_ERRORS:
        shown.append(f"... and {errors - MOST_ERRORS} more errors")
    return "\n".join(tidy(shown)) if shown else output.strip()


def explain_header(name: str) -> list[str]:
    for pattern, feature in FEATURES.items():
        if re.match(pattern, name):
            return [f"gpusim does not simulate {feature}"]
    return []
