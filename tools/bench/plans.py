"""What bench.py and attention.py time: points of a grid, and the kernels that run on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """A problem to time."""

    dtype: str
    batch: int
    heads: int
    seq: int
    head_dim: int
    causal: bool
    backward: bool = False
    layout: str = "bhsd"  # or bshd: [batch, seq, heads, head_dim] in memory
    kv_heads: int = 0  # of K and V; 0: as many as Q has

    def __str__(self) -> str:
        causal = "causal" if self.causal else "full"
        which = " backward" if self.backward else ""
        layout = "" if self.layout == "bhsd" else f" {self.layout}"
        heads = f"{self.heads}/{self.kv_heads}" if self.kv_heads else str(self.heads)
        return f"{self.dtype} [{self.batch},{heads},{self.seq},{self.head_dim}] {causal}{which}{layout}"

    @property
    def heads_of_tensors(self) -> list[int]:
        """The heads of Q, K and V, and of dO for a backward pass."""
        kv_heads = self.kv_heads or self.heads
        return [self.heads, kv_heads, kv_heads] + [self.heads] * self.backward

    @property
    def flops(self) -> float:
        full = 4.0 * self.batch * self.heads * self.seq**2 * self.head_dim
        of_pass = 2.5 * full if self.backward else full
        return of_pass / 2 if self.causal else of_pass


@dataclass(frozen=True)
class Plan:
    """Points, and the kernels that run on them. A chapter with None runs all of its variants."""

    points: list[Point]
    ours: list[tuple[str, list[str] | None]]
    peers: list[str]
    in_grid: bool = True  # of ./learn bench, if it is about final variants


STANDARD = ("03_one_pass_attention", ["three_kernels"])  # standard attention
FINALS_FP32 = [STANDARD, ("04_tiled_v1", ["warp_per_rows"]), ("05_loop_swapped_v2", ["register_tiled"])]
# Chapters 09 and 10 run on compute capability 9.0 alone.
FINALS_16_BIT = [
    ("06_tensor_core_mma", ["exp2"]),
    ("07_multi_stage", ["final"]),
    ("09_hopper", ["final", "no_maximum"]),
]
FINALS_ALL_SIZES = [("07_multi_stage", ["final"]), ("09_hopper", ["final"])]
BACKWARD_16_BIT = [
    ("08_backward", ["mma_fused", "mma_pipelined", "mma_deterministic"]),
    ("10_hopper_backward", ["final", "deterministic"]),
]
BACKWARD_LADDER = [("08_backward", ["mma_pipelined"]), ("10_hopper_backward", None)]
FLASH_ATTENTION_3_AND_4 = ["FlashAttention-3", "FlashAttention-4"]  # of compute capability 9.0
HOPPER_PEERS = ["cuDNN", *FLASH_ATTENTION_3_AND_4]
PEERS_16_BIT = ["flash (FA2)", "cuDNN", "memory-efficient", "Triton", *FLASH_ATTENTION_3_AND_4]


def constant_tokens(head_dim: int, lengths: list[int], backward: bool = False) -> list[Point]:
    """The papers' grid: batch * seq = 16384, heads * head_dim = 2048, bf16."""
    return [
        Point("bf16", 16384 // seq, 2048 // head_dim, seq, head_dim, causal, backward)
        for seq in lengths
        for causal in (False, True)
    ]


def fp32(*shapes: tuple[int, int, int, int]) -> list[Point]:
    return [Point("fp32", *shape, causal) for shape in shapes for causal in (False, True)]


def layouts(backward: bool) -> list[Point]:
    """Each problem in both layouts."""
    return [
        Point("bf16", 4, 2048 // d, 4096, d, causal, backward, layout)
        for d in (64, 128)
        for causal in (False, True)
        for layout in ("bhsd", "bshd")
    ]


def off_grid(backward: bool, *head_dims: int) -> list[Point]:
    """Shapes that are no multiples of a tile, with as many tokens as a layer of a model has."""
    shapes = [
        (8, 32, 2000, 128, 8),
        (1, 16, 4097, 128, 0),
        (2, 16, 8192, 128, 0),
        (1, 16, 16384, 128, 0),
        (16, 16, 1024, 128, 0),
        (2, 24, 3333, 64, 0),
        (2, 32, 8192, 64, 0),
        (16, 32, 1000, 64, 0),
        (4, 20, 1500, 96, 0),
        (4, 12, 2047, 256, 0),
        (2, 8, 8192, 256, 0),
    ]
    return [
        Point("bf16", batch, heads, seq, head_dim, causal, backward, kv_heads=kv_heads)
        for batch, heads, seq, head_dim, kv_heads in shapes
        for causal in (False, True)
        if head_dim in head_dims
    ]


WIDTHS = [72, 80, 96, 112, 160, 192]
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
HOPPER_LENGTHS = [1024, 4096, 16384]
PLANS = {
    "fp32": Plan(
        fp32((8, 16, 1024, 64), (4, 16, 4096, 64), (32, 8, 1024, 128), (32, 8, 256, 256), (32, 8, 1024, 256)),
        FINALS_FP32,
        ["memory-efficient", "unfused"],
    ),
    "fp32_ladder": Plan(
        [Point("fp32", *shape, False) for shape in ((8, 16, 1024, 64), (32, 8, 1024, 128))],
        [("03_one_pass_attention", None), ("04_tiled_v1", None), ("05_loop_swapped_v2", None)],
        ["memory-efficient"],
    ),
    "d64": Plan(constant_tokens(64, LENGTHS), [STANDARD, *FINALS_16_BIT], PEERS_16_BIT),
    "d128": Plan(constant_tokens(128, LENGTHS), [STANDARD, *FINALS_16_BIT], PEERS_16_BIT),
    "d256": Plan(constant_tokens(256, LENGTHS[1:]), FINALS_ALL_SIZES, PEERS_16_BIT),
    "ladder": Plan(
        constant_tokens(64, [4096]) + constant_tokens(128, [4096]),
        [STANDARD, ("06_tensor_core_mma", None), ("07_multi_stage", None)],
        ["flash (FA2)", "cuDNN"],
    ),
    "hopper_ladder": Plan(
        constant_tokens(64, HOPPER_LENGTHS) + constant_tokens(128, HOPPER_LENGTHS),
        [("07_multi_stage", ["two_rows_of_mma", "final"]), ("09_hopper", None)],
        ["flash (FA2)", "cuDNN"],
    ),
    "backward_fp32": Plan(
        [
            Point("fp32", *shape, causal, True)
            for shape in ((8, 16, 1024, 64), (4, 16, 4096, 64), (32, 8, 1024, 128))
            for causal in (False, True)
        ],
        [("08_backward", ["standard", "fp32_two_kernels", "fp32_fused"])],
        ["memory-efficient", "unfused"],
    ),
    "backward_d64": Plan(constant_tokens(64, LENGTHS, True), BACKWARD_16_BIT, PEERS_16_BIT),
    "backward_d128": Plan(constant_tokens(128, LENGTHS, True), BACKWARD_16_BIT, PEERS_16_BIT),
    "hopper_backward_d64": Plan(
        constant_tokens(64, HOPPER_LENGTHS, True), BACKWARD_LADDER, ["flash (FA2)", "cuDNN"]
    ),
    "hopper_backward_d128": Plan(
        constant_tokens(128, HOPPER_LENGTHS, True), BACKWARD_LADDER, ["flash (FA2)", "cuDNN"]
    ),
    "hopper_backward_d256": Plan(
        constant_tokens(256, HOPPER_LENGTHS, True),
        [("10_hopper_backward", ["final"])],
        ["flash (FA2)", "cuDNN"],
    ),
    "head_dims": Plan(
        [point for d in WIDTHS for point in constant_tokens(d, [4096])],
        [("09_hopper", ["final", "no_maximum"])],
        ["flash (FA2)", "cuDNN"],
        in_grid=False,
    ),
    "head_dims_backward": Plan(
        [point for d in WIDTHS for point in constant_tokens(d, [4096], True)],
        [("10_hopper_backward", ["final", "deterministic"])],
        ["flash (FA2)", "cuDNN"],
        in_grid=False,
    ),
    "off_grid": Plan(
        off_grid(False, 64, 96, 128), [("09_hopper", ["final", "no_maximum"])], HOPPER_PEERS, in_grid=False
    ),
    "off_grid_d256": Plan(off_grid(False, 256), [("09_hopper", ["final"])], HOPPER_PEERS, in_grid=False),
    "off_grid_backward": Plan(
        off_grid(True, 64, 96, 128),
        [("10_hopper_backward", ["final", "deterministic"])],
        HOPPER_PEERS,
        in_grid=False,
    ),
    "off_grid_backward_d256": Plan(
        off_grid(True, 256), [("10_hopper_backward", ["final", "deterministic"])], HOPPER_PEERS, in_grid=False
    ),
    "layouts": Plan(layouts(False), [("09_hopper", ["final"])], ["cuDNN"], in_grid=False),
    "layouts_backward": Plan(layouts(True), [("10_hopper_backward", ["final"])], ["cuDNN"], in_grid=False),
    "triton": Plan(
        constant_tokens(64, [4096]) + constant_tokens(128, [4096]),
        [("07_multi_stage", ["final"])],
        ["flash (FA2)", "Triton"],
        in_grid=False,
    ),
    "triton_backward": Plan(
        constant_tokens(64, [4096], True) + constant_tokens(128, [4096], True),
        [("08_backward", ["mma_pipelined", "mma_deterministic"])],
        ["flash (FA2)", "Triton"],
        in_grid=False,
    ),
    "fp16": Plan(
        [Point("fp16", 32, 8, 1024, 128, False)],
        [("06_tensor_core_mma", ["exp2"]), *FINALS_ALL_SIZES],
        PEERS_16_BIT,
    ),
}
