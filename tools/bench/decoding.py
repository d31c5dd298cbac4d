"""Times chapter 14 on a GPU, beside the speed at which it reads, and on request beside the kernels of others.

    python3 -m tools.bench.decoding [--groups shapes,steps,..] [--shapes a,b,..] [--peers] [--rounds R]
    [--json FILE]

    shapes  seven problems of one to 16 queries, a to g: one_kernel, paged and ampere
    steps   all variants on a and b
    pages   a and b with pages of 16, 64 and 256 tokens, in random order
    ragged  64 lengths up to 95,000 and one of 100,000 beside 15 of 1000, in pages of 64 tokens; and the same
            tokens in equal lengths
    fp8     a and b with a cache of e4m3
    splits  b and e with 1 to 64 splits beside what the chapter's model chooses
    short   64 sequences of 500 keys
    little  as many bytes as b has, read with 4 to 96 KB in flight on each multiprocessor (Little's law)

All kernels of a problem, and a kernel that only reads as many bytes as K and V have (the roof), take turns in
one process, each round in another order, on the same tensors. Prints microseconds, TB/s and the share of the
roof, from the median. Results of two heads are compared with float64.

--peers adds PyTorch's flash attention (FA2) and cuDNN, and FlashAttention-3 if fa3-fwd is installed. They are
used for measurements alone.

Needs PyTorch, a GPU, and: cmake --build --preset cuda --target ch14_decoding_library read_roof
Exit status: 1 a result is wrong, 2 the arguments are unusable, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from . import machine
from .attention import time_in_turns, versions

import torch  # isort: skip: attention.py says what to do if it is missing
from fa_tutorial import chapter_library
from torch.nn.attention import sdpa_kernel

from ..options import Arguments, at_least
from .peers import BACKENDS

CHAPTER = "14_decoding"
NOT_OF_THE_PROBLEM = ("splits", "stages", "variants")  # of a case
ERROR_LIMIT = 1e-2  # relative, of O in bf16
FA3 = "fa3_fwd_interface"  # of the package fa3-fwd


@dataclass(frozen=True)
class Case:
    """A problem to time."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int  # of the longest sequence
    head_dim: int
    page_size: int = 0
    fp8: bool = False
    lengths: tuple[int, ...] = ()
    splits: tuple[int, ...] = ()  # to time besides the model's
    stages: tuple[int, ...] = ()  # of 4 KB, of kernels that only read
    variants: tuple[str, ...] = ("one_kernel", "paged", "ampere")

    @property
    def tokens(self) -> int:
        return sum(self.lengths) if self.lengths else self.batch * self.keys

    @property
    def cache_bytes(self) -> int:
        return 2 * self.tokens * self.kv_heads * self.head_dim * (1 if self.fp8 else 2)

    def __str__(self) -> str:
        words = f"{self.name} [{self.batch} x {self.heads}/{self.kv_heads}, {self.queries} x {self.keys}, "
        return words + f"{self.head_dim}]" + f" pages of {self.page_size}" * bool(self.page_size)


SHAPES = {
    case.name: case
    for case in (
        Case("a", 64, 32, 8, 1, 8192, 128),
        Case("b", 1, 32, 8, 1, 65536, 128),
        Case("c", 16, 32, 8, 1, 32768, 128),
        Case("d", 64, 32, 8, 4, 8192, 128),
        Case("e", 1, 32, 8, 16, 65536, 128),
        Case("f", 128, 16, 1, 1, 4096, 128),
        Case("g", 8, 64, 8, 1, 16384, 64),
    )
}
STEPS = ("one_block_a_head", "packed_heads", "split_keys", "in_flight", "balanced", "one_kernel", "ampere")
PAGED = ("paged", "ampere")


def log_uniform(count: int, longest: int, seed: int) -> tuple[int, ...]:
    dice = random.Random(seed)
    lengths = [int(math.exp(dice.uniform(math.log(100), math.log(longest)))) for _ in range(count - 1)]
    return (longest, *lengths)


def ragged(name: str, lengths: tuple[int, ...]) -> list[Case]:
    """A problem and the same tokens in equal lengths."""
    count, equal = len(lengths), sum(lengths) // len(lengths)
    of = {"page_size": 64, "variants": PAGED}
    return [
        Case(name, count, 32, 8, 1, max(lengths), 128, lengths=lengths, splits=(1, 4, 8, 64), **of),
        Case(f"{name} equal", count, 32, 8, 1, equal, 128, lengths=(equal,) * count, **of),
    ]


