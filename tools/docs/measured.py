"""Tables of docs/results/*.json for the lessons. tools/docs/lessons.py lists the kinds of blocks.

Every function takes the parsed file and returns Markdown, or raises NoSuchMeasurement.
"""

from __future__ import annotations

import math
import re
import statistics

from ..bench import summary


class NoSuchMeasurement(Exception):
    """The file lacks a measurement; the text says which."""


def table(header: list[str], rows: list[list[str]], left: int = 1) -> str:
    """A Markdown table. @param left  how many columns are aligned left; the others are aligned right"""
    lines = [header, ["---"] * left + ["---:"] * (len(header) - left), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def on_device(data: dict, header: list[str], rows: list[list[str]]) -> str:
    return f"{data['device']}:\n\n" + table(header, rows)


# --- softmax --------------------------------------------------------------------------------------


def speed(data: dict, chapter: str | None) -> str:
    """GB/s of every variant (or of one chapter's), and of the kernels of others: one column for each
    shape.
    """
    copy: dict[str, float] = {}  # GB/s by shape
    speeds: dict[str, dict[str, float]] = {}  # GB/s by variant and shape
    peers: dict[str, dict[str, float]] = {}
    for timing in data["timings"]:
        shape = f"{timing['rows']} x {timing['cols']}"
        name = f"`{timing['variant']}`"
        if timing["chapter"] is None:
            peers.setdefault(name, {})[shape] = timing["gb_per_s"]
            continue
        copy[shape] = timing["gb_per_s"] / timing["share_of_copy"]
        if chapter is None:
            name = f"{timing['chapter'][:2]} {name}"
        if chapter in (None, timing["chapter"]):
            speeds.setdefault(name, {})[shape] = timing["gb_per_s"]
    if not speeds:
        raise NoSuchMeasurement(f"it has no timings of {chapter}")

    def cell(of_shape: dict[str, float], shape: str) -> str:
        if shape not in of_shape:
            return "-"
        return f"{of_shape[shape]:.0f} ({of_shape[shape] / copy[shape]:.0%})"

    rows = [[name, *(cell(of_shape, shape) for shape in copy)] for name, of_shape in (speeds | peers).items()]
    rows.append(["copy", *(f"{gb_per_s:.0f}" for gb_per_s in copy.values())])
    return on_device(data, ["GB/s (of copy)", *copy], rows)


def sectors(data: dict, chapter: str, rows: int, cols: int) -> str:
    """Sectors of each variant, counted and measured, and the resulting DRAM traffic."""
    runs = [
        run for run in data["sectors"] if (run["chapter"], run["rows"], run["cols"]) == (chapter, rows, cols)
    ]
    if not runs:
        raise NoSuchMeasurement(f"it has no sectors of {chapter} at {rows}x{cols}")
    lines = []
    for run in runs:
        measured = run["measured"]
        cells = [f"`{run['variant']}`"]
        for key in ("read_sectors", "write_sectors"):
            cells += [f"{run[key]:,}", f"{measured[key]:,}"]
        for key in ("dram_read_bytes", "dram_write_bytes"):
            cells.append(f"{measured[key] / (4 * rows * cols):.2f}")
        lines.append(cells)
    header = [f"{rows} x {cols}"]
    header += ["load sectors, simulator", "ncu", "store sectors, simulator", "ncu"]
    header += ["DRAM read / matrix", "DRAM written / matrix"]
    return on_device(data, header, lines)


# --- attention ------------------------------------------------------------------------------------


def _shape(timing: dict) -> str:
    """[8,16,1024,64] causal, with the layout if it is another one than in that order"""
    lengths = ",".join(str(timing[key]) for key in ("batch", "heads", "seq", "head_dim"))
    layout = timing.get("layout", "bhsd")
    words = ["causal"] * timing["causal"] + [layout] * (layout != "bhsd")
    return " ".join((f"[{lengths}]", *words))


def _kernel(timing: dict) -> str:
    """05 `register_tiled`, or the name of a kernel that belongs to no chapter."""
    if timing["chapter"] is None:
        return timing["variant"]
    return f"{timing['chapter'][:2]} `{timing['variant']}`"


def sustained(data: dict) -> dict:
    """The same file with the sustained runs instead of the runs by turns."""
    if "sustained" not in data:
        raise NoSuchMeasurement("it has no sustained runs: ./learn bench --sustained")
    return data | {"timings": summary.as_timings(data["sustained"])}


def tflops(data: dict, plan: str, chapter: str | None, unit: str) -> str:
    """A plan of tools/bench/attention.py: kernels by problems; the more numerous ones become rows.

    @param chapter  only this chapter's kernels and those of no chapter; None: all     @param unit  "tflops"
    or "ms"
    """
    timings = [
        timing
        for timing in data["timings"]
        if timing.get("plan") == plan and (chapter is None or timing["chapter"] in (chapter, None))
    ]
    if not any(timing["chapter"] for timing in timings):
        raise NoSuchMeasurement(f"it has no timings of {chapter or 'a chapter'} in the plan {plan}")
    shapes = list(dict.fromkeys(_shape(timing) for timing in timings))
    kernels = list(dict.fromkeys(_kernel(timing) for timing in timings))
    first_peer = next((_kernel(timing) for timing in timings if timing["chapter"] is None), None)
    by_place = {(_kernel(timing), _shape(timing)): timing for timing in timings}

    def cell(kernel: str, shape: str) -> str:
        timing = by_place.get((kernel, shape))
        if timing is None:
            return "-"
        if unit == "ms":
            return f"{timing['median_ms']:.3g}"
        base = by_place.get((first_peer, shape))
        ratio = f" ({base['median_ms'] / timing['median_ms']:.2f})" if base and base is not timing else ""
        return f"{timing['tflops']:.1f}{ratio}"

    corner = {"ms": "ms", "tflops": "TFLOP/s"}[unit]
    if unit == "tflops" and first_peer:
        corner += f" (of {first_peer})"
    if len(kernels) > len(shapes):
        rows = [[kernel, *(cell(kernel, shape) for shape in shapes)] for kernel in kernels]
        return on_device(data, [corner, *shapes], rows)
    rows = [[shape, *(cell(kernel, shape) for kernel in kernels)] for shape in shapes]
    return on_device(data, [corner, *kernels], rows)


def steps(data: dict, plan: str, head_dim: int, peer: str) -> str:
    """A plan's kernels for one head dimension as rows: TFLOP/s, and in brackets the speed relative to a
    peer.
    """
    timings = [
        timing for timing in data["timings"] if timing.get("plan") == plan and timing["head_dim"] == head_dim
    ]
    shapes = list(dict.fromkeys(_shape(timing) for timing in timings))
    by_place = {(_kernel(timing), _shape(timing)): timing for timing in timings}
    if (peer, shapes[0] if shapes else "") not in by_place:
        raise NoSuchMeasurement(f"it has no timings of {peer} in the plan {plan} for head_dim {head_dim}")
    rows = []
    for kernel in dict.fromkeys(_kernel(timing) for timing in timings):
        ratios = [
            by_place[peer, shape]["median_ms"] / by_place[kernel, shape]["median_ms"] for shape in shapes
        ]
        cells = [
            f"{by_place[kernel, shape]['tflops']:.0f} ({ratio:.2f})"
            for shape, ratio in zip(shapes, ratios, strict=True)
        ]
        rows.append([kernel, *cells, f"{math.prod(ratios) ** (1 / len(ratios)):.2f}"])
    corner = f"TFLOP/s (of {peer})"
    return on_device(data, [corner, *shapes, "geometric mean"], rows)


def gains(data: dict, plans: str, chapter: str, first: str, order: str | None = None) -> str:
    """The variants of a chapter, each beside the one before it, which it changes: TFLOP/s for each head
    dimension of one plan or several, as geometric means of their problems, and what the variant gains.

    @param plans  with a + between them
    @param first  NN/variant: what the first variant changes; "-" where the plans have no timing of it
    @param order  the variants, with commas; None: as the plans have them
    """
    speeds: dict[tuple[str, int], list[float]] = {}
    own = []
    for timing in data["timings"]:
        if timing.get("plan") in plans.split("+") and timing["chapter"]:
            kernel = f"{timing['chapter'][:2]} `{timing['variant']}`"
            speeds.setdefault((kernel, timing["head_dim"]), []).append(timing["tflops"])
            own += [kernel] * (timing["chapter"] == chapter)
    if not own:
        raise NoSuchMeasurement(f"it has no timings of {chapter} in the plan {plans}")
    if order:
        own = [f"{chapter[:2]} `{variant}`" for variant in order.split(",")]
        if missing := set(own) - {kernel for kernel, _ in speeds}:
            raise NoSuchMeasurement(f"it has no timings of {min(missing)} in the plan {plans}")
    mean = {place: statistics.geometric_mean(each) for place, each in speeds.items()}
    before = "{} `{}`".format(*first.split("/"))
    head_dims = sorted({head_dim for _, head_dim in mean})
    rows = []
    for kernel in dict.fromkeys(own):
        row = [kernel, before]
        for head_dim in head_dims:
            old, new = mean.get((before, head_dim)), mean[kernel, head_dim]
            row += [f"{old:.0f}" if old else "-", f"{new:.0f}", f"{new / old:.2f}" if old else "-"]
        rows.append(row)
        before = kernel
    header = ["TFLOP/s", "what it changes"]
    for head_dim in head_dims:
        header += [f"$d$ = {head_dim}: before", "after", "gain"]
    return on_device(data, header, rows)


def errors(data: dict, plan: str) -> str:
    """The largest relative error of O of each kernel in a plan."""
    worst: dict[str, float] = {}
    for timing in data["timings"]:
        if timing.get("plan") == plan:
            kernel = _kernel(timing)
            worst[kernel] = max(worst.get(kernel, 0.0), timing["rel_l2"])
    if not worst:
        raise NoSuchMeasurement(f"it has no plan {plan}")
    rows = [[kernel, f"{error:.1e}"] for kernel, error in worst.items()]
    dtype = next(t["dtype"] for t in data["timings"] if t["plan"] == plan)
    return on_device(data, [dtype, "relative error of O"], rows)


def speed_of_variants(data: dict, plan: str, head_dim: int) -> dict[str, float]:
    """TFLOP/s of the variants in a plan, for a head dimension, without a mask."""
    return {
        timing["variant"]: timing["tflops"]
        for timing in data["timings"]
        if timing.get("plan") == plan and timing["head_dim"] == head_dim and not timing["causal"]
    }


def choices(data: dict) -> str:
    """Speed of a kernel with one choice undone, relative to the kernel itself: choices by problems."""
    names = list(dict.fromkeys(name for run in data["runs"] for name in run["relative_speed"]))
    header = ["relative speed"]
    for run in data["runs"]:
        causal = " causal" if run["causal"] else ""
        header.append(f"$d$ = {run['head_dim']}, {run['seq']}{causal}")
    rows = [
        [name.replace("_", " ")]
        + [
            f"{run['relative_speed'][name]:.2f}" if name in run["relative_speed"] else "-"
            for run in data["runs"]
        ]
        for name in names
    ]
    return on_device(data, header, rows)


def _problem(data: dict, chapter: str, number: int) -> tuple[str, list[dict]]:
    """The options of one of the problems that a chapter's variants were counted on, and their runs."""
    names = ("batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim", "head_dim_v")
    names += ("causal", "dtype")
    problems: dict[tuple, list[dict]] = {}
    for run in data["sectors"]:
        if run["chapter"] == chapter:
            problem = tuple((name, run[name]) for name in names if name in run)
            problems.setdefault(problem, []).append(run)
    if not 1 <= number <= len(problems):
        raise NoSuchMeasurement(f"it has no problem {number} of {chapter}")
    problem, runs = list(problems.items())[number - 1]
    options = " ".join(
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name, value in problem
        if value is not False
    )
    return options, runs


def _pair(run: dict, *keys: str) -> list[str]:
    """A count of the simulator and of Nsight Compute."""
    return [f"{sum(run[key] for key in keys):,}", f"{sum(run['measured'].get(key, 0) for key in keys):,}"]


def copies(data: dict, chapter: str, number: int) -> str:
    """What the copy engine brings and what reaches the L2, as counters() for other chapters."""
    columns = {
        "sectors landed": "landed_sectors",
        "stored": "l2_write_sectors",
        "atomic": "l2_atomic_sectors",
        "`wgmma` of warps": "wgmma",
    }
    options, runs = _problem(data, chapter, number)
    header = [""]
    for title in columns:
        header += [f"{title}, simulator", "ncu"]
    rows = [
        [f"`{run['variant']}`", *(cell for key in columns.values() for cell in _pair(run, key))]
        for run in runs
    ]
    return f"{data['device']}, `{options}`:\n\n" + table(header, rows)


def counters(data: dict, chapter: str, number: int) -> str:
    """Counts of the simulator and of Nsight Compute for a chapter's variants, on one of its problems."""
    options, runs = _problem(data, chapter, number)
    with_mma = any(run["mma"] for run in runs)
    with_shared = any(run["shared_load_wavefronts"] for run in runs)
    with_atomics = any(run.get("atomic_sectors") for run in runs)

    rows = []
    for run in runs:
        row = [f"`{run['variant']}`"]
        row += _pair(run, "read_sectors") + _pair(run, "write_sectors")
        if with_atomics:
            row += _pair(run, "atomic_sectors")
        if with_shared:
            row += _pair(run, "shared_load_wavefronts", "shared_store_wavefronts")
        if with_mma:
            row += _pair(run, "mma")
        rows.append(row)
    header = ["", "load sectors, simulator", "ncu", "store sectors, simulator", "ncu"]
    if with_atomics:
        header += ["atomic sectors, simulator", "ncu"]
    if with_shared:
        header += ["shared wavefronts, simulator", "ncu"]
    if with_mma:
        header += ["mma, simulator", "ncu"]
    return f"{data['device']}, `{options}`:\n\n" + table(header, rows)


def scaling(data: dict) -> str:
    """Time and memory against the length: a table for each head dimension, with two columns for each
    kernel.
    """
    by_place = {(row["head_dim"], row["kernel"], row["seq"]): row for row in data["rows"]}
    fits = {(fit["head_dim"], fit["kernel"]): fit for fit in data["fits"]}

    def cells(row: dict | None) -> list[str]:
        if row is None or not row["fits"]:
            return ["does not fit" if row else "-"] * 2
        return [f"{row['median_ms']:.3g}", f"{row['bytes'] / 2**20:,.1f}"]

    tables = []
    for head_dim in dict.fromkeys(row["head_dim"] for row in data["rows"]):
        own = [row for row in data["rows"] if row["head_dim"] == head_dim]
        kernels = list(dict.fromkeys(row["kernel"] for row in own))
        header, last = [f"$d$ = {head_dim}, $N$"], ["exponent"]
        for kernel in kernels:
            header += [f"{kernel}, ms", "MiB"]
            fit = fits[head_dim, kernel]
            last += [f"{fit[what]:.2f}" for what in ("time", "memory")]
        rows = []
        for seq in sorted({row["seq"] for row in own}):
            row = [f"{seq:,}"]
            for kernel in kernels:
                row += cells(by_place.get((head_dim, kernel, seq)))
            rows.append(row)
        tables.append(table(header, [*rows, last]))
    return f"{data['device']}:\n\n" + "\n\n".join(tables)


def agreement(data: dict) -> str:
    """The counters of the simulator and of Nsight Compute for every variant, over all problems, and their
    difference.
    """
    at_l1 = {
        "load sectors": ("read_sectors",),
        "store sectors": ("write_sectors",),
        "atomic sectors": ("atomic_sectors",),
    }
    of_copies = {
        "sectors landed": ("landed_sectors",),
        "read at the L2": ("l2_read_sectors",),
        "stored": ("l2_write_sectors",),
        "atomic": ("l2_atomic_sectors",),
        "`wgmma` of warps": ("wgmma",),
    }
    hopper = any("l2_read_sectors" in run for run in data["sectors"])
    columns = (of_copies if hopper else at_l1) | {
        "shared load wavefronts": ("shared_load_wavefronts",),
        "shared store wavefronts": ("shared_store_wavefronts",),
        "bank conflicts": ("bank_conflicts",),
        "mma": ("mma",),
    }
    variants: dict[str, list[dict]] = {}
    for run in data["sectors"]:
        name = f"{run['chapter'][:2]} `{run['variant']}`"
        variants.setdefault(name, []).append(run)

    def cell(runs: list[dict], keys: tuple[str, ...]) -> str:
        ours = sum(run.get(key, 0) for run in runs for key in keys)
        seen = sum(run["measured"].get(key, 0) for run in runs for key in keys)
        if ours == seen:
            return f"{ours:,} =" if ours else "-"
        part = f"{seen / ours - 1:+.1%}" if ours else "new"
        return f"{ours:,} / {seen:,} ({part})"

    rows = [[name, *(cell(runs, keys) for keys in columns.values())] for name, runs in variants.items()]
    return on_device(data, ["simulator / ncu", *columns], rows)


LADDERS = ("ladder", "fp32_ladder")  # their problems are in other plans as well


def standing(data: dict) -> str:
    """How many times as fast the last variants are as each peer: geometric mean over all problems, and the
    worst.
    """
    final = {"register_tiled", "final", "fp32_fused", "mma_pipelined", "on_chip"}
    final |= {"mma_deterministic", "no_maximum", "deterministic"}
    grid = [t for t in data["timings"] if t.get("plan") not in LADDERS]
    rows = []
    for found in summary.compare(grid):
        if found["variant"] not in final:
            continue
        name = f"{found['chapter'][:2]} `{found['variant']}`"
        if found["head_dim"]:
            name += f", $d$ = {found['head_dim']}"
        worst = f"{found['worst']:.2f} at {found['where']}"
        rows.append([name, found["peer"], f"{found['mean']:.2f}", worst, str(found["points"])])
    if not rows:
        raise NoSuchMeasurement("it has no timings of a last variant and a peer")
    header = ["speed", "of", "geometric mean", "worst", "problems"]
    return on_device(data, header, rows)


# Folder, name, idea, the chapter's own kernel, and the kernel of PyTorch that does the same.
CHAPTERS = (
    (
        "01_safe_softmax",
        "safe softmax",
        "subtract the maximum; read neighbouring columns together",
        ("row_per_block", "torch.softmax"),
    ),
    (
        "02_online_softmax",
        "online softmax",
        "maximum and sum in one pass, with the row on the chip",
        ("on_chip", "torch.softmax"),
    ),
    (
        "03_one_pass_attention",
        "one-pass attention",
        "correct the output as keys arrive: no N x N matrix",
        ("one_pass", "memory-efficient"),
    ),
    (
        "04_tiled_v1",
        "FlashAttention v1",
        "a tile of keys serves many queries: fewer bytes",
        ("bc_max", "memory-efficient"),
    ),
    (
        "05_loop_swapped_v2",
        "FlashAttention v2",
        "queries outside, keys inside: O stays on the chip",
        ("register_tiled", "memory-efficient"),
    ),
    (
        "06_tensor_core_mma",
        "tensor cores",
        "which lane holds which element: S stays in registers",
        ("exp2", "flash (FA2)"),
    ),
    ("07_multi_stage", "the pipeline", "copies, products and exponentials overlap", ("final", "flash (FA2)")),
    (
        "08_backward",
        "the backward pass",
        "recompute P: gradients without an N x N matrix",
        ("mma_pipelined", "flash (FA2)"),
    ),
    ("09_hopper", "Hopper", "a copy engine loads, warpgroups multiply and alternate", ("final", "cuDNN")),
    (
        "10_hopper_backward",
        "Hopper, backward",
        "five products per tile, and what each must wait for",
        ("final", "cuDNN"),
    ),
    (
        "11_masks",
        "masks",
        "visit only the tiles that the mask leaves; dropout that is drawn again",
        ("compressed", "FlexAttention"),
    ),
    (
        "12_large_heads",
        "large heads",
        "two blocks share P, so that each score is computed once",
        ("final", "memory-efficient"),
    ),
    (
        "13_ring",
        "several GPUs",
        "queries stay, keys circulate, and every rank has the same work",
        ("overlapped", "all-gather, cuDNN"),
    ),
    (
        "14_decoding",
        "decoding",
        "one query: heads share the keys they read, blocks divide them, a table finds the pages",
        ("paged", "FlashAttention-3"),
    ),
)
PEERS = {
    **{name: name for name in ("torch.softmax", "FlexAttention", "cuDNN")},
    "memory-efficient": "PyTorch",
    "flash (FA2)": "FA2",
    "FlashAttention-3": "FA3",
    "all-gather, cuDNN": "context_parallel",
}
IN_BF16 = ("flash (FA2)", "cuDNN")  # compared in bf16 rather than in fp32
# Their GPU is not every machine's.
MAY_LACK_TIMES = ("09_hopper", "10_hopper_backward", "11_masks", "12_large_heads", "13_ring", "14_decoding")


def _means(data: dict, folder: str, variant: str, peer: str) -> list[tuple[int, int, float]]:
    """For each head dimension: how many problems a variant and a peer ran in the precision of the comparison,
    and the geometric mean of the variant's speed relative to the peer's.
    """
    dtype = "bf16" if peer in IN_BF16 else "fp32"
    grid = [t for t in data.get("timings", []) if "variant" in t and t.get("dtype", "fp32") == dtype]
    return [
        (found["head_dim"], found["points"], found["mean"])
        for found in summary.compare(grid)
        if (found["chapter"], found["variant"], found["peer"]) == (folder, variant, peer)
    ]


def _mean_of(means: list[tuple[int, int, float]]) -> float:
    """The geometric mean over all problems."""
    logarithm = sum(points * math.log(mean) for _, points, mean in means)
    return math.exp(logarithm / sum(points for _, points, _ in means))


def _ratios(data: dict, folder: str, variant: str, peer: str) -> list[float]:
    """The speed of a variant of chapters 11 to 14 relative to a peer's, for each problem of a file of
    tools/bench/masks.py, large.py, ring.py or decoding.py that both ran.
    """
    if folder == "11_masks":
        rows = [row["ms"] for row in data.get("rows", [])]
    elif folder == "13_ring":
        rows = [_ring_row(run) for run in data.get("runs", []) if "peers" in run]
    else:
        name = f"12 {variant}" if folder == "12_large_heads" else variant
        problems: dict[str, dict[str, float]] = {}
        for row in data.get("timings", []):
            if row.get("kernel") in (name, peer) and row["right"]:
                of = {key: value for key, value in row.items() if key not in OF_A_KERNEL}
                problems.setdefault(str(of), {})[row["kernel"]] = row.get("median_ms") or row["us"]
        rows = [{variant: times.pop(name, None), **times} for times in problems.values()]
    return [row[peer] / row[variant] for row in rows if row.get(variant) and row.get(peer)]


# What a row of tools/bench/large.py or decoding.py says of the kernel rather than of the problem.
OF_A_KERNEL = {
    *("kernel", "splits", "rounds", "median_ms", "us", "tflops", "tb_per_s", "share_of_roof"),
    *("rel_l2", "lse_max_abs", "right"),
}


def _ring_row(run: dict) -> dict[str, float]:
    """Milliseconds of each variant and peer in a run of tools/bench/ring.py."""
    which = "both" if "--backward" in run["options"] else "forward"
    times = {v["name"]: v["time_ms"]["median"] for v in run["result"]["variants"]}
    return times | {name: peer[which] for name, peer in run["peers"].items()}


def _mean_speed(data: dict, folder: str, variant: str, peer: str) -> float | None:
    """Geometric mean over all problems that a variant and a peer ran in the precision of the comparison."""
    if folder >= "11":
        ratios = _ratios(data, folder, variant, peer)
        return statistics.geometric_mean(ratios) if ratios else None
    means = _means(data, folder, variant, peer)
    return _mean_of(means) if means else None


def overall(data: dict, folder: str, variant: str, peer: str) -> str:
    """What the speed in the table of `chapters` is the mean of."""
    means = sorted(_means(data, folder, variant, peer))
    if not means:
        raise NoSuchMeasurement(f"it has no timings of both {variant} and {peer}")
    rows = [[f"$d$ = {head_dim}", str(points), f"{mean:.3f}"] for head_dim, points, mean in means]
    rows.append(["together", str(sum(points for _, points, _ in means)), f"{_mean_of(means):.3f}"])
    return on_device(data, [f"{folder[:2]} `{variant}`, speed of {peer}", "problems", "geometric mean"], rows)


def chapters(*files: dict) -> str:
    """The chapters with their ideas, and the speed of each one's own kernel relative to another project's.

    @param files  for each chapter, the first file with timings of both kernels is used
    """
    rows = []
    for folder, name, idea, (variant, peer) in CHAPTERS:
        speeds = (_mean_speed(data, folder, variant, peer) for data in files)
        speed = next((speed for speed in speeds if speed is not None), None)
        if speed is None and folder not in MAY_LACK_TIMES:
            raise NoSuchMeasurement(f"it has no timings of both {variant} and {peer}")
        link = f"[{folder[:2]}](chapters/{folder}/README.md)"
        relative = f"{speed:.2f} x {PEERS[peer]}" if speed else "-"
        rows.append(f"| {link} | {name} | {idea} | `{variant}` | {relative} |")
    header = "| | chapter | the idea | its kernel | speed |"
    return "\n".join([header, "|---|---|---|---|---|", *rows])


def passes(data: dict, ours: tuple[str, str], peer: str) -> str:
    """Milliseconds of two variants, forward and then backward, of a peer's passes, and the ratio of the sums.

    @param ours  NN/variant of the forward and of the backward pass
    """
    times: dict[tuple, dict[tuple[str, bool], float]] = {}
    for timing in data["timings"]:
        if timing.get("plan") not in LADDERS and timing.get("dtype") == "bf16":
            shape = tuple(timing[n] for n in ("head_dim", "seq", "batch", "heads"))
            number = f"{timing['chapter'][:2]}/" if timing["chapter"] else ""
            kernel = (number + timing["variant"], bool(timing.get("backward")))
            place = times.setdefault((*shape, timing["causal"]), {})
            place[kernel] = timing["median_ms"]
    rows = []
    for (head_dim, seq, batch, heads, causal), found in sorted(times.items()):
        pairs = [(ours[0], False), (ours[1], True), (peer, False), (peer, True)]
        if not all(pair in found for pair in pairs):
            continue
        forward, backward, peer_forward, peer_backward = (found[p] for p in pairs)
        mask = " causal" if causal else ""
        rows.append(
            [
                f"[{batch},{heads},{seq},{head_dim}]{mask}",
                f"{forward:.3f} + {backward:.3f}",
                f"{peer_forward:.3f} + {peer_backward:.3f}",
                f"{(peer_forward + peer_backward) / (forward + backward):.2f}",
            ]
        )
    if not rows:
        raise NoSuchMeasurement(f"it has no problem with both passes of {peer}")
    names = ", ".join("{} `{}`".format(*name.split("/")) for name in ours)
    header = ["ms, forward + backward", names, peer, "speed"]
    return on_device(data, header, rows)


def soak(data: dict) -> str:
    """The coverage of the random problems of tests/soak, by chapter."""
    columns = {
        "problems": "problems",
        "failed": "failed",
        "causal": "causal",
        "grouped queries": "grouped",
        "head dimensions": "head_dims",
        "strided tensors": "strided",
        "rows without keys": "rows_without_keys",
        "run twice, same bits": "same_bits",
        "right except for cancellation": "cancelled",
    }
    runs = data["chapters"]
    columns = {name: key for name, key in columns.items() if all(key in run for run in runs)}
    rows = []
    for run in runs:
        row = [run["chapter"][:2], *(f"{run[key]:,}" for key in columns.values())]
        rows.append([*row, f"{run['worst_of_tolerance']:.2f}"])
    return on_device(data, ["chapter", *columns, "largest error / its tolerance"], rows)


def layouts(data: dict, which: str) -> str:
    """Speeds relative to FlashAttention-2 by head dimension, in two layouts, from tools/bench/layouts.py.

    @param which  the pass: forward or backward"""
    speeds: dict[int, list[str]] = {}
    cases = [case for case in data["cases"] if case["pass"] == which]
    for case in sorted(cases, key=lambda case: (case["head_dim"], case["causal"])):
        ms = case["milliseconds"]
        speeds.setdefault(case["head_dim"], []).extend(
            f"{ms['flash'] / ms[layout]:.2f}" for layout in ("bhsd", "bshd")
        )
    head = ["dense", "as models have them"]
    return on_device(
        data,
        ["head_dim, speed relative to FA2", *head, *(f"{name}, causal" for name in head)],
        [[str(head_dim), *row] for head_dim, row in speeds.items()],
    )


def masks(data: dict, group: str, which: str, head_dim: str | None = None, seq: str | None = None) -> str:
    """Chapter 11's kernels and their peers: milliseconds, with the ratio to the dense kernel or, where there
    is none, to the first one; for packed and padded sequences, millions of tokens per second.

    @param head_dim, seq  of the only problems to show; None: of all
    """
    cases = [row for row in data["rows"] if (row["group"], row["pass"]) == (group, which)]
    if head_dim:
        cases = [row for row in cases if (str(row["head_dim"]), str(row["seq"])) == (head_dim, seq)]
    if not cases:
        raise NoSuchMeasurement(f"has no {group} {which}")
    cases.sort(key=lambda row: row["head_dim"])
    kernels = list(dict.fromkeys(name for row in cases for name in row["ms"]))
    rows = []
    for row in cases:
        cells = []
        base = row["ms"].get("dense", next(iter(row["ms"].values())))
        for name in kernels:
            if name not in row["ms"]:
                cells.append("-")
            elif group == "packed":
                cells.append(f"{row['tokens'] / row['ms'][name] / 1e3:.2f}")
            else:
                cells.append(f"{row['ms'][name]:.3f} ({row['ms'][name] / base:.2f})")
        sizes = ",".join(str(row[k]) for k in ("batch", "heads", "seq", "head_dim"))
        rows.append([row["mask"], f"[{sizes}]", *cells])
    unit = "million tokens/s" if group == "packed" else "ms"
    first = {"blocks": "blocks that exist", "dropout": "rate", "scores": "functions"}.get(group, "mask")
    return on_device(data, [f"{first}; {unit}", "problem", *kernels], rows)


# The variants of chapter 11: name, the variant that it changes, what it changes, and on which problem of
# tools/bench/masks.py the two are compared: group, mask and pass.
MASK_VARIANTS = (
    (
        "masked_everywhere",
        "07's final",
        "evaluates the masks for every score",
        ("steps", "causal", "forward"),
    ),
    ("skip_empty", "masked_everywhere", "does not visit empty tiles", ("steps", "causal", "forward")),
    ("three_kinds", "skip_empty", "evaluates no mask in full tiles", ("steps", "causal", "forward")),
    (
        "compressed",
        "three_kinds",
        "takes its tiles from a list, longest lists first",
        ("steps", "causal", "forward"),
    ),
    ("block_sparse", "compressed", "has no loop for partial tiles", ("blocks", "0.125", "forward")),
    ("deterministic", "compressed", "adds to no gradient atomically", ("blocks", "0.125", "backward")),
    ("hopper", "compressed", "has the kernels of chapters 09 and 10", ("masks", "causal", "forward")),
    ("dropout", "compressed", "drops elements of P", ("dropout", "0.1", "forward")),
    ("scores", "compressed", "changes scores: softcap", ("scores", "softcap", "forward")),
)


def mask_variants(dense: dict, *files: dict) -> str:
    """What each variant of chapter 11 changes, and its time beside that of the variant it changes, for
    [4,16,4096,128].

    @param dense  a file of attention_results.py with chapter 07's final
    @param files  of tools/bench/masks.py
    """
    size = {"batch": 4, "heads": 16, "seq": 4096, "head_dim": 128}
    kernel = {"chapter": "07_multi_stage", "variant": "final", "causal": True, "backward": False}
    found = [t for t in dense["timings"] if (size | kernel).items() <= t.items()]
    if not found:
        raise NoSuchMeasurement("has no time of chapter 07's final for [4,16,4096,128], causal")
    rows = []
    for name, before, changes, where in MASK_VARIANTS:
        cells = ["not measured", "-", "-"]
        of = dict(zip(("group", "mask", "pass"), where, strict=True)) | size
        if at := next(((f, r) for f in files for r in f["rows"] if of.items() <= r.items()), None):
            data, row = at
            ms = row["ms"] | (
                {"07's final": found[0]["median_ms"]} if data["device"] == dense["device"] else {}
            )
            mask = {"blocks": f"{where[1]} of blocks", "dropout": "none"}.get(where[0], where[1])
            of_problem = f"{mask}, {where[2]}, {data['device'].split()[1]}"
            ratio = ms[name] / ms[before]
            cells = [of_problem, f"{ms[before]:.3f}", f"{ms[name]:.3f} ({ratio:.2f})"]
        shown = before if " " in before else f"`{before}`"
        rows.append([f"`{name}`", shown, changes, *cells])
    header = ["variant", "changes", "what it does differently", "mask, pass, GPU", "before, ms", "ms (ratio)"]
    return table(header, rows, left=4)


TOO_WIDE_FOR_PAPER = {"widths": ("12 spilled", "unfused"), "lengths": ("unfused",)}


def large(data: dict, group: str) -> str:
    """TFLOP/s of chapter 12 and of other kernels, and how many times as long each of the others takes as the
    fastest of chapter 12; from tools/bench/large.py."""
    timings = [
        row
        for row in data["timings"]
        if row["group"] == group and row["kernel"] not in TOO_WIDE_FOR_PAPER.get(group, ())
    ]
    if not timings:
        raise NoSuchMeasurement(f"it has no {group}")
    kernels = sorted(
        dict.fromkeys(row["kernel"] for row in timings), key=lambda name: not name.startswith("12")
    )
    cases: dict[tuple, dict[str, dict]] = {}
    for row in timings:
        names = ("batch", "heads", "seq_q", "seq_k", "head_dim", "head_dim_v", "causal")
        cases.setdefault(tuple(row[n] for n in names), {})[row["kernel"]] = row
    rows = []
    for (batch, heads, n, m, d, d_v, causal), found in cases.items():
        ours = [row for name, row in found.items() if name.startswith("12")]
        best = min((row["median_ms"] for row in ours if row["right"]), default=None)
        cells = []
        for name in kernels:
            row = found.get(name)
            if row is None or not row["right"]:
                cells.append("-" if row is None else "wrong")
                continue
            ratio = f" ({row['median_ms'] / best:.2f})" if best else ""
            cells.append(f"{row['tflops']:.0f}" + ratio * (row not in ours))
        length = f"{n}" if n == m else f"{n}/{m}"
        width = f"{d}" if d == d_v else f"{d}/{d_v}"
        rows.append([f"[{batch},{heads},{length},{width}]" + " causal" * causal, *cells])
    names = [re.sub(r"^(\d\d) (\w+)$", r"\1 `\2`", name) for name in kernels]
    device = data.get("device") or data["machine"]["name"]
    header = ["TFLOP/s (time / that of chapter 12)", *names]
    return on_device({"device": device}, header, rows)


LARGE_VARIANTS = (  # variant, the one that it changes, what it does differently
    ("slices_of_d", "", "256 columns of O for each block, and all of S"),
    ("spilled", "slices_of_d", "computes S once: O goes to HBM and back for each key tile"),
    ("o_shared", "slices_of_d", "two warpgroups of a block share P: 512 columns"),
    ("cluster", "o_shared", "two blocks send each other P: 1024 columns"),
    ("overlapped", "cluster", "issues the next tile's S before the softmax"),
    ("final", "cluster", "takes fp32, too, and has a backward pass"),
)


def large_variants(data: dict) -> str:
    """What each variant of chapter 12 changes, and its speed beside that of the variant it changes, in bf16,
    for the two problems without a mask.
    """
    sizes = {512: "[2,4,8192,512]", 1024: "[1,4,8192,1024]"}
    of = {
        (row["kernel"], row["head_dim"]): row["tflops"]
        for row in data["timings"]
        if row["group"] == "bf16" and not row["causal"]
    }
    rows = []
    for name, before, what in LARGE_VARIANTS:
        cells = []
        for head_dim in sizes:
            after, first = of.get((f"12 {name}", head_dim)), of.get((f"12 {before}", head_dim))
            if after is None:
                cells.append("-")
            elif first is None:
                cells.append(f"{after:.0f}")
            else:
                cells.append(f"{first:.0f} to {after:.0f} ({after / first:.2f})")
        rows.append([f"`{name}`", f"`{before}`" if before else "-", what, *cells])
    names = [f"{size}, TFLOP/s" for size in sizes.values()]
    header = ["variant", "changes", "what it does differently", *names]
    return f"{data['device']}:\n\n" + table(header, rows, left=3)


def _ring_problem(data: dict, options: list[str]) -> str:
    mask = "causal" if "--causal" in options else "full"
    return f"{mask}, {'both passes' if '--backward' in options else 'forward'}"


def ring_times(data: dict) -> str:
    """Chapter 13 and PyTorch's context_parallel: milliseconds of the slowest rank, with the share of the
    ideal time, which is that of one GPU divided by their number, measured in turn with the variant; for
    PyTorch, with `overlapped`. In the last row, it is that of one GPU that runs by itself.
    """
    runs = [run for run in data["runs"] if "result" in run]
    header, columns = ["variant; ms (of ideal)"], []
    for run in runs:
        times = {f"`{v['name']}`": (v["time_ms"]["median"], v["ideal_ms"]) for v in run["result"]["variants"]}
        _, beside = times["`overlapped`"]
        which = "both" if "--backward" in run["options"] else "forward"
        for name, peer in run.get("peers", {}).items():
            times[f"PyTorch, {name}"] = (peer[which], beside)
        by_itself = run["by_itself"]
        times["`overlapped`, one GPU by itself"] = (by_itself["ms"], by_itself["ideal_ms"])
        header.append(_ring_problem(data, run["options"]))
        columns.append({name: f"{ms:.2f} ({ideal / ms:.2f})" for name, (ms, ideal) in times.items()})
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[name, *(column.get(name, "-") for column in columns)] for name in names]
    device = runs[0]["result"]["device"]
    return on_device({**data, "device": f"{data['gpus']} x {device}"}, header, rows)


