"""The JSON of chapters 01 and 02 as their executables write it, for tests without a compiler."""

from __future__ import annotations

ROWS, COLS = 2748, 229
TENSOR_BYTES = ROWS * COLS * 4
SECTORS = TENSOR_BYTES // 32 + ROWS  # a row of 916 bytes starts inside a sector


def variant(
    name: str,
    reads: int,
    *,
    rel_l2: float | None = 1.3e-7,
    sectors_per_pass: int = SECTORS,
    wavefronts: tuple[int, int] = (0, 0),
    counters: bool = True,
    **extra: object,
) -> dict:
    """A variant that reads x `reads` times and writes y once.

    @param wavefronts  of shared memory: taken, and the fewest possible
    @param counters    False: like the CUDA backend, with times instead of counts
    """
    bytes_moved = {
        "read_bytes": reads * TENSOR_BYTES,
        "write_bytes": TENSOR_BYTES,
        "tensors": {
            "x": {"read_bytes": reads * TENSOR_BYTES, "write_bytes": 0},
            "y": {"read_bytes": 0, "write_bytes": TENSOR_BYTES},
        },
    }
    right = rel_l2 is not None and rel_l2 <= 2e-6
    check: dict = {
        "passed": right,
        "tensors": {"y": {"rel_l2": rel_l2, "max_abs": rel_l2, "tolerance": 2e-6}},
    }
    if reason := extra.pop("known_failure", None):
        check["known_failure"] = reason
    result = {"name": name, "check": check, "traffic": {"predicted": bytes_moved}}
    if counters:
        result["traffic"]["counted"] = bytes_moved | {
            "read_sectors": reads * sectors_per_pass,
            "write_sectors": sectors_per_pass,
            "read_requests": reads * ROWS * 8,
            "write_requests": ROWS * 8,
        }
        result["shared"] = {
            "bytes_per_block": 128 if wavefronts[0] else 0,
            "load_wavefronts": wavefronts[0],
            "load_wavefronts_ideal": wavefronts[1],
            "store_wavefronts": wavefronts[1],
            "store_wavefronts_ideal": wavefronts[1],
        }
        result["ops"] = {"mma": 0, "barriers": 0, "shuffles": 0}
        result["defects"] = []
    else:
        time = {"median": 0.05 * (reads + 1), "min": 0.04, "max": 0.3, "repeats": 20}
        result |= {"time_ms": time, "gb_per_s": 1500.0, "share_of_copy": 0.5}
    return result | extra


def chapter(name: str, variants: list[dict], backend: str = "sim") -> dict:
    device = "CPU simulator, 4 cores" if backend == "sim" else "NVIDIA H100 80GB HBM3"
    problem = {"name": "softmax", "rows": ROWS, "cols": COLS, "q": "/tmp/q.npy"}
    return {"chapter": name, "backend": backend, "device": device, "problem": problem, "variants": variants}


def safe_softmax(backend: str = "sim") -> dict:
    """Chapter 01, with a variant that is declared to fail and one that wastes its sectors."""
    counters = backend == "sim"
    return chapter(
        "01_safe_softmax",
        [
            variant(
                "unsafe",
                2,
                rel_l2=None,
                counters=counters,
                known_failure="exp(x) overflows fp32 where x > 88, and this input has such x",
            ),
            variant("row_per_thread", 3, sectors_per_pass=8 * SECTORS, counters=counters),
            variant("row_per_warp", 3, rel_l2=1.1e-7, counters=counters),
            variant("row_per_block", 3, wavefronts=(91080, 44160), counters=counters),
        ],
        backend,
    )


def online_softmax(backend: str = "sim") -> dict:
    """Chapter 02."""
    counters = backend == "sim"
    return chapter(
        "02_online_softmax",
        [
            variant("online", 2, rel_l2=2.4e-7, counters=counters),
            variant("vectorized", 2, rel_l2=1.9e-7, counters=counters),
            variant("block_per_row", 2, wavefronts=(22080, 22080), counters=counters),
            variant("on_chip", 1, rel_l2=0.9e-7, counters=counters),
        ],
        backend,
    )


def skipped(name: str, reason: str, too_old: bool = False) -> dict:
    """A variant for which the device lacks something."""
    return {"name": name, "skipped": {"reason": reason, "device_too_old": too_old}}


RACE = {
    "kind": "race",
    "message": "Race reported between Write access by thread (5,0,0) at kernel.cuh:48 "
    "and Read access by thread (37,0,0) at kernel.cuh:61",
    "count": 1024,
}
