"""Times the last kernel of chapter 07 with other sizes, for head dimensions 96 and 192.

    python3 -m tools.bench.choices [--head-dims 96,192] [--rounds R] [--compile-only] [--json FILE]

choices.cu has the sizes. Compiles it with nvcc and prints the registers and the spills of each choice; then
runs it on [4, 2048 / head_dim, 4096, head_dim], with and without a causal mask. All choices take turns in one
process, and O must agree with that of the chapter's own choice.

Exit status: 1 a choice gives another O, 3 no nvcc, or no GPU.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..options import Arguments, at_least
from . import machine

SOURCE = Path(__file__).with_suffix(".cu")
BATCH, SEQ, COLUMNS = 4, 4096, 2048  # COLUMNS: of all heads together
AGREE = 5e-3  # relative L2: O is rounded to bf16, and sums have other orders
KERNEL = re.compile(
    r"Compiling entry function.*?MultiStageTiles<__nv_bfloat16, \d+, (?P<choice>.*?), true>.*?"
    r"(?P<stores>\d+) bytes spill stores.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def architecture() -> str:
    """Of this machine's GPU; that of an H100 if there is none."""
    command = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    found = machine.output_of(*command).splitlines()
    digits = found[0].replace(".", "") if found else "90"
    return f"arch=compute_{digits},code=sm_{digits}"


def build(head_dim: int, program: Path) -> None:
    """Compiles the choices and prints what ptxas says. @throws subprocess.CalledProcessError"""
    root = machine.ROOT
    done = subprocess.run(
        [
            *("nvcc", "-std=c++20", "-O2", f"-DHEAD_DIM={head_dim}"),
            *(f"-I{root / 'chapters/07_multi_stage'}", f"-I{root / 'common'}"),
            *("-gencode", architecture(), "-Xptxas", "-v"),
            *(str(SOURCE), "-o", str(program)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        done.check_returncode()
    names = subprocess.run(
        ["c++filt"], input=done.stdout + done.stderr, capture_output=True, text=True, check=True
    )
    for found in KERNEL.finditer(names.stdout):
        choice = re.sub(r"\w+::|\(anonymous namespace\)::", "", found["choice"])
        spills = int(found["stores"])
        print(f"  {found['registers']:>3} registers, {spills} bytes spilled: {choice}")


def times(program: Path, head_dim: int, causal: bool, rounds: int) -> list[dict]:
    """A row for each choice. @throws subprocess.CalledProcessError"""
    words = (BATCH, COLUMNS // head_dim, SEQ, int(causal), rounds)
    done = subprocess.run([str(program), *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    about = {"head_dim": head_dim, "causal": causal}
    return [about | json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    parser = Arguments(description=__doc__.split("\n\n")[0])
    parser.add_argument("--head-dims", default="96,192", metavar="N,N")
    parser.add_argument("--rounds", type=at_least(1), default=15, metavar="R")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    head_dims = options.head_dims.split(",")
    if not set(head_dims) <= {"96", "192"} or options.rounds < 1:
        parser.error("--head-dims must be 96, 192 or 96,192, and --rounds 1 or more")
    if not shutil.which("nvcc"):
        print("choices: there is no nvcc on PATH", file=sys.stderr)
        return 3
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        for head_dim in map(int, head_dims):
            program = Path(folder) / f"choices{head_dim}"
            print(f"head_dim {head_dim}", flush=True)
            try:
                build(head_dim, program)
                if not options.compile_only:
                    for causal in (False, True):
                        rows += times(program, head_dim, causal, options.rounds)
            except subprocess.CalledProcessError:  # it has said why
                return 3
    for row in rows:
        mask = "causal" if row["causal"] else ""
        print(f"{row['head_dim']:4} {row['median_ms']:8.4f} ms {mask:6} {row['choice']}")
    if options.json:
        result = {"machine": machine.gpu(), "batch": BATCH, "seq": SEQ, "rows": rows}
        machine.write_results(options.json, result)
    wrong = [row["choice"] for row in rows if not row["difference"] <= AGREE]
    for choice in wrong:
        print(f"choices: another O with {choice}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