def ring_waits(data: dict) -> str:
    """What the forward passes of chapter 13 hide. With the time of a rank's own block and that of everything
    else, both measured by themselves: how long a pass takes if the blocks of the slowest rank hide all else,
    and if they hide nothing.
    """
    ranks, rows = data["gpus"], []
    for run in (run for run in data["runs"] if "result" in run and "--backward" not in run["options"]):
        causal = "--causal" in run["options"]
        for variant in run["result"]["variants"]:
            own, rest, ideal = (variant[key] for key in ("own_ms", "rest_ms", "ideal_ms"))
            ms, name = variant["time_ms"]["median"], variant["name"]
            # The last rank's own block is causal, half of one; each other block of it is whole.
            count = 2 * ranks - 1 if causal and name in ("ring", "all_gather") else ranks
            hidden, serial = count * own, count * own + rest
            rows.append(
                [
                    f"`{name}`, {'causal' if causal else 'full'}",
                    f"{count} x {own:.2f}",
                    f"{rest:.2f}",
                    f"{hidden:.2f} ({ideal / hidden:.2f})",
                    f"{serial:.2f} ({ideal / serial:.2f})",
                    f"{ms:.2f} ({ideal / ms:.2f})",
                ]
            )
    device = next(run["result"]["device"] for run in data["runs"] if "result" in run)
    header = [
        "variant, mask; ms (of ideal)",
        "products",
        "all else",
        "all hidden",
        "nothing hidden",
        "measured",
    ]
    return on_device({**data, "device": f"{ranks} x {device}"}, header, rows)


