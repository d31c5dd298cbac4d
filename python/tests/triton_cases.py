"""What test_triton.py runs in a process of its own, with TRITON_INTERPRET=1."""

from __future__ import annotations

import random
import unittest

import torch
from fa_tutorial import triton_attention

from . import reference


class Cases(unittest.TestCase):
    device: str
    dtypes: tuple[torch.dtype, ...]
    tile: triton_attention.Tile | None  # None: those of the kernels
    head_dims: tuple[int, ...]

    def setUp(self):
        torch.manual_seed(0)

    def compare(self, dtype, heads, kv_heads, seq_q, seq_k, head_dim, causal, scale):
        what = (dtype, heads, kv_heads, seq_q, seq_k, head_dim, causal, scale)
        q, k, v, do = (
            torch.randn(shape, device=self.device).to(dtype)
            for shape in (
                (2, heads, seq_q, head_dim),
                (2, kv_heads, seq_k, head_dim),
                (2, kv_heads, seq_k, head_dim),
                (2, heads, seq_q, head_dim),
            )
        )
        options = {"causal": causal, "scale": scale, "tile": self.tile}
        o, lse = triton_attention.forward(q, k, v, **options)
        gradients = triton_attention.backward(do, q, k, v, o, lse, **options)
        expected = reference.attention(q, k, v, do, causal, scale or head_dim**-0.5)
        found = dict(zip(("dq", "dk", "dv"), gradients, strict=True))
        for name, computed in (found | {"o": o, "lse": lse}).items():
            self.assertEqual(reference.complaint(expected, name, computed), "", what)

    def one_of_each(self):
        small, *_, large = self.head_dims
        for dtype in self.dtypes:
            self.compare(dtype, 4, 2, 37, 70, small, True, None)
            self.compare(dtype, 2, 2, 40, 9, large, True, 1.0)  # rows that see no key
            self.compare(dtype, 3, 1, 33, 50, small, False, 0.05)

    def empty(self):
        """No batch, no query, or no key."""
        for batch, heads, seq_q, seq_k in ((0, 2, 5, 5), (2, 0, 5, 5), (2, 2, 0, 5), (2, 2, 5, 0)):
            q = torch.randn(batch, heads, seq_q, 32, device=self.device)
            k = torch.randn(batch, heads, seq_k, 32, device=self.device)
            o, lse = triton_attention.forward(q, k, k, causal=True, tile=self.tile)
            results = triton_attention.backward(q, q, k, k, o, lse, causal=True, tile=self.tile)
            for found, given in zip((o, *results), (q, q, k, k), strict=True):
                self.assertTrue(torch.equal(found, torch.zeros_like(given)))
            self.assertTrue(torch.equal(lse, torch.full_like(lse, -torch.inf)))

    def large_logits(self):
        """The maximum grows by more than the threshold of the lazy rescaling, and by less."""
        self.compare(self.dtypes[0], 1, 1, 40, 80, self.head_dims[0], True, 3.0)

    def random_sizes(self, count: int, longest: int):
        choose = random.Random(2)
        for _ in range(count):
            kv_heads = choose.choice((1, 2))
            self.compare(
                choose.choice(self.dtypes),
                kv_heads * choose.choice((1, 2, 3)),
                kv_heads,
                choose.randint(1, longest),
                choose.randint(1, longest),
                choose.choice(self.head_dims),
                choose.random() < 0.5,
                choose.choice((None, 0.3)),
            )

    def refuses(self, error: type, words: str, *given):
        with self.assertRaisesRegex(error, words) as raised:
            triton_attention.forward(*given)
        self.assertNotIn("\n", str(raised.exception))

    def bad_input(self):
        good = torch.zeros(1, 2, 3, 32, device=self.device)
        for head_dim, words in (
            (8, "powers of 2 from 16 on"),
            (48, "powers of 2 from 16 on"),
            (512, "tiles up to 256"),
        ):
            bad = 3 * [torch.zeros(1, 2, 3, head_dim, device=self.device)]
            self.refuses(ValueError, f"head_dim is {head_dim}: .* {words}", *bad)
        three = torch.zeros(1, 3, 3, 32, device=self.device)
        self.refuses(ValueError, "multiple", three, good, good)
        self.refuses(ValueError, "not contiguous", *3 * [good.transpose(1, 2)])
        self.refuses(ValueError, "above 0", good, good, good, False, 0.0)
        o, lse = triton_attention.forward(good, good, good)
        with self.assertRaisesRegex(ValueError, "the gradient is .* must be"):
            triton_attention.backward(good.half(), good, good, good, o, lse)
        expanded = good.new_ones(()).expand(good.shape)
        with self.assertRaisesRegex(ValueError, r"pass do.contiguous\(\)"):
            triton_attention.backward(expanded, good, good, good, o, lse)


class Interpreted(Cases):
    device = "cpu"
    dtypes = (torch.float32, torch.float16)
    tile = triton_attention.Tile(Br=32, Bc=16, warps=4, stages=1)
    head_dims = (32, 16, 64)

    def test_one_of_each(self):
        self.one_of_each()

    def test_empty(self):
        self.empty()

    def test_large_logits(self):
        self.large_logits()

    def test_random_sizes(self):
        self.random_sizes(12, longest=70)

    def test_bad_input(self):
        self.bad_input()
        good = 3 * [torch.zeros(1, 2, 3, 32).bfloat16()]
        self.refuses(TypeError, "interpreter takes float32", *good)


if __name__ == "__main__":
    unittest.main()
