"""The kernels of chapters 07 and 08 in Triton: the same tiles, the same order, the same formulas.

    o, lse = forward(q, k, v, causal=True)
    dq, dk, dv = backward(do, q, k, v, o, lse, causal=True)

Tensors are contiguous: q, o, do [batch, heads, seq_q, head_dim], k, v [batch, kv_heads, seq_k, head_dim], lse
[batch, heads, seq_q] in float32. head_dim is a power of 2, 16 at least. With TRITON_INTERPRET=1, they run on
the CPU, in float32 and float16.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from . import checks

LOG2E = tl.constexpr(1.4426950408889634)  # e^x = 2^(x * log2 e)
LOWEST = tl.constexpr(-3.4028235e38)  # of float32
RESCALE_THRESHOLD = tl.constexpr(8.0)  # in powers of 2
LENGTHS = ["group", "seq_q", "seq_k"]  # one kernel for all of them

# --- what a program has in common with a block ---------------------------------------------------------


@triton.jit
def visible_keys(query, seq_q, seq_k, CAUSAL: tl.constexpr):
    """How many keys a query sees, which are the first ones. The mask is aligned to the bottom right."""
    seen = query * 0 + seq_k
    if CAUSAL:
        seen = tl.minimum(tl.maximum(query + 1 + seq_k - seq_q, 0), seq_k)
    return seen


@triton.jit
def load_rows(first, rows, length, HEAD_DIM: tl.constexpr):
    """Rows of a [length, HEAD_DIM] matrix, with zeros for those that do not exist."""
    cols = tl.arange(0, HEAD_DIM)
    inside = (rows < length)[:, None]
    return tl.load(first + rows[:, None] * HEAD_DIM + cols[None, :], inside, other=0.0)


@triton.jit
def store_rows(first, rows, length, values, HEAD_DIM: tl.constexpr):
    """Rounds to the matrix's type and stores the rows that exist."""
    cols = tl.arange(0, HEAD_DIM)
    inside = (rows < length)[:, None]
    rounded = values.to(first.dtype.element_ty)
    tl.store(first + rows[:, None] * HEAD_DIM + cols[None, :], rounded, inside)


@triton.jit
def product(a, b):
    """A B with sums in float32, and without rounding float32 to TF32."""
    return tl.dot(a, b, input_precision="ieee")


# --- forward -------------------------------------------------------------------------------------------


@triton.jit
def add_key_tile(
    o,
    m,
    l,
    q,
    gK,
    gV,
    first_key,
    seen,
    seq_k,
    factor,
    MASKED: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    Bc: tl.constexpr,
):
    """One step of the online softmax: a tile of keys, all queries of the block."""
    keys = first_key + tl.arange(0, Bc)
    k = load_rows(gK, keys, seq_k, HEAD_DIM)
    s = product(q, tl.trans(k))
    if MASKED:
        s = tl.where(keys[None, :] < seen[:, None], s, -float("inf"))
    top = tl.max(s, 1) * factor
    if tl.max(top - m, 0) > RESCALE_THRESHOLD:  # lazy rescaling
        m_new = tl.maximum(m, top)
        correction = tl.exp2(m - m_new)
        l = l * correction
        o = o * correction[:, None]
        m = m_new
    p = tl.exp2(s * factor - m[:, None])
    l += tl.sum(p, 1)
    v = load_rows(gV, keys, seq_k, HEAD_DIM)
    o += product(p.to(v.dtype), v)
    return o, m, l


