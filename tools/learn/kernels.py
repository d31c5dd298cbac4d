"""Compiles the kernels of a source file without the code around them, which takes most of the compiler's
time.

The functions of a GPU can be changed without effect on those of the CPU, as long as only their bodies change.
An object file of the whole source then serves for other versions of its kernels: the linker takes those that
come first.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Comments; preprocessor lines; strings; what else a declaration consists of.
TOKEN = re.compile(
    r"(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r"|(?P<directive>(?:(?<=\n)|\A)[ \t]*\#(?:\\\n|[^\n])*)"
    r'|(?P<text>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<word>\w+(?:'\w+)*)|(?P<space>\s+)|(?P<sign>.)",
    re.DOTALL,
)
ON_GPU = {"__global__", "__device__"}
# Also on a CPU, or evaluated by the compiler, or with a type that depends on the body, or a variable.
NOT_ONLY = {"__host__", "constexpr", "consteval", "auto", "decltype", "="}


def without_bodies(text: str) -> list[str]:
    """The tokens of a source file that code of the CPU may depend on: all but comments and the bodies of
    functions that only a GPU executes.
    """
    kept: list[str] = []
    head: set[str] = set()  # the words of the declaration so far
    depth = 0  # of the brackets within such a body
    for token in TOKEN.finditer(text):
        kind, found = token.lastgroup, token[0]
        if kind in ("comment", "space"):
            continue
        if kind == "directive":
            kept.append(found)
            continue
        if depth:
            depth += (found == "{") - (found == "}")
            continue
        if found == "{" and head & ON_GPU and not head & NOT_ONLY:
            depth, head = 1, set()
            kept.append("{}")
            continue
        kept.append(found)
        if found in ("{", "}", ";"):
            head = set()
        else:
            head.add(found)
    return kept if depth == 0 else [text]


# A function's name as c++filt prints it, up to its template arguments: "void
# fa::ch07::kernel[abi:kernel]<..>(..)".
KERNEL = re.compile(r"(?:void )?((?:\w+::)*\w+)\[abi:kernel\](?=[<(])")
UNSPEAKABLE = re.compile(r"\(anonymous|\{|'lambda")


@dataclass(frozen=True)
class Around:
    """An object file of a whole source, whose kernels are to be replaced."""

    object: Path
    kernels: frozenset[str]  # their mangled names
    source: str  # a source file that has all of these kernels, and nothing else

    def are_in(self, compiled: Path) -> bool:
        """Whether an object file has all of the kernels."""
        return self.kernels <= set(_kernels_in(compiled))


def _kernels_in(compiled: Path) -> dict[str, str]:
    """The kernels that an object file defines: how C++ denotes them, by their mangled names.

    Those that other object files do not see are denoted by "{local}".
    """
    table = _output(["nm", "--defined-only", str(compiled)])
    pattern = re.compile(r"^\w+ ([TWt]) (_Z(?!Z)\w*B6kernel\w*)$", re.MULTILINE)
    symbols = pattern.findall(table)
    names = "\n".join(mangled for _, mangled in symbols)
    plain = _output(["c++filt"], names).splitlines()
    found = {}
    for (kind, mangled), name in zip(symbols, plain, strict=True):
        if kind == "t":
            found[mangled] = "{local}"
        elif match := KERNEL.match(name):
            found[mangled] = match[1] + _arguments(name[match.end() :])
    return found


def _arguments(rest: str) -> str:
    """The template arguments with which the rest of a function's name begins."""
    depth = 0
    for at, sign in enumerate(rest):
        if sign == "(" and depth == 0:
            return re.sub(r"\[abi:\w+\]", "", rest[:at])
        depth += (sign in "<(") - (sign in ">)")
    return rest


def _output(words: list[str], text: str = "") -> str:
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


def around(source: str, compiled: Path, to: Path) -> Around | None:
    """Takes the kernels out of an object file; None if that cannot be done.

    @param source    the text of the source file
    @param compiled  its object file
    @param to        where to write the one without kernels
    """
    directives = [t[0].strip() for t in TOKEN.finditer(source) if t["directive"]]
    if not all(re.match(r"#\s*include\b", line) for line in directives):
        return None
    try:
        kernels = _kernels_in(compiled)
        defined = _output(["nm", "--defined-only", str(compiled)])
        strong = re.findall(r"^\w+ [TDBR] (\S+)$", defined, flags=re.MULTILINE)
        # Without lines and names of arrays, because those of the other kernels are right.
        words = ["--strip-debug", "--remove-section", ".gpusim_names"]
        words += [f"--weaken-symbol={name}" for name in strong]
        _output(["objcopy", *words, str(compiled), str(to)])
    except (OSError, subprocess.CalledProcessError):
        return None
    if not kernels or any(map(UNSPEAKABLE.search, kernels.values())):
        return None
    addresses = ", ".join(f"reinterpret_cast<const void*>(&{name})" for name in kernels.values())
    table = f"kernels_of_{re.sub(r'[^a-z]', '_', compiled.stem)}"
    lines = [
        *directives,
        f"extern const void* const {table}[];",
        f"const void* const {table}[] = {{{addresses}}};",
        "",
    ]
    return Around(to, frozenset(kernels), "\n".join(lines))
