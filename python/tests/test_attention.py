"""fa_tutorial.attention() on the CPU, compared with float64: python -m unittest tests.test_attention, in
python/.

Needs PyTorch, and the programs of the chapters in build/sim. FA_TUTORIAL_CALLS: the number of random calls.
"""

from __future__ import annotations

import random
import unittest

import fa_tutorial
import torch
from torch.autograd import forward_ad
from torch.utils import checkpoint, flop_counter

from . import masked_calls, reference
from .test_operators import CALLS, OnDevice

FORWARD = torch.ops.fa_tutorial.masked_attention.default
BACKWARD = torch.ops.fa_tutorial.masked_attention_backward.default


class Agreement(OnDevice):
    longest = 150
    calls = 1  # of each problem

    def setUp(self):
        torch.manual_seed(0)

    def call(self, dtype=torch.bfloat16, seq_q=70, seq_k=90, head_dim=64, head_dim_v=None):
        sizes = (2, 4, 2, seq_q, seq_k, head_dim)
        return masked_calls.tensors(dtype, *sizes, self.device, head_dim_v)

    def agrees(self, call: masked_calls.Call):
        self.assertEqual(masked_calls.complaints(call, self.calls), [], call.arguments)

    def test_each_mask(self):
        for dtype in masked_calls.DTYPES:
            call = self.call(dtype)
            masked_calls.add_window(call, 20)
            self.agrees(call)
            call = self.call(dtype)
            masked_calls.add_lengths(call, [90, 13])
            self.agrees(call)
            call = self.call(dtype, 70, 70)
            masked_calls.add_documents(call, torch.arange(70) // 30)
            self.agrees(call)
            call = self.call(dtype)
            masked_calls.add_documents(call, torch.arange(70) // 30 + 1, torch.arange(90) // 40)
            self.agrees(call)
            call = self.call(dtype, 130, 200)
            masked_calls.add_blocks(call, torch.rand(4, 3, 4) < 0.5, 64)
            self.agrees(call)

    def test_functions_of_scores(self):
        call = self.call()
        call.arguments |= {"softcap": 2.0, "is_causal": True}
        call.extras.softcap = 2.0
        self.agrees(call)
        masked_calls.add_slopes(call, torch.tensor([0.5, 0.1, 0.0, 1.0]))
        self.agrees(call)

    def test_sinks(self):
        call = self.call()
        masked_calls.add_sinks(call)
        self.agrees(call)
        masked_calls.add_window(call, 20)
        call.arguments["is_causal"] = True
        self.agrees(call)
        call.arguments["softcap"] = call.extras.softcap = 3.0
        self.agrees(call)

    def test_deterministic(self):
        call = self.call()
        masked_calls.add_window(call, 30)
        masked_calls.add_sinks(call)
        call.arguments["deterministic"] = True
        self.agrees(call)
        plain = self.call(torch.float32)
        plain.arguments["deterministic"] = True
        self.agrees(plain)

    def test_long_rows_and_other_widths(self):
        for dtype, head_dim, head_dim_v in (
            (torch.bfloat16, 64, 128),
            (torch.float16, 192, 128),
            (torch.bfloat16, 512, 512),
        ):
            call = self.call(dtype, 20, 40, head_dim, head_dim_v)
            call.arguments["is_causal"] = True
            self.agrees(call)
            if head_dim == 192:
                call.arguments["deterministic"] = True
                self.agrees(call)
        for dtype, head_dim in ((torch.float32, 264), (torch.bfloat16, 1024)):
            call = self.call(dtype, 5, 9, head_dim)
            with torch.no_grad():
                o = fa_tutorial.attention(call.q, call.k, call.v)
            self.assertEqual(reference.complaint(call.expected(), "o", o), "")

    def test_dropout(self):
        for of in (fa_tutorial.attention, fa_tutorial.scaled_dot_product_attention):
            sizes = (2, 2, 2, 40, masked_calls.ONES, 64)
            call = masked_calls.tensors(torch.bfloat16, *sizes, self.device)
            call.extras.kept = masked_calls.kept(call, 0.25, seed=5)
            self.assertTrue(0.2 < float((call.extras.kept == 0).double().mean()) < 0.3)
            torch.manual_seed(5)
            inputs = (call.q, call.k, call.v)
            o = of(*inputs, dropout_p=0.25)
            found = dict(zip(("dq", "dk", "dv"), torch.autograd.grad(o, inputs, call.do), strict=True))
            expected = call.expected()
            for name, x in (found | {"o": o}).items():
                self.assertEqual(reference.complaint(expected, name, x), "")
            self.assertFalse(torch.equal(o, of(*inputs, dropout_p=0.25)))  # another seed

    def test_plain_calls_run_the_chosen_kernels(self):
        call = self.call(torch.float32)
        with fa_tutorial.use("03/one_pass", "08/fp32_fused"):
            o = fa_tutorial.attention(call.q, call.k, call.v, is_causal=True)
            same = fa_tutorial.scaled_dot_product_attention(
                call.q, call.k, call.v, is_causal=True, enable_gqa=True
            )
        self.assertTrue(torch.equal(o, same))

    def test_no_queries_or_keys(self):
        for seq_q, seq_k, batch in ((0, 5, 1), (5, 0, 1), (5, 5, 0)):
            call = masked_calls.tensors(torch.bfloat16, batch, 2, 2, seq_q, seq_k, 64, self.device)
            inputs = (call.q, call.k, call.v)
            o = fa_tutorial.attention(*inputs, window=3)
            self.assertEqual(int(o.count_nonzero()), 0)
            for gradient in torch.autograd.grad(o, inputs, call.do):
                self.assertEqual(int(gradient.count_nonzero()), 0)
            with torch.no_grad():
                lse = fa_tutorial.attention(*inputs, window=3, return_lse=True)[1]
            self.assertTrue(bool((lse == -torch.inf).all()))

    def test_strides(self):
        """[batch, seq, heads, head_dim], and heads that share memory."""
        call = self.call()
        masked_calls.add_window(call, 20)
        call.q = call.q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        self.agrees(call)
        shared = call.k.detach()[:, :1].clone().requires_grad_()
        o = fa_tutorial.attention(call.q, shared.expand(-1, 2, -1, -1), call.v, window=20)
        self.assertEqual(o.stride(), call.q.stride())
        (gradient,) = torch.autograd.grad(o, shared, call.do)
        self.assertEqual(gradient.shape, shared.shape)

    def test_random_calls(self):
        choose = random.Random(2)
        for number in range(CALLS):
            call = masked_calls.random_call(choose, self.longest, self.device)
            self.assertEqual(masked_calls.complaints(call, self.calls), [], (number, call.arguments))


class Autograd(OnDevice):
    def setUp(self):
        torch.manual_seed(0)
        torch.compiler.reset()
        self.call = masked_calls.tensors(torch.bfloat16, 2, 4, 2, 20, 30, 64, self.device)
        self.inputs = (self.call.q, self.call.k, self.call.v)

    def options(self) -> tuple:
        lengths = torch.tensor([30, 7], dtype=torch.int32, device=self.device)
        return (None, None, lengths, None, None, None, None, 0, 5, 0.0, 0.0, True, 0.2, False)

    def test_opcheck(self):
        torch.library.opcheck(FORWARD, (*self.inputs, *self.options()))
        inputs = [x.detach() for x in self.inputs]
        o, lse = FORWARD(*inputs, *self.options())
        torch.library.opcheck(BACKWARD, (self.call.do, *inputs, o, lse, *self.options()))

    def test_compile(self):
        lengths = torch.tensor([30, 7], device=self.device)

        def loss(q, k, v):
            o = fa_tutorial.attention(q.sin(), k, v, is_causal=True, window=9, key_lengths=lengths)
            return (o.float() ** 2).mean()

        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        expected = torch.autograd.grad(loss(*self.inputs), self.inputs)
        for gradient, right in zip(
            torch.autograd.grad(compiled(*self.inputs), self.inputs), expected, strict=True
        ):
            torch.testing.assert_close(gradient, right)

    def test_export_with_any_length(self):
        class Layer(torch.nn.Module):
            def forward(self, q, k, v):
                return fa_tutorial.attention(q, k, v, is_causal=True, window=9)

        whole = [x.detach() for x in self.inputs]
        queries, keys = torch.export.Dim("queries", max=4096), torch.export.Dim("keys", max=4096)
        lengths = ({2: queries}, {2: keys}, {2: keys})
        exported = torch.export.export(Layer(), tuple(whole), dynamic_shapes=lengths).module()
        given = (whole[0][:, :, :7], whole[1][:, :, :11], whole[2][:, :, :11])
        expected = fa_tutorial.attention(*given, is_causal=True, window=9)
        self.assertTrue(torch.equal(exported(*given), expected))

    def test_saved_on_the_cpu(self):
        def gradients():
            return torch.autograd.grad(
                fa_tutorial.attention(*self.inputs, window=9), self.inputs, self.call.do
            )

        expected = gradients()
        with torch.autograd.graph.save_on_cpu():
            o = fa_tutorial.attention(*self.inputs, window=9)
        found = torch.autograd.grad(o, self.inputs, self.call.do)
        self.assertTrue(all(map(torch.equal, found, expected)))

    def test_dropout_under_compile_and_checkpoint(self):
        def of(q, k, v):
            return fa_tutorial.attention(q, k, v, dropout_p=0.5)

        def gradients(function):
            torch.manual_seed(3)
            return torch.autograd.grad(function(*self.inputs), self.inputs, self.call.do)

        expected = gradients(of)
        again = gradients(lambda *x: checkpoint.checkpoint(of, *x, use_reentrant=False))
        self.assertTrue(all(map(torch.equal, again, expected)))
        compiled = torch.compile(of, backend="aot_eager", fullgraph=True)
        torch.manual_seed(3)
        first, second = compiled(*self.inputs), compiled(*self.inputs)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(compiled(*self.inputs), first))
        self.assertFalse(torch.equal(second, first))

    def test_torch_func(self):
        def loss(q, k, v):
            return fa_tutorial.attention(q, k, v, window=4).float().square().sum()

        expected = torch.autograd.grad(loss(*self.inputs), self.inputs)
        detached = [x.detach() for x in self.inputs]
        found = torch.func.grad(loss, (0, 1, 2))(*detached)
        self.assertTrue(all(map(torch.equal, found, expected)))
        batched = [torch.stack((x, 2 * x)) for x in detached]
        each = torch.vmap(torch.func.grad(loss))(*batched)
        for number in range(2):
            one = torch.func.grad(loss)(*(x[number] for x in batched))
            torch.testing.assert_close(each[number], one)
        with forward_ad.dual_level(), self.assertRaisesRegex(NotImplementedError, "forward mode"):
            loss(forward_ad.make_dual(detached[0], detached[0]), *detached[1:])

    def test_flops(self):
        with flop_counter.FlopCounterMode(display=False) as counter:
            fa_tutorial.attention(*self.inputs, window=4).sum().backward()
        products = 2 * 2 * 4 * 20 * 30 * 64
        self.assertEqual(counter.get_total_flops(), 7 * products)


class Refusals(OnDevice):
    def test_one_sentence(self):
        call = masked_calls.tensors(torch.bfloat16, 2, 4, 2, 20, 30, 64, self.device)
        whole, refuses = self.integers, self.refuses
        refuses(call, TypeError, "window is a float", window=3.0)
        refuses(call, ValueError, "window is 0: it must be at least 1", window=0)
        refuses(call, TypeError, "key_lengths is a list: it must be a torch.Tensor", key_lengths=[3, 4])
        refuses(call, TypeError, "key_lengths is torch.float32", key_lengths=torch.ones(2))
        refuses(
            call, ValueError, r"key_lengths has the shape \[3\]: it must be \[2\]", key_lengths=whole(1, 2, 3)
        )
        refuses(call, ValueError, "key_lengths has the number 31: .* from 0 to 30", key_lengths=whole(2, 31))
        refuses(
            call, ValueError, "documents is one tensor for 20 queries and 30", documents=whole(*range(20))
        )
        pair = (whole(*range(20)), whole(*[0] * 29, -1))
        refuses(call, ValueError, r"documents\[1\] has the number -1", documents=pair)
        pair = (whole(*range(20)), whole(*[1] * 29, 0))
        refuses(call, ValueError, r"documents\[1\] has a number that is less", documents=pair)
        blocks = torch.ones(1, 2, 2, device=self.device)
        refuses(call, TypeError, "block_mask is torch.float32", block_mask=blocks)
        refuses(call, ValueError, r"block_mask has the shape \[1, 2, 2\]", block_mask=blocks.bool())
        refuses(call, TypeError, "softcap is a str", softcap="3")
        refuses(call, ValueError, "softcap is -1", softcap=-1.0)
        refuses(call, ValueError, "dropout is 1.5: must be 0, or from", dropout_p=1.5)
        refuses(call, TypeError, "alibi_slopes is torch.int64", alibi_slopes=whole(1, 2, 3, 4))
        refuses(call, TypeError, "sinks is a float", sinks=1.0)
        slopes = torch.ones(3, device=self.device)
        refuses(call, ValueError, r"alibi_slopes is \[3\]", alibi_slopes=slopes)
        refuses(call, NotImplementedError, "no kernel has both", softcap=1.0, dropout_p=0.5)
        refuses(call, NotImplementedError, "deterministic gradients", softcap=1.0, deterministic=True)
        refuses(call, NotImplementedError, "lse has no gradient", window=1, return_lse=True)
        single = masked_calls.tensors(torch.float32, 1, 1, 1, 3, 3, 64, self.device)
        refuses(single, NotImplementedError, "query is torch.float32: masks", window=1)
        wide = masked_calls.tensors(torch.float16, 1, 1, 1, 3, 3, 136, self.device)
        refuses(wide, NotImplementedError, "equal widths of at most 128", window=1)
        longest = masked_calls.tensors(torch.float16, 1, 1, 1, 3, 3, 1024, self.device)
        refuses(longest, NotImplementedError, "there is no backward pass .* at most 512")

    def integers(self, *numbers: int) -> torch.Tensor:
        return torch.tensor(numbers, device=self.device)

    def refuses(self, call: masked_calls.Call, error: type[Exception], pattern: str, **given):
        with self.assertRaisesRegex(error, pattern) as caught:
            fa_tutorial.attention(call.q, call.k, call.v, **given)
        self.assertNotIn("\n", str(caught.exception))

    def test_numbers_are_checked_again_when_they_change(self):
        call = masked_calls.tensors(torch.bfloat16, 1, 1, 1, 3, 3, 64, self.device)
        lengths = self.integers(3)
        fa_tutorial.attention(call.q, call.k, call.v, key_lengths=lengths)
        lengths += 1
        self.refuses(call, ValueError, "key_lengths has the number 4", key_lengths=lengths)


if __name__ == "__main__":
    unittest.main()