# The variants of chapter 13: name, the variant that it changes, what it does differently.
RING_VARIANTS = (
    ("all_gather", "", "gives every rank all keys before it computes"),
    ("ring", "all_gather", "passes K and V on to the next rank while it computes with them"),
    ("zigzag", "ring", "gives each rank an early and a late piece of the sequence"),
    (
        "overlapped",
        "zigzag",
        "begins with a transfer, overlaps steps, and sends parts of dK and dV straight home",
    ),
    ("all_to_all", "all_gather", "trades tokens for heads: every rank has all tokens of some heads"),
)


def ring_variants(data: dict) -> str:
    """What each variant of chapter 13 changes, and its time under a causal mask beside that of the variant it
    changes.
    """
    runs = [run for run in data["runs"] if "result" in run and "--causal" in run["options"]]
    times = [{v["name"]: v["time_ms"]["median"] for v in run["result"]["variants"]} for run in runs]
    rows = []
    for name, before, changes in RING_VARIANTS:
        cells = [f"`{name}`", f"`{before}`" if before else "-", changes]
        for ms in times:
            cells += (
                [f"{ms[before]:.2f}", f"{ms[name]:.2f} ({ms[name] / ms[before]:.2f})"]
                if before
                else ["-", f"{ms[name]:.2f}"]
            )
        rows.append(cells)
    header = ["variant", "changes", "what it does differently"]
    for run in runs:
        header += [f"{_ring_problem(data, run['options'])}: before, ms", "ms (ratio)"]
    device = f"{data['gpus']} x {runs[0]['result']['device']}"
    return f"{device}:\n\n{table(header, rows, left=3)}"


