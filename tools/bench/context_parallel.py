"""Times PyTorch's context_parallel on the GPUs of this host: one process for each, started by mpirun.

    mpirun -n R python3 -m tools.bench.context_parallel --tokens N [--causal] [--heads H] [--head-dim D]
    [--repeat R]

Rank 0 prints one JSON object: the milliseconds of the slowest rank, for each way to exchange keys and each
kernel that runs.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import statistics
import sys

from ..options import Arguments, at_least, needs_pytorch

needs_pytorch()
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import _cp_options, set_rotate_method
from torch.nn.attention import SDPBackend, sdpa_kernel

KERNELS = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
WAYS = {"ring": "alltoall", "all-gather": "allgather"}


def times_of(run, repeat: int) -> list[float]:
    """Milliseconds of the slowest rank, repeat by repeat. The host is ahead of the GPUs, as in chapter 13's
    bench.
    """
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeat + 1)]
    torch.cuda.synchronize()
    dist.barrier()
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    times = [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]
    slowest = torch.tensor(times, device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.tolist()


def timed(run, repeat: int) -> float:
    """Their median, once the clocks have settled."""
    warm_up = min(max(int(1500 / times_of(run, 3)[-1]), 3), 3000)
    return statistics.median(times_of(run, warm_up + repeat)[warm_up:])


def main() -> int:
    parser = Arguments()
    parser.add_argument("--tokens", type=at_least(1), required=True, help="of each GPU")
    parser.add_argument("--heads", type=at_least(1), default=16)
    parser.add_argument("--head-dim", type=at_least(1), default=128)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--repeat", type=at_least(1), default=20)
    args = parser.parse_args()
    rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    torch.cuda.set_device(int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29513")
    dist.init_process_group("nccl", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60))
    _cp_options.enable_load_balance = args.causal  # it refuses it without a mask
    mesh = init_device_mesh("cuda", (ranks,), mesh_dim_names=("cp",))

    shape = (1, args.heads, args.tokens, args.head_dim)
    q, k, v, d_o = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    whole = torch.zeros(ranks * args.tokens, device="cuda")  # it wants a tensor to divide
    results: dict = {}
    for way, method in WAYS.items():
        for kernel, backend in KERNELS.items():

            def forward():
                return F.scaled_dot_product_attention(q, k, v, is_causal=args.causal)

            def both():
                torch.autograd.grad(forward(), (q, k, v), d_o)

            def forward_only():
                with torch.no_grad():
                    forward()

            try:
                set_rotate_method(method)
                with sdpa_kernel(backend), context_parallel(mesh, buffers=[whole], buffer_seq_dims=[0]):
                    results[f"{way}, {kernel}"] = {
                        "forward": timed(forward_only, args.repeat),
                        "both": timed(both, args.repeat),
                    }
            except (RuntimeError, NotImplementedError, AssertionError, TypeError) as error:
                if rank == 0:
                    print(f"{way}, {kernel}: {str(error).splitlines()[0]}", file=sys.stderr)
    if rank == 0:
        print(json.dumps(results))
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
