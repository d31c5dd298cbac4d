"""fa_tutorial.flash_attn on the CPU, compared with float64: python -m unittest tests.test_flash_attn, in
python/.

Needs PyTorch, and the programs of the chapters in build/sim.
"""

from __future__ import annotations

import unittest

import torch
from fa_tutorial import flash_attn

from . import masked_calls, reference
from .test_operators import OnDevice
from .test_varlen import ends


class FlashAttn(OnDevice):
    def setUp(self):
        torch.manual_seed(0)

    def drawn(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device).bfloat16()

    def expected(self, q, k, v, do, causal=False, window=None) -> reference.Reference:
        """Of [batch, seq, heads, head_dim] tensors."""
        call = masked_calls.Call(*(x.transpose(1, 2) for x in (q, k, v, do)), {"is_causal": causal})
        if window is not None:
            masked_calls.add_window(call, window)
        return call.expected()

    def compare(self, expected: reference.Reference, **found: torch.Tensor):
        for name, x in found.items():
            x = x if name == "lse" else x.transpose(1, 2)
            self.assertEqual(reference.complaint(expected, name, x), "", name)

    def test_dense(self):
        q, do = (self.drawn(2, 30, 4, 64) for _ in range(2))
        kv = self.drawn(2, 50, 2, 2, 64).requires_grad_()
        q.requires_grad_()
        for causal, window_size, window in (
            (False, (-1, -1), None),
            (True, (-1, -1), None),
            (True, (9, 5), 10),
            (False, (-1, 0), None),
            (False, (9, 9), 10),
        ):
            given = {"causal": causal, "window_size": window_size}
            k, v = kv.detach().unbind(2)
            o, lse, none = flash_attn.flash_attn_func(q, k, v, **given, return_attn_probs=True)
            self.assertIsNone(none)
            self.assertEqual(o.shape, q.shape)
            packed = flash_attn.flash_attn_kvpacked_func(q, kv, **given)
            self.assertTrue(torch.equal(packed, o))
            dq, dkv = torch.autograd.grad(packed, (q, kv), do)
            expected = self.expected(q, k, v, do, causal or window_size == (-1, 0), window)
            self.compare(expected, o=o, lse=lse, dq=dq, dk=dkv[:, :, 0], dv=dkv[:, :, 1])

    def test_qkvpacked(self):
        qkv = self.drawn(2, 40, 3, 2, 64).requires_grad_()
        do = self.drawn(2, 40, 2, 64)
        o = flash_attn.flash_attn_qkvpacked_func(qkv, causal=True)
        (gradient,) = torch.autograd.grad(o, qkv, do)
        expected = self.expected(*qkv.unbind(2), do, causal=True)
        dq, dk, dv = gradient.unbind(2)
        self.compare(expected, o=o, dq=dq, dk=dk, dv=dv)

    def test_varlen(self):
        lengths = [30, 0, 45]
        cu = ends(lengths, self.device)
        qkv, do = self.drawn(75, 3, 2, 64).requires_grad_(), self.drawn(75, 2, 64)
        o, lse, _ = flash_attn.flash_attn_varlen_qkvpacked_func(
            qkv, cu, 45, causal=True, return_attn_probs=True
        )
        (gradient,) = torch.autograd.grad(o, qkv, do)
        q, k, v = qkv.detach().unbind(1)
        same = flash_attn.flash_attn_varlen_func(q, k, v, cu, cu, 45, 45, causal=True)
        self.assertTrue(torch.equal(same, o))
        kv = qkv.detach()[:, 1:]
        same = flash_attn.flash_attn_varlen_kvpacked_func(q, kv, cu, cu, 45, 45, causal=True)
        self.assertTrue(torch.equal(same, o))
        parts = (x.split(lengths) for x in (q, k, v, do, o, *gradient.unbind(1)))
        of_lse = lse.split(lengths, 1)
        for part, lse_of_part in zip(zip(*parts, strict=True), of_lse, strict=True):
            q, k, v, do, o, dq, dk, dv = (x[None] for x in part)
            expected = self.expected(q, k, v, do, causal=True)
            self.compare(expected, o=o, lse=lse_of_part[None], dq=dq, dk=dk, dv=dv)

    def test_cache(self):
        lengths, new = torch.tensor([20, 3], device=self.device), 2
        q, k, v = self.drawn(2, new, 4, 64), self.drawn(2, 40, 2, 64), self.drawn(2, 40, 2, 64)
        more = [self.drawn(2, new, 2, 64) for _ in "kv"]
        o, lse = flash_attn.flash_attn_with_kvcache(
            q, k, v, *more, cache_seqlens=lengths, causal=True, return_softmax_lse=True
        )
        for row, length in enumerate(lengths.tolist()):
            self.assertTrue(torch.equal(k[row, length : length + new], more[0][row]))
            part = slice(row, row + 1)
            keys = [x[part, : length + new] for x in (k, v)]
            self.compare(self.expected(q[part], *keys, q[part], True), o=o[part], lse=lse[part])
        one = flash_attn.flash_attn_with_kvcache(q[:, :1], k, v)
        self.compare(self.expected(q[:, :1], k, v, q[:, :1]), o=one)

    def test_pages(self):
        table = torch.tensor([[3, 0], [1, 2]], device=self.device)
        q, k, v = self.drawn(2, 1, 2, 64), self.drawn(4, 16, 2, 64), self.drawn(4, 16, 2, 64)
        more = [self.drawn(2, 1, 2, 64) for _ in "kv"]
        lengths = torch.tensor([16, 5], device=self.device)
        o = flash_attn.flash_attn_with_kvcache(q, k, v, *more, cache_seqlens=lengths, block_table=table)
        self.assertTrue(torch.equal(k[0, 0], more[0][0, 0]))
        for row, length in enumerate((17, 6)):
            keys = [x[table[row]].flatten(0, 1)[None, :length] for x in (k, v)]
            part = slice(row, row + 1)
            self.compare(self.expected(q[part], *keys, q[part]), o=o[part])

    def test_refusals(self):
        q = self.drawn(2, 5, 2, 64)

        def refuses(error, pattern, function, *given, **more):
            with self.assertRaisesRegex(error, pattern) as caught:
                function(*given, **more)
            self.assertNotIn("\n", str(caught.exception))

        dense, cached = flash_attn.flash_attn_func, flash_attn.flash_attn_with_kvcache
        refuses(NotImplementedError, r"window_size is \(3, 4\)", dense, q, q, q, window_size=(3, 4))
        refuses(TypeError, "window_size is 3", dense, q, q, q, window_size=3)
        refuses(ValueError, r"k has the shape \[2, 5, 2\]", dense, q, q[..., 0], q)
        refuses(TypeError, "v is a NoneType", dense, q, q, None)
        slopes = torch.ones(2, 2, device=self.device)
        refuses(NotImplementedError, "alibi_slopes is .batch, heads.", dense, q, q, q, alibi_slopes=slopes)
        packed = flash_attn.flash_attn_qkvpacked_func
        refuses(ValueError, r"qkv has the shape \[2, 5, 2, 64\]", packed, q)
        refuses(NotImplementedError, "rotary_cos is given", cached, q, q, q, rotary_cos=q)
        refuses(NotImplementedError, "cache_leftpad is given", cached, q, q, q, cache_leftpad=q)
        refuses(NotImplementedError, "window_size is given", cached, q, q, q, window_size=(3, 3))
        refuses(NotImplementedError, "q has 5 queries and causal is False", cached, q, q, q)
        refuses(ValueError, "one of k and v", cached, q, q, q, q, causal=True)
        refuses(TypeError, "cache_seqlens is a float", cached, q, q, q, cache_seqlens=1.0, causal=True)
        lengths = torch.tensor([3, 1], device=self.device)
        one = q[:, :1]
        before = q.clone()
        refuses(ValueError, "so that 5 new keys fit", cached, one, q, q, q, q, cache_seqlens=lengths)
        refuses(ValueError, "k is .2, 1, 2, 32.", cached, one, q, q, *2 * [one[..., :32]], cache_seqlens=3)
        self.assertTrue(torch.equal(q, before))
        cache = self.drawn(2, 32, 2, 64)
        before = cache.clone()
        new = {"k": one, "v": one, "cache_seqlens": 20, "causal": True}
        refuses(ValueError, "query has 17 queries", cached, self.drawn(2, 17, 2, 64), cache, cache, **new)
        refuses(ValueError, "scale is -1.0", cached, one, cache, cache, softmax_scale=-1.0, **new)
        leaf = one.clone().requires_grad_()
        refuses(NotImplementedError, "has no gradient", cached, leaf, cache, cache, **new)
        self.assertTrue(torch.equal(cache, before))


if __name__ == "__main__":
    unittest.main()
