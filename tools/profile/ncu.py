"""Nsight Compute: the metrics that this project reads, a run of a program under it, and the launches in its
CSV.
"""

import csv
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SECTOR_BYTES = 32
UNUSABLE_ARGUMENTS = 2  # exit status of a chapter

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_L2 = "lts__t_sectors_srcunit_tex_op_{}.sum"
_SHARED = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    "barrier",
    "long_scoreboard",
    "short_scoreboard",
    "math_pipe_throttle",
    "mio_throttle",
    "lg_throttle",
    "wait",
    "gmma",  # for a product of a warpgroup
)

# Our name of each metric, and Nsight Compute's. Counts are summed over the launches of a variant; all other
# metrics are averages weighted by time.
METRICS = {
    # Between the multiprocessors and the L1. cp.async is a load; an atomic whose result is unused is a `red`.
    "read_sectors": _GLOBAL.format("sectors", "ld"),
    "read_requests": _GLOBAL.format("requests", "ld"),
    "write_sectors": _GLOBAL.format("sectors", "st"),
    "write_requests": _GLOBAL.format("requests", "st"),
    "atomic_sectors": _GLOBAL.format("sectors", "red"),
    "atom_sectors": _GLOBAL.format("sectors", "atom"),  # whose result is used
    # What the copy engine brings to shared memory and fetches from it. It does not use the pipe of loads and
    # stores.
    "landed_sectors": "l1tex__m_xbar2l1tex_read_sectors_pipe_tma.sum",
    "copied_out_sectors": "l1tex__m_l1tex2xbar_write_sectors_pipe_tma.sum",
    # Between the L1 and the L2.
    "l2_read_sectors": _L2.format("read"),
    "l2_write_sectors": _L2.format("write"),
    "l2_atomic_sectors": _L2.format("red"),
    "l2_atom_sectors": _L2.format("atom"),
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    # The wavefronts of the instructions themselves. The metrics l1tex__data_pipe_lsu_wavefronts_.. also count
    # what waits for others, a few percent that vary from run to run, and leave cp.async out.
    "shared_load_wavefronts": _SHARED.format("ld"),
    "ldmatrix_wavefronts": _SHARED.format("ldsm"),
    "shared_store_wavefronts": _SHARED.format("st"),
    "cp_async_wavefronts": _SHARED.format("ldgsts"),
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
    "mma": "sm__inst_executed_pipe_tensor_op_hmma.sum",  # and wgmma, and moves of constants: hfma2
    "hfma2": "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    "wgmma": "sm__inst_executed_pipe_tensor_op_gmma.sum",  # of warps; sm_90 only
    "tensor_active_percent": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "warps_active_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "time_ns": "gpu__time_duration.sum",
} | {f"stalled_{reason}": _STALL.format(reason) for reason in STALLS}

# Counts that combine() derives from two others: the new name, a count, and a second one to add or subtract.
JOINED = (
    ("shared_load_wavefronts", "shared_load_wavefronts", +1, "ldmatrix_wavefronts"),
    ("shared_store_wavefronts", "shared_store_wavefronts", +1, "cp_async_wavefronts"),
    ("bank_conflicts", "shared_wavefronts", -1, "shared_wavefronts_ideal"),
    ("mma", "mma", -1, "hfma2"),
    ("atomic_sectors", "atomic_sectors", +1, "atom_sectors"),
    ("l2_atomic_sectors", "l2_atomic_sectors", +1, "l2_atom_sectors"),
)

COUNT_OF_SOURCE = "memory_"  # the prefix of counts over all instructions of a kernel
OF_SM_90 = ("landed_sectors", "copied_out_sectors", "wgmma", "stalled_gmma")
NOT_EVERYWHERE = {METRICS[name] for name in ("l2_atomic_sectors", *OF_SM_90)}

HOW_TO_PERMIT = (
    "no permission to read the GPU's counters: run as root, or set NVreg_RestrictProfilingToAdminUsers=0"
)


class NcuError(Exception):
    """Nothing could be measured; the text says why."""


class NoNcu(NcuError):
    """Nsight Compute is not installed."""


class NoPermission(NcuError):
    """Only administrators may read the counters."""


class NoKernels(NcuError):
    """The file contains no launch; the text says why if ncu does."""


class Refused(Exception):
    """A variant refuses a problem; the text says why."""


class Failed(Exception):
    """The program failed; the text is its output."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


@dataclass
class Launch:
    """A kernel launch and its measurements, by metric."""

    kernel: str
    grid: str
    block: str
    values: dict[str, float]


def find() -> str | None:
    """The path of ncu: in PATH, or where the toolkit is usually installed."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    folder = Path(home or "/usr/local/cuda") / "bin"
    return shutil.which("ncu") or shutil.which("ncu", path=str(folder))


# --- the CSV --------------------------------------------------------------------------------------