def ring_links(data: dict) -> str:
    """Bytes that the ranks of chapter 13 send to others, all together: by the formula, and as the counters of
    NVLink say.
    """
    runs = [run for run in data["runs"] if "result" in run]
    cells: dict[str, list[str]] = {}
    for run in runs:
        for variant in run["result"]["variants"]:
            predicted = sum(step["predicted_bytes"] for steps in variant["links"] for step in steps)
            seen = sum(variant["measured_link_bytes"])
            cells.setdefault(f"`{variant['name']}`", []).append(f"{predicted / 1e6:.2f} / {seen / 1e6:.2f}")
    header = ["variant; MB, formula / NVLink"]
    header += [_ring_problem(data, run["options"]) for run in runs]
    device = f"{data['gpus']} x {runs[0]['result']['device']}"
    return on_device(
        {**data, "device": device}, header, [[name, *columns] for name, columns in cells.items()]
    )


def ring_changes(data: dict) -> str:
    """Chapter 13's `overlapped` with all of its changes, and without each: by how much is the share of the
    ideal time higher with all of them? Medians, if there are several runs of a kind.
    """
    rows: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run in data["runs"]:
        if "result" in run:
            continue
        words = run["options"]
        without = words[words.index("--without") + 1] if "--without" in words else "-"
        times = rows.setdefault(without, {}).setdefault(_ring_problem(data, words), [])
        if variant := run.get("variant"):
            ms = variant["time_ms"]["median"]
            times.append((ms, variant["ideal_ms"] / ms))
    if not rows:
        raise NoSuchMeasurement("has no sweep")
    problems = list(dict.fromkeys(name for row in rows.values() for name in row))

    def cell(without: str, problem: str) -> str:
        if not (times := rows[without].get(problem)):
            return "failed" if times == [] else "-"
        ms, share = (statistics.median(column) for column in zip(*times, strict=True))
        text = f"{ms:.2f} ({share:.2f})"
        if without == "-" or not (whole := rows.get("-", {}).get(problem)):
            return text
        return f"{text}, {100 * (statistics.median(share for _, share in whole) / share - 1):+z.1f} %"

    device = data.get("device") or next(r["result"]["device"] for r in data["runs"] if "result" in r)
    return on_device(
        {**data, "device": f"{data['gpus']} x {device}"},
        ["without; ms (of ideal), gain of the change", *problems],
        [[without, *(cell(without, problem) for problem in problems)] for without in rows],
    )