@triton.jit(do_not_specialize=LENGTHS)
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    group,
    seq_q,
    seq_k,
    scale,
    CAUSAL: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    Br: tl.constexpr,
    Bc: tl.constexpr,
):
    """O and LSE of a tile of queries. Grid: batch * heads * ceil(seq_q / Br)."""
    query_tiles = tl.cdiv(seq_q, Br)
    head = (tl.program_id(0) // query_tiles).to(tl.int64)
    first_query = (query_tiles - 1 - tl.program_id(0) % query_tiles) * Br
    queries = first_query + tl.arange(0, Br)
    gK = k_ptr + head // group * seq_k * HEAD_DIM
    gV = v_ptr + head // group * seq_k * HEAD_DIM
    factor = scale * LOG2E

    seen = visible_keys(queries, seq_q, seq_k, CAUSAL)
    last_query = tl.minimum(first_query + Br, seq_q) - 1
    seen_by_first = visible_keys(first_query, seq_q, seq_k, CAUSAL)
    seen_by_last = visible_keys(last_query, seq_q, seq_k, CAUSAL)
    tiles = tl.cdiv(seen_by_last, Bc)
    first_masked = tl.minimum(seen_by_first, seen_by_last) // Bc

    q = load_rows(q_ptr + head * seq_q * HEAD_DIM, queries, seq_q, HEAD_DIM)
    o = tl.zeros([Br, HEAD_DIM], tl.float32)
    m = tl.full([Br], LOWEST, tl.float32)
    l = tl.zeros([Br], tl.float32)
    for n in range(tiles - first_masked):  # from the last tile to the first
        first_key = (tiles - 1 - n) * Bc
        o, m, l = add_key_tile(o, m, l, q, gK, gV, first_key, seen, seq_k, factor, True, HEAD_DIM, Bc)
    for n in range(first_masked):  # every row sees every key
        first_key = (first_masked - 1 - n) * Bc
        o, m, l = add_key_tile(o, m, l, q, gK, gV, first_key, seen, seq_k, factor, False, HEAD_DIM, Bc)

    empty = l == 0.0  # the row sees no key
    o = o / tl.where(empty, 1.0, l)[:, None]
    store_rows(o_ptr + head * seq_q * HEAD_DIM, queries, seq_q, o, HEAD_DIM)
    lse = (m + tl.log2(tl.where(empty, 1.0, l))) / LOG2E
    lse = tl.where(empty, -float("inf"), lse)
    tl.store(lse_ptr + head * seq_q + queries, lse, queries < seq_q)


# --- backward ------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["rows"])
def delta_kernel(do_ptr, o_ptr, delta_ptr, rows, HEAD_DIM: tl.constexpr, Br: tl.constexpr):
    """delta = rowsum(dO * O), the papers' D. Grid: ceil(batch * heads * seq_q / Br)."""
    row = tl.program_id(0).to(tl.int64) * Br + tl.arange(0, Br)
    d_o = load_rows(do_ptr, row, rows, HEAD_DIM).to(tl.float32)
    o = load_rows(o_ptr, row, rows, HEAD_DIM).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(d_o * o, 1), row < rows)