def cases(group: str, names: list[str]) -> list[Case]:
    shapes = [SHAPES[name] for name in names]
    if group == "shapes":
        return shapes
    first = [shape for shape in shapes if shape.name in "ab"]
    if group == "steps":
        return [replace(shape, variants=STEPS) for shape in first]
    if group == "pages":
        contiguous = [replace(shape, variants=PAGED) for shape in first]
        paged = [replace(s, page_size=p, variants=PAGED) for s in first for p in (256, 64, 16)]
        return contiguous + paged
    if group == "fp8":
        return [replace(shape, fp8=True, variants=("fp8_cache",)) for shape in first]
    if group == "splits":
        some = [shape for shape in shapes if shape.name in "be"]
        numbers = (1, 2, 4, 8, 12, 16, 24, 32, 64)
        return [replace(s, splits=numbers, variants=("in_flight", "one_kernel")) for s in some]
    if group == "little":
        bare = [shape for shape in shapes if shape.name == "b"]
        return [replace(shape, stages=(1, 2, 4, 6, 8, 12, 16, 24), variants=()) for shape in bare]
    if group == "short":
        return [Case("short", 64, 32, 8, 1, 500, 128)]
    return ragged("log-uniform", log_uniform(64, 95_000, 1)) + ragged("one long", (100_000, *(1000,) * 15))


GROUPS = ("shapes", "steps", "pages", "ragged", "fp8", "splits", "short", "little")


