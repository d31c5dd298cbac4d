"""The command line: gpusim's own options, and those of nvcc."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .errors import SimError

USAGE = """usage: {command} FILE.cu [MORE ...] [OPTION ...] [-- ARGUMENT ...]

Compiles a CUDA program for the simulator, runs it, and says what each kernel has moved and what is wrong with
it. The exit status is 1 if a kernel has a defect, 2 if the program cannot be built or run, and otherwise the
program's own.

  --device NAME      the GPU to emulate: t4, a100, rtx3060, rtx4090, rtx5090 or h100
  --fast             do not count or check: only run
  --check-all        look for races in every launch, however often a kernel has been launched before
  --timeout SECONDS  how long a kernel may make no progress; default: 60
  --json FILE        write the counters and the defects to a file; - for standard output
  --watch            write a page that shows what a block does, step by step
  --kernel NAME, --block X,Y,Z   which one; default: the first
  --help             this text

nvcc's options are accepted. -I, -D, -U, -include, -std, -arch, -l and --expt-relaxed-constexpr mean what they
mean there; those that choose how nvcc optimises or links are ignored."""

# nvcc's options with a value, by their short and long names. None: ignored.
WITH_VALUE = {
    "-arch": "arch",
    "--gpu-architecture": "arch",
    "-gencode": "gencode",
    "--generate-code": "gencode",
    "-std": "std",
    "--std": "std",
    "-I": "include_path",
    "--include-path": "include_path",
    "-isystem": "include_path",
    "--system-include": "include_path",
    "-D": "define",
    "--define-macro": "define",
    "-U": "undefine",
    "--undefine-macro": "undefine",
    "-include": "pre_include",
    "--pre-include": "pre_include",
    "-l": "library",
    "--library": "library",
    "-L": "library_path",
    "--library-path": "library_path",
    "-Xcompiler": "compiler",
    "--compiler-options": "compiler",
    "-O": None,
    "--optimize": None,
    "-o": None,
    "--output-file": None,
    "-code": None,
    "--gpu-code": None,
    "-Xptxas": None,
    "--ptxas-options": None,
    "-Xlinker": None,
    "--linker-options": None,
    "-Xnvlink": None,
    "-Xarchive": None,
    "-Xfatbin": None,
    "-x": None,
    "--x": None,
    "-ccbin": None,
    "--compiler-bindir": None,
    "-maxrregcount": None,
    "--maxrregcount": None,
    "-default-stream": None,
    "--default-stream": None,
    "-cudart": None,
    "--cudart": None,
    "-rdc": None,
    "--relocatable-device-code": None,
    "-diag-suppress": None,
    "--diag-suppress": None,
    "-t": None,
    "--threads": None,
    "-prec-div": None,
    "--prec-div": None,
    "-prec-sqrt": None,
    "--prec-sqrt": None,
    "-ftz": None,
    "--ftz": None,
    "-fmad": None,
    "--fmad": None,
    "-odir": None,
    "--optimization-info": None,
    "-Werror": None,
}
# Without a value.
IGNORED = re.compile(
    r"-g|-G|--debug|--device-debug|-lineinfo|--generate-line-info|-w|-W\w*|-O[0-3s]|-dc|-dlink|-m64|-v|--verbose"
    r"|-use_fast_math|--use_fast_math|-expt-\S*|--expt-\S*|--?extended-lambda|-res-usage|--resource-usage|-keep|--keep"
    r"|-pg|-restrict|-lto|-dlto|-src-in-ptx|-extra-device-vectorization|-split-compile=\d+|-Wno-\S+|-Wall|-fPIC"
)
# Libraries of CUDA whose functions are in the simulator, or missing in a way that the compiler tells.
CUDA_LIBRARIES = {
    "cudart",
    "cudart_static",
    "cudadevrt",
    "cuda",
    "cublas",
    "cublasLt",
    "cublas_static",
    "curand",
}
CUDA_LIBRARIES |= {
    "nvToolsExt",
    "nvrtc",
    "nvidia-ml",
    "cudnn",
    "cusparse",
    "cufft",
    "cusolver",
    "nccl",
    "culibos",
}


@dataclass
class Request:
    sources: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)  # of the program
    compiler: list[str] = field(default_factory=list)  # options for g++
    linker: list[str] = field(default_factory=list)
    std: str = "c++17"
    arch: int = 0  # 80 for sm_80; 0: that of the device
    device: str | None = None
    json: str | None = None
    timeout: float = 60
    fast: bool = False
    check_all: bool = False
    watch: bool = False
    kernel: str | None = None
    block: str | None = None
    help: bool = False


OWN_WITH_VALUE = ("--device", "--json", "--timeout", "--kernel", "--block")


def parse(words: list[str]) -> Request:
    """SimError if the words make no sense."""
    if {"-h", "--help"} & set(words[: [*words, "--"].index("--")]):
        return Request(help=True)
    request = Request()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            request.arguments = rest
            break
        if not word.startswith("-") or word == "-":
            request.sources.append(word)
        elif word in ("--fast", "--watch", "--check-all"):
            setattr(request, word[2:].replace("-", "_"), True)
        elif word.split("=")[0] in OWN_WITH_VALUE:
            name, value = _value_of(word, word.split("=")[0], rest)
            _set_own(request, name, value)
        elif known := _known(word):
            _, value = _value_of(word, known, rest)
            if (meaning := WITH_VALUE[known]) is not None:
                _apply(request, meaning, value)
        elif word.lstrip("-") == "expt-relaxed-constexpr":
            request.compiler.append("-DGPUSIM_RELAXED_CONSTEXPR")
        elif re.fullmatch(IGNORED, word) or word.startswith("-Wno"):
            pass
        elif word in ("-c", "-E", "-ptx", "-cubin", "-fatbin", "-lib", "-shared"):
            raise SimError(f"{word}: there is nothing to run then: give all sources of a program")
        elif word.startswith(("-f", "-m", "-pthread", "-W")):
            request.compiler.append(word)
        else:
            raise SimError(f"{word} is no option of gpusim or nvcc; arguments of the program come after --")
    return request


def _known(word: str) -> str | None:
    """The option of WITH_VALUE that a word is: -arch=sm_80, -arch, -Ifolder, -lm."""
    name = word.split("=")[0]
    if name in WITH_VALUE:
        return name
    short = word[:2]
    if short == "-l" and word == "-lineinfo":
        return None
    return short if short in ("-I", "-D", "-U", "-l", "-L") and len(word) > 2 else None


def _value_of(word: str, name: str, rest: list[str]) -> tuple[str, str]:
    if word.startswith(name + "="):
        return name, word[len(name) + 1 :]
    if word != name:
        return name, word[len(name) :]
    if name == "-O" or (name == "-Werror"):
        return name, ""
    if not rest:
        raise SimError(f"{name} needs a value")
    return name, rest.pop(0)


def _set_own(request: Request, name: str, value: str) -> None:
    if name == "--timeout":
        try:
            request.timeout = float(value)
        except ValueError:
            raise SimError(f"--timeout {value}: must be a number of seconds") from None
        if not request.timeout > 0:
            raise SimError(f"--timeout {value}: must be more than 0")
    else:
        setattr(request, name[2:], value)


def _apply(request: Request, meaning: str, value: str) -> None:
    if meaning in ("arch", "gencode"):
        for number in re.findall(r"(?:sm|compute|lto)_(\d+)", value):
            request.arch = max(request.arch, int(number))
    elif meaning == "std":
        request.std = value
    elif meaning == "library":
        if value not in CUDA_LIBRARIES:
            request.linker.append(f"-l{value}")
    elif meaning == "library_path":
        request.linker.append(f"-L{value}")
    elif meaning == "compiler":
        for option in re.split(r"[,\s]+", value.strip("\"'")):
            if option.startswith(("-fopenmp", "-pthread", "-m", "-D", "-I", "-U")):
                request.compiler.append(option)
    else:
        flag = {"include_path": "-I", "define": "-D", "undefine": "-U", "pre_include": "-include"}[meaning]
        request.compiler += [flag, value]