def short_name(kernel: str) -> str:
    """ "void fa::softmax<fa::Row<(int)4> >(const float *)" -> "softmax<Row<4>>"."""
    kernel = re.sub(r"\((int|unsigned int|bool)\)", "", kernel)
    kernel = re.sub(r"\([^()]*\)$", "", kernel.strip())
    kernel = kernel.removeprefix("void ").replace("fa::", "")
    return re.sub(r"\s*>", ">", kernel)


def is_of_harness(kernel: str) -> bool:
    """Whether a kernel belongs to the harness, like the copy that times are compared with."""
    return "fa::backend::" in kernel or short_name(kernel) == "copy"


def dimensions(text: str) -> str:
    """ "(128, 1, 1)" -> "128", "(4, 8, 1)" -> "4x8"."""
    numbers = re.findall(r"\d+", text)
    while len(numbers) > 1 and numbers[-1] == "1":
        numbers.pop()
    return "x".join(numbers)


def is_count(metric: str) -> bool:
    """Whether a metric is a count rather than an average."""
    return metric.endswith(".sum") or metric.startswith(COUNT_OF_SOURCE)


def has_launches(text: str) -> bool:
    """Whether a CSV file contains any launch."""
    try:
        return bool(read_launches(text))
    except NoKernels:
        return False


def read_launches(text: str) -> list[Launch]:
    """The launches of a CSV file, in the order in which they ran, without those of the harness.

    Lines before the header are messages from ncu. The line after the header contains units.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.lstrip('"').startswith("ID")), None)
    if start is None:
        errors = [line for line in lines if line.startswith("==ERROR==")]
        reason = errors[0].removeprefix("==ERROR==").strip() if errors else "it is empty"
        raise NoKernels(reason)
    launches = []
    for row in csv.DictReader(lines[start:]):
        if not (row["ID"] or "").isdigit() or is_of_harness(row["Kernel Name"]):
            continue  # the units, or a message from ncu between the rows
        values = {}
        for name, value in row.items():
            if name and ("__" in name or name.startswith(COUNT_OF_SOURCE)):
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


def combine(launches: list[Launch], names: Iterable[str] = METRICS) -> dict:
    """The combined measurements of several launches, by our names. Leaves out what some launch lacks."""
    times = [launch.values.get(METRICS["time_ns"]) for launch in launches]
    result = {}
    for name in names:
        metric = METRICS[name]
        values = [launch.values.get(metric) for launch in launches]
        if None in values:
            continue
        if is_count(metric):
            result[name] = int(sum(values))
        elif len(values) == 1:
            result[name] = values[0]
        elif None not in times and sum(times) > 0:
            weighted = (value * time for value, time in zip(values, times, strict=True))
            result[name] = sum(weighted) / sum(times)
    for name, count, sign, other in JOINED:
        if count in result and other in result:
            result[name] = result.pop(count) + sign * result.pop(other)
    if "mma" in result and "wgmma" in result:
        result["mma"] -= result["wgmma"]
    return result


# --- a run ----------------------------------------------------------------------------------------

_ENDED = r"application returned an error code \((\d+)\)"


def run(program: Path, options: Iterable[str], names: Iterable[str] = METRICS) -> list[Launch]:
    """Runs a program and returns its launches with these metrics.

    Clocks are not locked: nothing here depends on them, and locking them needs rights that most users lack.
    @throws NcuError; Refused if the program rejects the options; Failed if the program fails
    """
    metrics = [METRICS[name] for name in names]
    path = find()
    if path is None:
        raise NoNcu("ncu is not in PATH: it comes with the CUDA toolkit")
    while True:
        with tempfile.NamedTemporaryFile(suffix=".csv") as log:
            command = [path, "--clock-control", "none", "--csv", "--page", "raw"]
            command += ["--print-units", "base", "--log-file", log.name]
            command += ["--metrics", ",".join(metrics), str(program), *options]
            try:
                done = subprocess.run(command, check=False, capture_output=True, text=True)
            except OSError as error:
                raise NoNcu(f"{path} cannot be run: {error.strerror}") from error
            text = Path(log.name).read_text(encoding="utf-8", errors="replace")
        everything = f"{text}\n{done.stdout}\n{done.stderr}"
        if "ERR_NVGPUCTRPERM" in everything:
            raise NoPermission(HOW_TO_PERMIT)
        ended = re.search(_ENDED, everything)
        status = int(ended[1]) if ended else done.returncode
        errors = [
            line
            for line in everything.splitlines()
            if line.startswith("==ERROR==") and not re.search(_ENDED, line)
        ]
        # This ncu does not know one of the metrics, so it does not even start the program.
        unknown = [m for m in metrics if any(m in error for error in errors)]
        if errors and not unknown and not has_launches(text):
            unknown = NOT_EVERYWHERE.intersection(metrics)
        if unknown and len(unknown) < len(metrics):
            metrics = [metric for metric in metrics if metric not in unknown]
            continue
        if status == UNUSABLE_ARGUMENTS and not errors:
            raise Refused(done.stderr.strip() or done.stdout.strip())
        if status != 0 and not errors:
            output = f"{done.stdout}\n{done.stderr}".strip()
            raise Failed(output or "it printed nothing", status)
        return read_launches(text)
