"""What the kernels have done, as text."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def shape(index: list[int]) -> str:
    while len(index) > 1 and index[-1] == 1:
        index = index[:-1]
    return " x ".join(f"{n:,}" for n in index)


def aligned(rows: list[list[str]]) -> list[str]:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def table_of(kernel: dict) -> list[str]:
    """The lines about one kernel."""
    lines = [
        f"{kernel['name']}: {counted(kernel['launches'], 'launch')}"
        + f", grid {shape(kernel['grid'])}, block {shape(kernel['block'])}"
    ]
    if kernel["repetitions"]:
        lines.append(
            f"  races were looked for in the first {kernel['launches'] - kernel['repetitions']:,} of these "
            "launches: --check-all looks for them in all"
        )
    tensors = kernel["tensors"]
    if tensors:
        columns = {
            "bytes read": "read_bytes",
            "sectors": "read_sectors",
            "bytes written": "write_bytes",
            " sectors": "write_sectors",
        }
        if any(c["atomic_requests"] for c in tensors.values()):
            columns |= {"atomics": "atomic_requests", "  sectors": "atomic_sectors"}
        rows = [["memory", *(title.strip() for title in columns)]]
        rows += [[name, *(f"{c[key]:,}" for key in columns.values())] for name, c in tensors.items()]
        lines += [f"  {line}" for line in aligned(rows)]
    shared = kernel["shared"]
    if shared["bytes_per_block"]:
        wavefronts = shared["load_wavefronts"] + shared["store_wavefronts"]
        ideal = shared["load_wavefronts_ideal"] + shared["store_wavefronts_ideal"]
        lines.append(
            f"  shared memory: {shared['bytes_per_block']:,} bytes per block, "
            f"{counted(wavefronts, 'wavefront')}, of which {wavefronts - ideal:,} for bank conflicts"
        )
    ops = {name.replace("_", " "): n for name, n in kernel["ops"].items() if n}
    if ops:
        lines.append("  " + ", ".join(f"{n:,} {name}" for name, n in ops.items()))
    return lines


LONG = 20  # seconds


def hint(report: dict) -> str | None:
    """Which kernel takes most of the time, if that is long, and what can be done about it."""
    slowest = max(report["kernels"], key=lambda kernel: kernel["seconds"], default=None)
    if slowest is None or slowest["seconds"] < LONG:
        return None
    launches = slowest["launches"]
    what = f"{slowest['name']} took {slowest['seconds']:.0f} s"
    if launches > 8:
        what += f" in {launches:,} launches: launch it less often, give it"
    else:
        what += ": give it"
    blocks = shape(slowest["grid"])
    return f"note: {what} fewer blocks than {blocks}, with a smaller problem, or run it with --fast"


def tables(report: dict) -> str:
    return "\n".join(line for kernel in report["kernels"] for line in ["", *table_of(kernel)])
