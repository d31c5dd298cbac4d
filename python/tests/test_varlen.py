"""fa_tutorial.attention_varlen() on the CPU, compared with float64: python -m unittest tests.test_varlen, in
python/.

Needs PyTorch, and the programs of the chapters in build/sim.
"""

from __future__ import annotations

import random
import unittest
from itertools import pairwise

import fa_tutorial
import torch

from . import masked_calls, reference
from .test_operators import CALLS, OnDevice


def ends(lengths: list[int], device: str, dtype=torch.int32) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(device, dtype)


class Varlen(OnDevice):
    longest = 90

    def setUp(self):
        torch.manual_seed(0)

    def tensors(self, queries: int, keys: int, heads=4, kv_heads=2, head_dim=64, dtype=torch.bfloat16):
        """Q, K, V and dO: [tokens, heads, head_dim]."""
        sizes = ((queries, heads), (keys, kv_heads), (keys, kv_heads), (queries, heads))
        drawn = [torch.randn(*size, head_dim, device=self.device).to(dtype) for size in sizes]
        return [*(x.requires_grad_() for x in drawn[:3]), drawn[3]]

    def agrees(
        self, lengths_q: list[int], lengths_k: list[int] | None = None, given=None, what=None, **arguments
    ):
        """Compares O, LSE and the gradients of each sequence."""
        of_keys = lengths_q if lengths_k is None else lengths_k
        q, k, v, do = given or self.tensors(sum(lengths_q), sum(of_keys))
        inputs, cu = (q, k, v), [ends(lengths_q, self.device)]
        if lengths_k is not None:
            cu.append(ends(lengths_k, self.device, torch.int64))
        o = fa_tutorial.attention_varlen(*inputs, *cu, **arguments)
        gradients = torch.autograd.grad(o, inputs, do)
        with torch.no_grad():
            lse = fa_tutorial.attention_varlen(*inputs, *cu, return_lse=True, **arguments)[1]
        self.assertEqual([x.shape for x in (o, lse)], [q.shape, q.shape[1::-1]])
        found = [x.split(lengths_q) for x in (o, gradients[0])] + [x.split(of_keys) for x in gradients[1:]]
        parts = [x.split(lengths_q) for x in (q, do)] + [x.split(of_keys) for x in (k, v)]
        for number, (query, d_o, key, value) in enumerate(zip(*parts, strict=True)):
            query, d_o, key, value = (x.transpose(0, 1)[None] for x in (query, d_o, key, value))
            call = masked_calls.Call(query, key, value, d_o, {"is_causal": arguments.get("is_causal", False)})
            if "window" in arguments:
                masked_calls.add_window(call, arguments["window"])
            call.extras.softcap = arguments.get("softcap", 0.0)
            call.extras.sinks = arguments.get("sinks")
            if "alibi_slopes" in arguments:
                masked_calls.add_slopes(call, arguments["alibi_slopes"])
            expected = call.expected()
            results = dict(zip(("o", "dq", "dk", "dv"), (x[number] for x in found), strict=True))
            results = {name: x.transpose(0, 1)[None] for name, x in results.items()}
            results["lse"] = lse.split(lengths_q, 1)[number][None]
            for name, x in results.items():
                self.assertEqual(reference.complaint(expected, name, x), "", (number, what))

    def test_sequences(self):
        for arguments in ({}, {"is_causal": True}, {"is_causal": True, "window": 20}):
            self.agrees([40, 0, 1, 90, 70], **arguments)

    def test_other_lengths_of_keys(self):
        for causal in (False, True):
            self.agrees([40, 1, 0, 30, 0], [60, 20, 7, 5, 0], is_causal=causal)
            self.agrees([5, 1, 2], [60, 20, 7], is_causal=causal)
            self.agrees([9, 3], [4, 3], is_causal=causal)
        self.agrees([10, 30], [50, 20], window=8)

    def test_functions_of_scores(self):
        self.agrees([40, 30], [60, 20], softcap=2.0, is_causal=True)
        slopes = torch.rand(4, device=self.device)
        self.agrees([40, 30], alibi_slopes=slopes)
        self.agrees([40, 30], [20, 70], alibi_slopes=slopes)
        self.agrees([40, 30], [60, 20], sinks=torch.randn(4, device=self.device), is_causal=True, window=9)

    def test_dropout(self):
        q, k, v, do = self.tensors(100, 100)
        cu = ends([40, 60], self.device)
        with self.assertRaisesRegex(NotImplementedError, "no kernel has both"):
            fa_tutorial.attention_varlen(q, k, v, cu, dropout_p=0.5, softcap=1.0)
        lengths, tokens = [40, 24], masked_calls.ONES
        q, k, v, do = self.tensors(tokens, tokens)
        inputs, cu = (q, k, v), ends(lengths, self.device)
        ones = torch.eye(tokens, device=self.device, dtype=q.dtype)[:, None].expand(tokens, 2, tokens)
        torch.manual_seed(4)
        zero_q, zero_k = (torch.zeros_like(x) for x in (q, k))
        probabilities = fa_tutorial.attention_varlen(zero_q, zero_k, ones, cu, dropout_p=0.25)
        kept = (probabilities != 0).double().transpose(0, 1)[None] * 256 / 192
        torch.manual_seed(4)
        o = fa_tutorial.attention_varlen(*inputs, cu, dropout_p=0.25)
        found = (o, *torch.autograd.grad(o, inputs, do))
        for number, (first, last) in enumerate(pairwise(cu.tolist())):
            part = slice(first, last)
            call = masked_calls.Call(*(x[part].transpose(0, 1)[None] for x in (*inputs, do)))
            call.extras.kept = kept[:, :, part, part]
            self.assertTrue(0.1 < float((call.extras.kept == 0).double().mean()) < 0.4)
            expected = call.expected()
            for name, x in zip(("o", "dq", "dk", "dv"), found, strict=True):
                said = reference.complaint(expected, name, x[part].transpose(0, 1)[None])
                self.assertEqual(said, "", number)
        self.assertFalse(torch.equal(o, fa_tutorial.attention_varlen(*inputs, cu, dropout_p=0.25)))

    def test_gradients_after_inference_on_the_same_ends(self):
        cu = [ends(lengths, self.device, torch.int64) for lengths in ([5, 9], [7, 20])]
        q, k, v, do = self.tensors(14, 27)
        with torch.inference_mode():
            o = fa_tutorial.attention_varlen(q, k, v, *cu, window=6)
        again = fa_tutorial.attention_varlen(q, k, v, *cu, window=6)
        self.assertTrue(torch.equal(again, o))
        self.assertEqual(torch.autograd.grad(again, q, do)[0].shape, q.shape)

    def test_no_tokens(self):
        self.agrees([0, 0])
        self.agrees([])
        self.agrees([0, 3], [4, 0])
        self.agrees([0, 0], [4, 1])

    def test_slices_of_one_tensor(self):
        """As one linear layer computes them."""
        qkv = torch.randn(70, 3, 2, 64, device=self.device).bfloat16()
        given = [*(x.detach().requires_grad_() for x in qkv.unbind(1)), torch.randn_like(qkv[:, 0])]
        self.agrees([40, 30], given=given, is_causal=True)

    def test_random_calls(self):
        choose = random.Random(4)
        for number in range(CALLS // 2):
            count = choose.randint(1, 5)
            lengths = [
                [choose.choice((0, choose.randint(1, self.longest))) for _ in range(count)] for _ in "qk"
            ]
            if choose.random() < 0.4:
                lengths = lengths[:1]
            arguments = {"is_causal": choose.random() < 0.5, "deterministic": choose.random() < 0.3}
            if choose.random() < 0.4:
                arguments["window"] = choose.randint(1, self.longest)
            sizes = [choose.choice(((2, 2), (6, 2), (3, 1))), choose.choice(masked_calls.HEAD_DIMS)]
            dtype = choose.choice(masked_calls.DTYPES)
            given = self.tensors(sum(lengths[0]), sum(lengths[-1]), *sizes[0], sizes[1], dtype)
            self.agrees(*lengths, given=given, what=(number, lengths, arguments, sizes), **arguments)

    def test_compile(self):
        q, k, v, do = self.tensors(70, 70)
        cu = ends([30, 40], self.device)

        def gradients(function):
            return torch.autograd.grad(function(q, k, v, cu, is_causal=True), (q, k, v), do)

        compiled = torch.compile(fa_tutorial.attention_varlen, backend="aot_eager", fullgraph=True)
        expected = gradients(fa_tutorial.attention_varlen)
        self.assertTrue(all(map(torch.equal, gradients(compiled), expected)))

    def test_refusals(self):
        q, k, v, _ = self.tensors(10, 10)

        def refuses(error, pattern, *given, **more):
            with self.assertRaisesRegex(error, pattern) as caught:
                fa_tutorial.attention_varlen(*given, **more)
            self.assertNotIn("\n", str(caught.exception))

        def whole(*numbers):
            return torch.tensor(numbers, device=self.device)

        right = whole(0, 4, 10)
        refuses(ValueError, r"query has the shape \[1, 10, 4, 64\]", q[None], k, v, right)
        refuses(TypeError, "cu_seqlens_q is a list", q, k, v, [0, 10])
        refuses(TypeError, "cu_seqlens_q is torch.float32", q, k, v, right.float())
        refuses(ValueError, r"cu_seqlens_q has the shape \[1, 3\]", q, k, v, right[None])
        refuses(ValueError, "cu_seqlens_q is empty", q, k, v, right[:0])
        refuses(ValueError, "ends with 9: it must begin with 0 and end with 10", q, k, v, whole(0, 9))
        refuses(ValueError, "begins with 1 ", q, k, v, whole(1, 10))
        refuses(ValueError, "cu_seqlens_q has a number that is less", q, k, v, whole(0, 7, 5, 10))
        refuses(ValueError, "cu_seqlens_k begins with 0 and ends with 10", q, k[:9], v[:9], right)
        refuses(ValueError, "cu_seqlens_q has 2 sequences and cu_seqlens_k 1", q, k, v, right, whole(0, 10))
        refuses(NotImplementedError, "query is torch.float32", q.float(), k.float(), v.float(), right)


if __name__ == "__main__":
    unittest.main()