def ring_million(data: dict) -> str:
    """A sequence that chapter 13's `overlapped` spreads over several GPUs, with sampled rows checked."""
    result = data["million"]["result"]
    variant, problem = result["variants"][0], result["problem"]
    share = sum(tensor["bytes"] for tensor in result["tensors"].values())
    memory = share / problem["ranks"] + variant["workspace_bytes"]
    ms, error = variant["time_ms"]["median"], variant["check"]["tensors"]["o"]
    return on_device(
        {**data, "device": f"{data['gpus']} x {result['device']}"},
        ["tokens", "heads", "ms", "ms of one GPU", "of ideal", "TFLOP/s of each", "GB of each", "error of O"],
        [
            [
                f"{problem['seq_q']:,}",
                str(problem["heads"]),
                f"{ms:.0f}",
                f"{variant['ideal_ms'] * problem['ranks']:.0f}",
                f"{variant['ideal_ms'] / ms:.2f}",
                f"{variant['tflops']:.0f}",
                f"{memory / 1e9:.1f}",
                f"{error['rel_l2']:.1e}",
            ]
        ],
    )


def decoding(data: dict, group: str) -> str:
    """A group of tools/bench/decoding.py: kernels by problems, in us, and the share of the speed at which the
    GPU reads. More problems than kernels become rows.
    """
    cells: dict[str, dict[str, str]] = {}  # by problem and kernel
    for row in data["timings"]:
        if row["group"] != group:
            continue
        problem = f"{row['name']}: {row['batch']} x {row['heads']}/{row['kv_heads']}, "
        problem += f"{row['queries']} x {row['keys']:,}, $d$ = {row['head_dim']}"
        problem += f", pages of {row['page_size']}" * bool(row["page_size"])
        name, *splits = row["kernel"].split(maxsplit=1)
        # Names of variants have small letters only; those of others do not, or more words than "N splits".
        own = name != "read" and re.fullmatch(r"[a-z0-9_]+( \d+ splits?)?", row["kernel"])
        kernel = " ".join([f"`{name}`", *splits]) if own else row["kernel"]
        share = "" if row["kernel"] == "read" else f" ({row['share_of_roof']:.2f})"
        cells.setdefault(problem, {})[kernel] = f"{row['us']:.1f}{share}"
    if not cells:
        raise NoSuchMeasurement(f"it has no group {group}")
    kernels = list(dict.fromkeys(kernel for of in cells.values() for kernel in of))
    corner = "us (of the speed of reading)"
    if len(cells) > len(kernels):
        rows = [[problem, *(of.get(kernel, "-") for kernel in kernels)] for problem, of in cells.items()]
        return on_device(data, [corner, *kernels], rows)
    rows = [[kernel, *(of.get(kernel, "-") for of in cells.values())] for kernel in kernels]
    return on_device(data, [corner, *cells], rows)