class Tensors:
    """Q, and the cache with its tables."""

    def __init__(self, case: Case):
        self.case = case
        on_gpu = {"device": "cuda", "dtype": torch.bfloat16}
        d, size = case.head_dim, case.page_size
        self.q = torch.randn(case.batch, case.heads, case.queries, d, **on_gpu)
        self.lengths = self.table = None
        if case.lengths:
            self.lengths = torch.tensor(case.lengths, device="cuda", dtype=torch.int32)
        batches, tokens = case.batch, case.keys
        if size:
            needed = [-(-length // size) for length in case.lengths or (case.keys,) * case.batch]
            order = torch.randperm(sum(needed), device="cuda", dtype=torch.int32).split(needed)
            self.table = torch.zeros(case.batch, max(needed), device="cuda", dtype=torch.int32)
            for row, pages in zip(self.table, order, strict=True):
                row[: len(pages)] = pages
            batches, tokens = sum(needed), size
        shape = (batches, case.kv_heads, tokens, d)
        self.scales = [None, None]
        self.k, self.v = (torch.randn(shape, **on_gpu) for _ in range(2))
        if case.fp8:
            self.scales = [x.abs().amax((0, 2, 3)).float().div(448).contiguous() for x in (self.k, self.v)]
            self.k, self.v = (
                (x / scale[:, None, None]).to(torch.float8_e4m3fn)
                for x, scale in zip((self.k, self.v), self.scales, strict=True)
            )

    def sequence(self, batch: int, kv_head: int) -> list[torch.Tensor]:
        """K and V of a head of a sequence, in float64."""
        length = self.case.lengths[batch] if self.case.lengths else self.case.keys
        found = []
        for cache, scale in zip((self.k, self.v), self.scales, strict=True):
            if self.table is None:
                rows = cache[batch, kv_head]
            else:
                pages = self.table[batch, : -(-length // self.case.page_size)].long()
                rows = cache[:, kv_head].view(torch.uint8 if self.case.fp8 else cache.dtype)[pages]
                rows = rows.view(cache.dtype).flatten(0, 1)
            wide = rows[:length].to(torch.float64)
            found.append(wide if scale is None else wide * scale[kv_head].double())
        return found

    def error(self, o: torch.Tensor) -> float:
        """The largest relative L2 error of O in the first and the last head; NaN counts as infinity."""
        case, errors = self.case, []
        for batch, head in ((0, 0), (case.batch - 1, case.heads - 1)):
            k, v = self.sequence(batch, head // (case.heads // case.kv_heads))
            s = self.q[batch, head].double() @ k.T * case.head_dim**-0.5
            query = torch.arange(case.queries, device="cuda")[:, None]
            key = torch.arange(len(k), device="cuda")
            s.masked_fill_(key > query + len(k) - case.queries, -torch.inf)
            right = torch.softmax(s, -1) @ v
            error = float((o[batch, head].double() - right).norm() / right.norm())
            errors.append(math.inf if math.isnan(error) else error)
        return max(errors)


class Ours:
    """A variant with its tensors."""

    def __init__(self, tensors: Tensors, variant: str, splits: int):
        case, q = tensors.case, tensors.q
        self.o = torch.full_like(q, float("nan"))
        self.lse = torch.full(q.shape[:3], float("nan"), dtype=torch.float32, device="cuda")

        def address(tensor: torch.Tensor | None) -> int | None:
            return None if tensor is None else tensor.data_ptr()

        self._cache = chapter_library.FaCache(
            key_lengths=address(tensors.lengths),
            block_table=address(tensors.table),
            k_scale=address(tensors.scales[0]),
            v_scale=address(tensors.scales[1]),
            page_size=case.page_size,
            pages=tensors.k.shape[0] if case.page_size else 0,
            table_columns=tensors.table.shape[1] if case.page_size else 0,
            splits=splits,
        )
        given = {"q": q, "k": tensors.k, "v": tensors.v, "o": self.o, "lse": self.lse}
        problem = chapter_library.describe(given, False, case.head_dim**-0.5)
        problem.seq_k = case.keys
        problem.cache = ctypes.addressof(self._cache)
        self._bound = chapter_library.load(CHAPTER).bind(variant, problem)
        self._stream = torch.cuda.current_stream().cuda_stream

    def __call__(self, _: int) -> torch.Tensor:
        self._bound.launch(self._stream)
        return self.o


def readers(tensors: Tensors) -> Iterator[tuple[str, Callable[[int], None]]]:
    """Functions that read as many bytes as the cache has: as fast as the GPU can, then with the case's
    stages. @throws FileNotFoundError  if the library is not built
    """
    path = Path(__file__).resolve().parents[2] / "build" / "cuda" / "lib" / "libread_roof.so"
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}: cmake --build --preset cuda --target read_roof")
    library = ctypes.CDLL(str(path))
    given = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    library.read_roof.argtypes = given
    library.read_with_stages.argtypes = [ctypes.c_int, *given]
    data = torch.randint(256, (tensors.case.cache_bytes // 16 * 16,), device="cuda", dtype=torch.uint8)
    never = torch.zeros(1, device="cuda", dtype=torch.int32)
    stream = torch.cuda.current_stream().cuda_stream

    def launch(function, *stages: int) -> None:
        if status := function(*stages, data.data_ptr(), data.numel(), never.data_ptr(), stream):
            raise RuntimeError(f"{path.name} failed with CUDA error {status}")

    yield "read", lambda _: launch(library.read_roof)
    for stages in tensors.case.stages:
        yield f"{4 * stages} KB in flight", lambda _, n=stages: launch(library.read_with_stages, n)


def sdpa(tensors: Tensors, backend) -> Callable[[int], torch.Tensor]:
    """A backend of PyTorch, for a contiguous cache and equal lengths. The queries are the last tokens."""
    q, k, v = tensors.q, tensors.k, tensors.v
    mask = None
    if tensors.case.queries > 1:
        from torch.nn.attention.bias import causal_lower_right

        mask = causal_lower_right(q.shape[2], k.shape[2])

    def launch(_: int) -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    return launch


def flash_attention_3(tensors: Tensors) -> Callable[[int], torch.Tensor]:
    """FlashAttention-3, which has tensors [batch, seq, heads, head_dim] and the same pages."""
    attention = importlib.import_module(FA3).flash_attn_with_kvcache
    case = tensors.case
    q, k, v = (x.transpose(1, 2) for x in (tensors.q, tensors.k, tensors.v))
    lengths = tensors.lengths
    if lengths is None:
        lengths = torch.full((case.batch,), case.keys, device="cuda", dtype=torch.int32)
    more = {} if tensors.table is None else {"page_table": tensors.table}

    def launch(_: int) -> torch.Tensor:
        o = attention(q, k, v, cache_seqlens=lengths, causal=True, **more)
        return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)

    return launch


def contenders(case: Case, tensors: Tensors, peers: bool) -> Iterator[tuple[str, int, Callable]]:
    """Name, the given number of splits (0: the model's), and a function that launches and returns O."""
    for variant in case.variants:
        for splits in (0, *case.splits):
            if splits and variant == "ampere":
                continue
            try:
                ours = Ours(tensors, variant, splits)
            except RuntimeError as refusal:
                print(f"  {variant} does not run: {refusal}", file=sys.stderr)
                break
            number = f" {splits} split" + "s" * (splits > 1) if splits else ""
            yield variant + number, splits, ours
    if not peers or case.fp8 or case.stages:
        return
    others: dict[str, Callable] = {"FlashAttention-3": flash_attention_3}
    if not case.page_size and not case.lengths:
        for name in ("flash (FA2)", "cuDNN"):
            others[name] = lambda of, backend=BACKENDS[name]: sdpa(of, backend)
    for name, bind in others.items():
        try:
            launch = bind(tensors)
            launch(0)
            torch.cuda.synchronize()
        except (RuntimeError, ImportError) as refusal:
            print(f"  {name} does not run: {str(refusal).splitlines()[0]}", file=sys.stderr)
            continue
        yield name, 0, launch


def run(case: Case, rounds: int, peers: bool) -> list[dict]:
    """The rows of a case; the first one is the roof."""
    tensors = Tensors(case)
    entries = list(contenders(case, tensors, peers))
    errors = [tensors.error(launch(0)) for _, _, launch in entries]
    bare = list(readers(tensors))
    times = time_in_turns([*(launch for _, launch in bare), *(launch for _, _, launch in entries)], rounds)
    medians = [statistics.median(ms) for ms in times]
    problem = {key: value for key, value in asdict(case).items() if key not in NOT_OF_THE_PROBLEM}
    rows = []
    for (name, splits, _), error, ms in zip(
        (*((name, 0, None) for name, _ in bare), *entries),
        (*(0.0 for _ in bare), *errors),
        medians,
        strict=True,
    ):
        rows.append(
            {
                **problem,
                "kernel": name,
                "splits": splits,
                "us": 1000 * ms,
                "tb_per_s": case.cache_bytes / ms / 1e9,
                "share_of_roof": medians[0] / ms,
                "rounds": rounds,
                "rel_l2": error,
                "right": error <= ERROR_LIMIT,
            }
        )
    return rows


def show(case: Case, rows: list[dict]) -> None:
    """A table of a case."""
    print(f"{case}", flush=True)
    print(f"  {'':28} {'us':>8} {'TB/s':>6} {'of roof':>8}")
    for row in rows:
        wrong = "" if row["right"] else f"  WRONG {row['rel_l2']:.1e}"
        figures = f"{row['us']:8.1f} {row['tb_per_s']:6.2f} {row['share_of_roof']:8.2f}"
        print(f"  {row['kernel']:28} {figures}{wrong}", flush=True)
    for variant in case.variants:
        model = [row for row in rows if row["kernel"] == variant]
        searched = [row for row in rows if row["kernel"].startswith(f"{variant} ") and row["splits"]]
        if model and searched:
            best = min(searched, key=lambda row: row["us"])
            ratio = model[0]["us"] / best["us"]
            print(f"  {variant}: the model's splits take {ratio:.2f} of the time of {best['splits']}")


def main() -> int:
    parser = Arguments(
        prog="decoding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", default="shapes", metavar="NAME,..")
    parser.add_argument("--shapes", default=",".join(SHAPES), metavar="a,b,..")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--rounds", type=at_least(1), default=9, metavar="R")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    groups, names = options.groups.split(","), options.shapes.split(",")
    for option, given, known in (("--groups", groups, GROUPS), ("--shapes", names, tuple(SHAPES))):
        if unknown := [name for name in given if name not in known]:
            print(f"decoding: {option} {unknown[0]}: must be of {', '.join(known)}", file=sys.stderr)
            return 2
    if not torch.cuda.is_available():
        print("decoding: PyTorch finds no GPU", file=sys.stderr)
        return 3
    torch.manual_seed(0)
    result = {
        "device": torch.cuda.get_device_name(),
        "machine": machine.gpu() | versions(),
        "commit": machine.output_of("git", "describe", "--always", "--dirty"),
        "timings": [],
    }
    print(result["device"], flush=True)
    try:
        for group in groups:
            for case in cases(group, names):
                rows = run(case, options.rounds, options.peers)
                show(case, rows)
                result["timings"] += [{"group": group, **row} for row in rows]
                result["machine_after"] = machine.gpu()
                machine.write_results(options.json, result)
                torch.cuda.empty_cache()
    except FileNotFoundError as missing:
        print(f"decoding: {missing}", file=sys.stderr)
        return 3
    return 0 if all(row["right"] for row in result["timings"]) else 1


if __name__ == "__main__":
    sys.exit(main())