@triton.jit(do_not_specialize=LENGTHS)
def key_gradients_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    do_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    group,
    seq_q,
    seq_k,
    scale,
    CAUSAL: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    Br: tl.constexpr,
    Bc: tl.constexpr,
):
    """dK and dV of a tile of keys. Grid: batch * kv_heads * ceil(seq_k / Bc)."""
    key_tiles = tl.cdiv(seq_k, Bc)
    kv_head = (tl.program_id(0) // key_tiles).to(tl.int64)
    first_key = tl.program_id(0) % key_tiles * Bc
    keys = first_key + tl.arange(0, Bc)
    factor = scale * LOG2E
    first_tile = 0
    if CAUSAL:  # the first query that sees a key of the tile
        first_tile = tl.maximum(first_key - seq_k + seq_q, 0) // Br

    k = load_rows(k_ptr + kv_head * seq_k * HEAD_DIM, keys, seq_k, HEAD_DIM)
    v = load_rows(v_ptr + kv_head * seq_k * HEAD_DIM, keys, seq_k, HEAD_DIM)
    dk = tl.zeros([Bc, HEAD_DIM], tl.float32)
    dv = tl.zeros([Bc, HEAD_DIM], tl.float32)
    for of_group in range(group):
        head = kv_head * group + of_group
        for tile in range(first_tile, tl.cdiv(seq_q, Br)):
            queries = tile * Br + tl.arange(0, Br)
            inside = queries < seq_q
            q = load_rows(q_ptr + head * seq_q * HEAD_DIM, queries, seq_q, HEAD_DIM)
            d_o = load_rows(do_ptr + head * seq_q * HEAD_DIM, queries, seq_q, HEAD_DIM)
            lse = tl.load(lse_ptr + head * seq_q + queries, inside, other=0.0)
            delta = tl.load(delta_ptr + head * seq_q + queries, inside, other=0.0)

            s = product(k, tl.trans(q))  # S^T
            p = tl.exp2(s * factor - lse[None, :] * LOG2E)
            seen = visible_keys(queries, seq_q, seq_k, CAUSAL)
            hidden = (keys[:, None] >= seen[None, :]) | (queries[None, :] >= seq_q)
            p = tl.where(hidden, 0.0, p)  # also where LSE = -inf, and P is infinite
            dp = product(v, tl.trans(d_o))
            ds = p * (dp - delta[None, :])
            dv += product(p.to(d_o.dtype), d_o)
            dk += product(ds.to(q.dtype), q)

    store_rows(dk_ptr + kv_head * seq_k * HEAD_DIM, keys, seq_k, dk * scale, HEAD_DIM)
    store_rows(dv_ptr + kv_head * seq_k * HEAD_DIM, keys, seq_k, dv, HEAD_DIM)


@triton.jit(do_not_specialize=LENGTHS)
def query_gradients_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    do_ptr,
    lse_ptr,
    delta_ptr,
    dq_ptr,
    group,
    seq_q,
    seq_k,
    scale,
    CAUSAL: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    Br: tl.constexpr,
    Bc: tl.constexpr,
):
    """dQ of a tile of queries. Grid: batch * heads * ceil(seq_q / Br)."""
    query_tiles = tl.cdiv(seq_q, Br)
    head = (tl.program_id(0) // query_tiles).to(tl.int64)
    first_query = (query_tiles - 1 - tl.program_id(0) % query_tiles) * Br
    queries = first_query + tl.arange(0, Br)
    inside = queries < seq_q
    gK = k_ptr + head // group * seq_k * HEAD_DIM
    gV = v_ptr + head // group * seq_k * HEAD_DIM
    factor = scale * LOG2E
    seen = visible_keys(queries, seq_q, seq_k, CAUSAL)
    last_query = tl.minimum(first_query + Br, seq_q) - 1

    q = load_rows(q_ptr + head * seq_q * HEAD_DIM, queries, seq_q, HEAD_DIM)
    d_o = load_rows(do_ptr + head * seq_q * HEAD_DIM, queries, seq_q, HEAD_DIM)
    lse = tl.load(lse_ptr + head * seq_q + queries, inside, other=0.0)
    delta = tl.load(delta_ptr + head * seq_q + queries, inside, other=0.0)
    dq = tl.zeros([Br, HEAD_DIM], tl.float32)
    for tile in range(tl.cdiv(visible_keys(last_query, seq_q, seq_k, CAUSAL), Bc)):
        keys = tile * Bc + tl.arange(0, Bc)
        k = load_rows(gK, keys, seq_k, HEAD_DIM)
        v = load_rows(gV, keys, seq_k, HEAD_DIM)
        s = product(q, tl.trans(k))
        p = tl.exp2(s * factor - lse[:, None] * LOG2E)
        p = tl.where(keys[None, :] < seen[:, None], p, 0.0)
        dp = product(d_o, tl.trans(v))
        ds = p * (dp - delta[:, None])
        dq += product(ds.to(k.dtype), k)
    store_rows(dq_ptr + head * seq_q * HEAD_DIM, queries, seq_q, dq * scale, HEAD_DIM)


# --- launches ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tile:
    """Queries and keys of a tile, warps of a block, and how many key tiles are in flight or in use."""

    Br: int
    Bc: int
    warps: int
    stages: int


# By bytes of an element, and head_dim up to this. Rows are as in chapters 07 and 08 where a block's shared
# memory suffices.
FORWARD_TILES = {
    (2, 64): Tile(128, 64, 4, 3),
    (2, 128): Tile(128, 64, 8, 3),
    (2, 256): Tile(64, 64, 8, 2),
    (4, 64): Tile(64, 32, 8, 2),
    (4, 256): Tile(32, 32, 8, 1),
}
BACKWARD_TILES = {
    (2, 64): Tile(64, 64, 4, 2),
    (2, 128): Tile(64, 64, 8, 2),
    (2, 256): Tile(64, 32, 8, 1),
    (4, 64): Tile(32, 32, 4, 1),
    (4, 256): Tile(16, 16, 4, 1),
}


def tile_for(tiles: dict, q: torch.Tensor) -> Tile:
    """The first tile that is meant for such queries. @throws ValueError"""
    size, head_dim = q.element_size(), q.shape[3]
    for (of_size, most), tile in tiles.items():
        if size == of_size and head_dim <= most:
            return tile
    raise ValueError(f"head_dim is {head_dim}: the Triton kernels have tiles up to 256")


def _require_contiguous(**tensors: torch.Tensor):
    """Raises one sentence unless all of them are."""
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"{name} is not contiguous, its strides are {list(tensor.stride())}: pass {name}.contiguous()"
            )


