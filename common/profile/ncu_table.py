"""The CSV of an Nsight Compute run as a short table: one line for each kernel launch.

    ncu_table.py FILE

FILE is what `ncu --csv --page raw --print-units base --log-file FILE` wrote, with the metrics that profile.sh
lists. Exit status: 2 the file cannot be read, 3 it holds no kernel (ncu's own complaint is repeated).
"""

import csv
import re
import sys
from dataclasses import dataclass
from pathlib import Path

GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
TENSOR = "sm__inst_executed_pipe_tensor_op_hmma.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


class NoKernels(Exception):
    """The file holds no launch. The text says why, as far as ncu does."""


@dataclass
class Launch:
    """A kernel launch and what was measured of it."""

    kernel: str
    grid: str
    block: str
    values: dict[str, float]


def short_name(kernel: str) -> str:
    """softmax<Row<4>> of "void fa::softmax<fa::Row<(int)4> >(const float *)"."""
    kernel = re.sub(r"\((int|unsigned int|bool)\)", "", kernel)
    kernel = re.sub(r"\([^()]*\)$", "", kernel.strip())
    kernel = kernel.removeprefix("void ").replace("fa::", "")
    return re.sub(r"\s*>", ">", kernel)


def dimensions(text: str) -> str:
    """128 of "(128, 1, 1)", 4x8 of "(4, 8, 1)"."""
    numbers = re.findall(r"\d+", text)
    while len(numbers) > 1 and numbers[-1] == "1":
        numbers.pop()
    return "x".join(numbers)


def read_launches(text: str) -> list[Launch]:
    """The launches of a CSV file, in the order in which they ran.

    Lines before the header are messages of ncu. The line after the header holds units.
    """
    lines = text.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if line.lstrip('"').startswith("ID")), None
    )
    if start is None:
        errors = [line for line in lines if line.startswith("==ERROR==")]
        reason = (
            errors[0].removeprefix("==ERROR==").strip() if errors else "it is empty"
        )
        raise NoKernels(reason)
    launches = []
    for row in csv.DictReader(lines[start:]):
        if not (row["ID"] or "").isdigit():
            continue  # the units, or a message of ncu between the rows
        values = {}
        for name, value in row.items():
            if name and "__" in name:
                try:
                    values[name] = float(value.replace(",", ""))
                except (AttributeError, ValueError):
                    pass  # "n/a": a metric that this GPU does not have
        launches.append(
            Launch(
                short_name(row["Kernel Name"]),
                dimensions(row.get("Grid Size", "")),
                dimensions(row.get("Block Size", "")),
                values,
            )
        )
    if not launches:
        raise NoKernels("the program launched no kernel")
    return launches


def columns_of(launch: Launch) -> list[str]:
    """The cells of a launch, in the order of HEADER. A metric that was not measured is a dash."""

    def number(name: str, unit: float = 1.0, digits: int = 0) -> str:
        value = launch.values.get(name)
        return "-" if value is None else f"{value / unit:,.{digits}f}"

    def per_request(kind: str) -> str:
        sectors = launch.values.get(GLOBAL.format("sectors", kind))
        requests = launch.values.get(GLOBAL.format("requests", kind))
        return f"{sectors / requests:.2f}" if sectors is not None and requests else "-"

    def both(pattern: str) -> str:
        parts = [launch.values.get(pattern.format(kind)) for kind in ("ld", "st")]
        return "-" if None in parts else f"{sum(parts):,.0f}"

    return [
        launch.kernel,
        launch.grid,
        launch.block,
        number(GLOBAL.format("sectors", "ld")),
        per_request("ld"),
        number(GLOBAL.format("sectors", "st")),
        per_request("st"),
        number("dram__bytes_read.sum", 1e6, 1),
        number("dram__bytes_write.sum", 1e6, 1),
        both(WAVEFRONTS),
        both(CONFLICTS),
        number(TENSOR),
    ]


# Two lines of heading per column.
HEADER = [
    ("", "kernel"),
    ("", "grid"),
    ("", "block"),
    ("load", "sectors"),
    ("per", "request"),
    ("store", "sectors"),
    ("per", "request"),
    ("DRAM MB", "read"),
    ("DRAM MB", "written"),
    ("shared", "wavefronts"),
    ("bank", "conflicts"),
    ("tensor", "instr."),
]


def table(launches: list[Launch]) -> str:
    """The table as text."""
    rows = [[h[0] for h in HEADER], [h[1] for h in HEADER]]
    rows += [columns_of(launch) for launch in launches]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        text = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        print(f"profile: cannot read {sys.argv[1]}: {error.strerror}", file=sys.stderr)
        return 2
    try:
        print(table(read_launches(text)))
    except NoKernels as reason:
        print(f"profile: Nsight Compute measured nothing: {reason}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