# The variants of chapter 14: name, the variant that it changes, what it does differently, and where the two
# are compared: groups and problem of tools/bench/decoding.py.
DECODING_VARIANTS = (
    ("one_block_a_head", "", "keys are the rows of the products; one query", ("steps", "steps", "a")),
    (
        "packed_heads",
        "one_block_a_head",
        "the heads that share K are columns of one product",
        ("steps", "steps", "a"),
    ),
    (
        "split_keys",
        "packed_heads",
        "several blocks share the keys of a head; a second kernel merges",
        ("steps", "steps", "b"),
    ),
    (
        "in_flight",
        "split_keys",
        "TMA, and a private ring for each warp: more bytes in flight, no barrier in the loop",
        ("steps", "steps", "b"),
    ),
    (
        "balanced",
        "in_flight",
        "all blocks have equally many granules, whatever the lengths",
        ("steps", "steps", "b"),
    ),
    ("one_kernel", "balanced", "the last block of a head merges: no second kernel", ("steps", "steps", "b")),
    (
        "paged",
        "one_kernel",
        "the cache may be in pages, found through a table; launches begin early",
        ("shapes", "shapes", "b"),
    ),
    ("fp8_cache", "paged", "elements of 8 bits", ("pages", "fp8", "b")),
    ("ampere", "paged", "`cp.async` instead of TMA: for every GPU since sm_80", ("shapes", "shapes", "b")),
)