def _require_problem(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float):
    """Raises one sentence unless the kernels can run."""
    checks.require_problem(q, k, v, scale)
    _require_contiguous(query=q, key=k, value=v)
    head_dim = q.shape[3]
    if head_dim < 16 or head_dim & (head_dim - 1):
        raise ValueError(f"head_dim is {head_dim}: the Triton kernels take powers of 2 from 16 on")
    if q.device.type == "cuda":
        return
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"query is on {q.device}: Triton needs cuda, or TRITON_INTERPRET=1 in the environment"
        )
    if q.dtype == torch.bfloat16:  # its tl.dot multiplies their bits as integers
        raise TypeError("query is torch.bfloat16: Triton's interpreter takes float32 and float16")


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    tile: Tile | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE. @throws ValueError, TypeError  one sentence that says what would be right"""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    _require_problem(q, k, v, scale)
    tile = tile or tile_for(FORWARD_TILES, q)
    batch, heads, seq_q, head_dim = q.shape
    o = torch.empty_like(q)
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    forward_kernel[(batch * heads * triton.cdiv(seq_q, tile.Br),)](
        q,
        k,
        v,
        o,
        lse,
        heads // max(k.shape[1], 1),  # without heads, no program runs
        seq_q,
        k.shape[2],
        scale,
        CAUSAL=causal,
        HEAD_DIM=head_dim,
        Br=tile.Br,
        Bc=tile.Bc,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return o, lse


def backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    tile: Tile | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV, with the same bits in every run: no atomic additions, as in mma_deterministic."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    _require_problem(q, k, v, scale)
    checks.require_results(q, do, o, lse)
    _require_contiguous(do=do, o=o)
    tile = tile or tile_for(BACKWARD_TILES, q)
    batch, heads, seq_q, head_dim = q.shape
    kv_heads, seq_k = k.shape[1:3]
    delta = torch.empty_like(lse)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    rows = batch * heads * seq_q
    delta_kernel[(triton.cdiv(rows, tile.Br),)](do, o, delta, rows, HEAD_DIM=head_dim, Br=tile.Br)
    lengths = (heads // max(kv_heads, 1), seq_q, seq_k, scale)
    constants = {"CAUSAL": causal, "HEAD_DIM": head_dim, "Br": tile.Br, "Bc": tile.Bc}
    constants |= {"num_warps": tile.warps, "num_stages": tile.stages}
    inputs = (q, k, v, do, lse, delta)
    key_gradients_kernel[(batch * kv_heads * triton.cdiv(seq_k, tile.Bc),)](
        *inputs, dk, dv, *lengths, **constants
    )
    query_gradients_kernel[(batch * heads * triton.cdiv(seq_q, tile.Br),)](*inputs, dq, *lengths, **constants)
    return dq, dk, dv
