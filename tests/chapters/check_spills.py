"""Checks that no kernel that must be fast spills registers to local memory, or waits for each wgmma by
itself.

    check_spills.py [--list] BUILD_DIR [CHAPTER[:WORDS]...]

Reads the output of ptxas from a build of BUILD_DIR with -DFA_PTXAS_REPORT=ON, and names each kernel that
spills or has a stack (beyond TOLERATED), and each for which ptxas serialises wgmma or injects a wait of its
own. CHAPTER:WORDS selects the kernels whose name contains WORDS. Default: DEFAULT. --list prints the
registers of all.

Exit status: 1 a kernel spills or serialises, 2 there is no report or no such kernel.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DEFAULT = (
    "05_loop_swapped_v2:LargeTiles",
    "06_tensor_core_mma",
    "07_multi_stage",
    "08_backward",
    "09_hopper",
    "10_hopper_backward",
    "11_masks",
    "12_large_heads",
)
# What is no failure: an architecture, words of the kernel's name, and bytes of stack.
PIPELINED = "mma_pipelined_gradients<fa::ch08::"
TOLERATED = [
    # Strides and widths that are not constants take registers which these kernels do not have, and so do the
    # rows that are computed again (device/unresolved_rows.cuh). To be removed.
    *(
        (arch, words, size)
        for arch in ("sm_80", "sm_86", "sm_89", "sm_90")
        for words, size in (("fa::ch07::MultiStageTiles<", 80), ("fa::ch08::", 40))
    ),
    # Masks need registers that the tiles of chapters 07 and 08 leave no room for, most of all at head_dim
    # 128. To be removed.
    *((arch, "fa::ch11::", 160) for arch in ("sm_80", "sm_86", "sm_89", "sm_90")),
    # And with two kinds of blocks in one kernel.
    ("sm_80", "QueryGradientTiles<__nv_bfloat16, 128>", 224),
    ("sm_80", "QueryGradientTiles<__half, 128>", 224),
    ("sm_89", PIPELINED, 8),
    ("sm_86", f"{PIPELINED}SmallFusedTiles<__nv_bfloat16, 256", 8),
    ("sm_86", f"{PIPELINED}SmallFusedTiles<__half, 256", 8),
    ("sm_120", "mma_fused_gradients<fa::ch08::FusedTiles<__nv_bfloat16, 256", 40),
    ("sm_120", "mma_fused_gradients<fa::ch08::FusedTiles<__half, 256", 40),
    # At d = 256 a thread has 128 accumulators of dK and dV, and 64 of dQ.
    ("sm_80", f"{PIPELINED}SmallFusedTiles<__nv_bfloat16, 256", 8),
    ("sm_80", f"{PIPELINED}SmallFusedTiles<__half, 256", 8),
    ("sm_100", f"{PIPELINED}FusedTiles<__nv_bfloat16, 256", 28),
    ("sm_100", f"{PIPELINED}FusedTiles<__half, 256", 28),
    ("sm_100", "mma_fused_gradients<fa::ch08::FusedTiles<__nv_bfloat16, 256", 8),
    ("sm_100", "mma_fused_gradients<fa::ch08::FusedTiles<__half, 256", 8),
]
KERNEL = re.compile(
    r"Compiling entry function '(?P<name>\S+)' for '(?P<arch>\w+)'"
    r"(?:(?!Compiling entry).)*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads(?:(?!Compiling entry).)*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)
# What ptxas does where it cannot leave products in flight: it waits after each, or adds the missing fence.
# C7509 to C7520.
SLOW = re.compile(
    r"^ptxas \w+\s*: (?:\((?P<code>C\d+)\) )?(?:Potential Performance Loss: )?"
    r"(?P<message>(?:wgmma\.mma_async instructions are serialized|warpgroup\.(?:arrive|wait) is injected).*?)"
    r" in (?:the )?function '(?P<name>\S+)'",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Kernel:
    """The report of ptxas on a kernel for one architecture, in bytes per thread."""

    name: str
    arch: str
    stack: int
    stores: int
    loads: int
    registers: int

    @property
    def spills(self) -> bool:
        allowed = max(
            (size for arch, name, size in TOLERATED if arch == self.arch and name in self.name), default=0
        )
        return max(self.stack, self.stores, self.loads) > allowed


def demangled(names: list[str]) -> list[str]:
    """Readable names, without the parts that all of them share."""
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [re.sub(r"^void |\(.*", "", line) for line in done.stdout.splitlines()]


def slow_products(report: str) -> list[tuple[str, str]]:
    """Each kernel whose products ptxas slows down, and its message: ("ch09::final<64>", "C7510:
    wgmma.mma_async ..").
    """
    found = [match.groupdict() for match in SLOW.finditer(report)]
    names = demangled([match["name"] for match in found])
    said = [": ".join(filter(None, (match["code"], match["message"]))) for match in found]
    return list(dict.fromkeys(zip(names, said, strict=True)))


def kernels_of(report: str) -> list[Kernel]:
    found = [match.groupdict() for match in KERNEL.finditer(report)]
    names = demangled([match["name"] for match in found])
    sizes = ("stack", "stores", "loads", "registers")
    return [
        Kernel(name, match["arch"], *(int(match[size]) for size in sizes))
        for name, match in zip(names, found, strict=True)
    ]


def main(arguments: list[str]) -> int:
    list_all = arguments[:1] == ["--list"]
    arguments = arguments[list_all:]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    build, wanted = Path(arguments[0]), arguments[1:] or DEFAULT
    count, spilling, slow = 0, [], []
    for entry in wanted:
        chapter, _, words = entry.partition(":")
        folder = build / "chapters" / chapter
        report = folder / f"CMakeFiles/ch{chapter}_kernels.dir/chapter.cu.o.ptxas"
        if not report.exists():
            print(
                f"spills: there is no {report}: cmake --preset cuda -DFA_PTXAS_REPORT=ON, and build",
                file=sys.stderr,
            )
            return 2
        parts = (report.parent, report.parent.parent / f"ch{chapter}_hopper.dir")
        sources = sorted(file for part in parts for file in part.glob("*.cu.o.ptxas"))
        text = "".join(source.read_text() for source in sources)
        kernels = [k for k in kernels_of(text) if words in k.name]
        slow += [f"{n}: {said}" for n, said in slow_products(text) if words in n]
        if not kernels:
            print(f"spills: {report} knows no kernel {words}", file=sys.stderr)
            return 2
        count += len(kernels)
        for kernel in sorted(kernels, key=lambda k: (k.name, k.arch)):
            line = f"{kernel.arch} {kernel.registers:3} registers  {kernel.name}"
            if list_all:
                print(line)
            if kernel.spills:
                spilling.append(
                    f"{kernel.name} for {kernel.arch} spills: stack {kernel.stack} bytes, "
                    f"stores {kernel.stores}, loads {kernel.loads}, with {kernel.registers} registers"
                )
    total = f"{count} kernels, {len(spilling)} spill"
    if slow:
        total += f", ptxas slows down the products of {len({x.split(': ')[0] for x in slow})}"
    print(*spilling, *slow, total, sep="\n")
    return 1 if spilling or slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