def decoding_variants(data: dict) -> str:
    """What each variant of chapter 14 changes, and its time beside that of the variant it changes."""
    us = {(t["group"], t["name"], t["kernel"]): t["us"] for t in data["timings"] if not t["page_size"]}
    rows = []
    for name, before, changes, (old_group, group, problem) in DECODING_VARIANTS:
        own = us[group, problem, name]
        cells = ["-", f"{own:.1f}"]
        if before:
            old = us[old_group, problem, before]
            cells = [f"{old:.1f}", f"{own:.1f} ({own / old:.2f})"]
        rows.append([f"`{name}`", f"`{before}`" if before else "chapter 07", changes, problem, *cells])
    header = ["variant", "changes", "what it does differently", "problem", "before, us", "us (ratio)"]
    return f"{data['device']}:\n\n{table(header, rows, left=4)}"


def sanitizer(data: dict) -> str:
    """The findings of compute-sanitizer's tools in the programs of tests/soak/sanitize.py."""
    tools = list(dict.fromkeys(run["tool"] for run in data["runs"]))
    programs: dict[str, dict[str, dict]] = {}
    for run in data["runs"]:
        programs.setdefault(run["program"], {})[run["tool"]] = run
    rows = []
    for name, runs in programs.items():
        kind, _, chapter = name.partition("_ch")
        unit = "problems" if kind == "soak" else "tests"
        told = ["did not end" if runs[t]["errors"] is None else f"{runs[t]['errors']:,}" for t in tools]
        covered = min(run[unit] for run in runs.values())
        rows.append((kind == "soak", [chapter[:2], f"{covered:,} {unit}", *told]))
    rows.sort()  # tests, then random problems
    return on_device(data, ["chapter", "run under each tool", *tools], [row for _, row in rows])


