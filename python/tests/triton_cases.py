"""What test_triton.py runs in a process of its own, with TRITON_INTERPRET=1."""

from __future__ import annotations

import random
import unittest

import torch
from fa_tutorial import triton_attention

from . import reference


class Interpreted(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def compare(self, dtype, heads, kv_heads, seq_q, seq_k, head_dim, causal, scale):
        what = (dtype, heads, kv_heads, seq_q, seq_k, head_dim, causal, scale)
        q = torch.randn(2, heads, seq_q, head_dim).to(dtype)
        k, v = (torch.randn(2, kv_heads, seq_k, head_dim).to(dtype) for _ in "kv")
        do = torch.randn(2, seq_q, heads, head_dim).to(dtype).transpose(1, 2)
        options = {"causal": causal, "scale": scale, "Br": 32, "Bc": 16}
        o, lse = triton_attention.forward(q, k, v, **options)
        gradients = triton_attention.backward(do, q, k, v, o, lse, **options)
        expected = reference.attention(q, k, v, do, causal, scale or head_dim**-0.5)
        found = dict(zip(("dq", "dk", "dv"), gradients, strict=True))
        for name, computed in (found | {"o": o, "lse": lse}).items():
            self.assertEqual(reference.complaint(expected, name, computed), "", what)

    def test_one_of_each(self):
        for dtype in (torch.float32, torch.float16):
            self.compare(dtype, 4, 2, 37, 70, 32, True, None)
            self.compare(dtype, 2, 2, 40, 9, 64, True, 1.0)  # rows that see no key
            self.compare(dtype, 3, 1, 33, 50, 16, False, 0.05)

    def test_large_logits(self):
        """The maximum grows by more than the threshold of the lazy rescaling, and by less."""
        self.compare(torch.float32, 1, 1, 40, 80, 32, True, 3.0)

    def test_random_sizes(self):
        choose = random.Random(2)
        for _ in range(12):
            kv_heads = choose.choice((1, 2))
            self.compare(
                choose.choice((torch.float32, torch.float16)),
                kv_heads * choose.choice((1, 2, 3)),
                kv_heads,
                choose.randint(1, 70),
                choose.randint(1, 70),
                choose.choice((16, 32, 64)),
                choose.random() < 0.5,
                choose.choice((None, 0.3)),
            )

    def test_bad_input(self):
        def refuses(error: type, words: str, *given):
            with self.assertRaisesRegex(error, words) as raised:
                triton_attention.forward(*given)
            self.assertNotIn("\n", str(raised.exception))

        good = torch.zeros(1, 2, 3, 32)
        refuses(TypeError, "interpreter takes float32", *3 * [good.bfloat16()])
        for head_dim in (8, 48):
            words = f"head_dim is {head_dim}: .* powers of 2 from 16 on"
            refuses(ValueError, words, *3 * [torch.zeros(1, 2, 3, head_dim)])
        refuses(ValueError, "multiple", torch.zeros(1, 3, 3, 32), good, good)
        refuses(ValueError, "not contiguous", good.transpose(1, 2), good, good)
        refuses(ValueError, "above 0", good, good, good, False, 0.0)
        o, lse = triton_attention.forward(good, good, good)
        with self.assertRaisesRegex(ValueError, "the gradient is .* must be"):
            triton_attention.backward(good.half(), good, good, good, o, lse)


if __name__ == "__main__":
    unittest.main()