def profile(data: dict) -> str:
    """A profile of a chapter with a copy engine, as written by `./learn profile NN --json FILE`."""
    rows = []
    for variant in data["variants"]:
        seen = variant["measured"]
        copied = 32 * (seen["landed_sectors"] + seen["l2_write_sectors"])
        rows.append(
            [
                f"`{variant['name']}`",
                f"{variant['predicted_bytes']:,}",
                f"{copied:,}",
                f"{seen['dram_read_bytes'] / 1e6:.1f}",
                f"{seen['tensor_active_percent']:.1f} %",
                f"{seen['time_ns'] / 1e3:,.0f}",
            ]
        )
    header = ["", "bytes predicted", "landed and stored", "MB read from DRAM"]
    header += ["tensor pipe busy", "us, ncu"]
    options = " ".join(data["options"])
    return f"{data['device']}, `{options}`:\n\n" + table(header, rows)


def hazards(data: dict) -> str:
    """What compute-sanitizer's tools find in the kernels of tests/soak/hazards.cu."""
    kernels = data["hazards"]
    tools = list(kernels[0]["errors"])
    rows = []
    for kernel in kernels:
        found = [kernel["errors"][tool] for tool in tools]
        told = ["did not end" if errors is None else f"{errors:,}" for errors in found]
        what = kernel["what"][0].upper() + kernel["what"][1:]
        rows.append([what, "right" if kernel["right"] else "**wrong**", *told])
    return on_device(data, ["kernel", "is", *tools], rows)
