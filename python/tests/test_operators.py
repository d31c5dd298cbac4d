"""The operators on the CPU, compared with float64: python -m unittest tests.test_operators, in python/.

Needs PyTorch, and the programs of the chapters in build/sim. FA_TUTORIAL_CALLS=2000: the number of random calls.
test_cuda.py runs the same tests on a GPU.
"""

from __future__ import annotations

import math
import os
import unittest

import fa_tutorial
import torch
from fa_tutorial import scaled_dot_product_attention as attention

from . import random_calls, reference

CALLS = int(os.environ.get("FA_TUTORIAL_CALLS", "40"))
DTYPES = random_calls.DTYPES
OPERATOR = torch.ops.fa_tutorial.attention.default
BACKWARD = torch.ops.fa_tutorial.attention_backward.default


class OnDevice(unittest.TestCase):
    """Tests whose tensors are on `device`."""

    device = "cpu"

    def tensors(
        self,
        dtype=torch.float32,
        heads=2,
        kv_heads=2,
        seq_q=9,
        seq_k=9,
        head_dim=32,
        batch=1,
    ) -> list[torch.Tensor]:
        """Q, K, V and dO."""
        shapes = [(batch, heads, seq_q, head_dim), (batch, kv_heads, seq_k, head_dim)]
        drawn = (
            torch.randn(shapes[which], device=self.device) for which in (0, 1, 1, 0)
        )
        return [
            x.to(dtype).requires_grad_(number < 3) for number, x in enumerate(drawn)
        ]


class Agreement(OnDevice):
    longest = 80  # queries or keys of a random call

    def setUp(self):
        torch.manual_seed(0)
        self.addCleanup(fa_tutorial.use)

    def compare(self, q, k, v, do, causal: bool, scale: float | None, what: object):
        """Compares O, LSE and the gradients with float64."""
        found = random_calls.shares(q, k, v, do, causal, scale)
        for name, share in found.items():
            self.assertLessEqual(share, 1.0, (name, what))

    def test_every_dtype(self):
        for dtype in DTYPES:
            for causal in (False, True):
                given = self.tensors(dtype, heads=4, kv_heads=2, seq_q=37, seq_k=70)
                self.compare(*given, causal, None, (dtype, causal))

    def test_queries_that_see_no_key(self):
        for dtype in (torch.float32, torch.bfloat16):
            self.compare(*self.tensors(dtype, seq_q=11, seq_k=4), True, 0.3, dtype)

    def test_a_wrong_result_is_noticed(self):
        q, k, v, do = self.tensors(torch.bfloat16, seq_q=40, seq_k=40, head_dim=64)
        scale = 64**-0.5
        right = reference.attention(q, k, v, do, True, scale)
        for wrong in (
            reference.attention(q, k, v, do, False, scale),
            reference.attention(q, k, v, do, True, 1.1 * scale),
            reference.attention(q, k, v, 1.05 * do, True, scale),
            reference.attention(q, k.roll(1, 2), v, do, True, scale),
        ):
            complaints = [
                reference.complaint(right, name, x.to(torch.bfloat16))
                for name, x in wrong.results.items()
                if name != "lse"
            ]
            self.assertTrue(any(complaints))

    def test_every_variant(self):
        for name in fa_tutorial.variants():
            done = 0
            for dtype in (torch.float32, torch.bfloat16):
                given = self.tensors(dtype, heads=2, kv_heads=1, head_dim=64)
                with fa_tutorial.use(name):
                    try:
                        self.compare(*given, True, None, name)
                        done += 1
                    except ValueError as refusal:
                        self.assertRegex(str(refusal), rf"{name}.*dtype is .*takes")
            self.assertGreaterEqual(done, 1, name)

    def test_random_calls(self):
        found = random_calls.run_all(CALLS, self.device, self.longest, seed=1)
        self.assertEqual(found["wrong"], [])


class Autograd(OnDevice):
    def setUp(self):
        torch.manual_seed(0)
        torch.compiler.reset()
        self.addCleanup(fa_tutorial.use)

    def test_opcheck(self):
        for dtype in DTYPES:
            q, k, v, do = self.tensors(dtype, heads=4, seq_q=5, seq_k=7)
            rest = (True, 0.2, "", "")
            torch.library.opcheck(OPERATOR, (q, k, v, *rest))
            q, k, v = (x.detach() for x in (q, k, v))
            torch.library.opcheck(OPERATOR, (q, k, v, *rest))
            o, lse = OPERATOR(q, k, v, *rest)
            torch.library.opcheck(BACKWARD, (do, q, k, v, o, lse, True, 0.2, ""))

    def compiled_agrees(self, backend: str, dynamic: bool | None = None):
        def loss(q, k, v):
            o = attention(
                torch.sin(q), k, v, is_causal=True, scale=0.2, enable_gqa=True
            )
            return (o.float() ** 2).mean()

        compiled = torch.compile(loss, fullgraph=True, backend=backend, dynamic=dynamic)
        for dtype, seq in ((torch.float32, 8), (torch.bfloat16, 13)):
            q, k, v, _ = self.tensors(dtype, heads=4, seq_q=seq, seq_k=seq)
            expected = torch.autograd.grad(loss(q, k, v), (q, k, v))
            found = torch.autograd.grad(compiled(q, k, v), (q, k, v))
            for ours, eager in zip(found, expected, strict=True):
                torch.testing.assert_close(ours, eager, rtol=2e-2, atol=1e-6)

    def test_compiled_without_a_graph_break(self):
        self.compiled_agrees("aot_eager")

    def test_compiled_for_any_length(self):
        self.compiled_agrees("aot_eager", dynamic=True)

    def test_use_is_seen_by_compiled_code(self):
        compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
        q, k, v, _ = (x.detach() for x in self.tensors(head_dim=64))
        before = compiled(q, k, v)
        fa_tutorial.use("07/final")
        with self.assertRaisesRegex(Exception, "07/final cannot run this: dtype"):
            compiled(q, k, v)
        fa_tutorial.use()
        self.assertTrue(torch.equal(compiled(q, k, v), before))

    def test_autocast(self):
        q, k, v, do = self.tensors()
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast(self.device, dtype=dtype):
                o = attention(q, k, v)
            self.assertEqual(o.dtype, dtype)
            gradients = torch.autograd.grad(o, (q, k, v), do.to(dtype))
            self.assertEqual({x.dtype for x in gradients}, {torch.float32})
            rounded = [x.to(dtype) for x in (q, k, v, do)]
            expected = reference.attention(*rounded, False, 32**-0.5)
            self.assertEqual(reference.complaint(expected, "o", o), "")
            for name, found in zip(("dq", "dk", "dv"), gradients, strict=True):
                what = reference.complaint(expected, name, found.to(dtype))
                self.assertEqual(what, "")

    def test_autocast_compiled(self):
        q, k, v, _ = self.tensors()

        def cast(q, k, v):
            with torch.autocast(self.device, dtype=torch.bfloat16):
                return attention(q, k, v)

        compiled = torch.compile(cast, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(q, k, v), cast(q, k, v)))

    def test_only_some_need_gradients(self):
        q, k, v, do = self.tensors()
        expected = torch.autograd.grad(attention(q, k, v), (q, k, v), do)
        o = attention(q.detach(), k, v.detach())
        (found,) = torch.autograd.grad(o, (k,), do)
        self.assertTrue(torch.equal(found, expected[1]))

    def test_second_gradient(self):
        q, k, v, _ = self.tensors()
        o = attention(q, k, v)
        first = torch.autograd.grad(o.pow(2).sum(), (q, k, v), create_graph=True)
        with self.assertRaises(NotImplementedError) as raised:
            first[0].sum().backward()
        self.assertRegex(str(raised.exception), "create_graph")
        self.assertNotIn("\n", str(raised.exception))

    def test_deterministic(self):
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        q, k, v, do = self.tensors(torch.bfloat16, heads=4, seq_q=70, seq_k=150)
        with fa_tutorial.use("08/mma_deterministic"):
            named = torch.autograd.grad(attention(q, k, v, enable_gqa=True), (q,), do)
        found = torch.autograd.grad(attention(q, k, v, enable_gqa=True), (q,), do)
        self.assertTrue(torch.equal(found[0], named[0]))

    def test_inference(self):
        q, k, v, _ = self.tensors()
        expected = attention(q, k, v)
        with torch.inference_mode():
            self.assertTrue(torch.equal(attention(q, k, v), expected))


class Refusals(OnDevice):
    """Every bad input raises one sentence."""

    def setUp(self):
        self.addCleanup(fa_tutorial.use)

    def refuses(self, error: type, words: str, *args, **options):
        with self.assertRaises(error) as raised:
            attention(*args, **options)
        text = str(raised.exception)
        self.assertRegex(text, words)
        self.assertNotIn("\n", text)

    def test_shapes(self):
        def z(*shape):
            return torch.zeros(shape, device=self.device)

        good = z(1, 2, 3, 32)
        for words, q, k, v in (
            (r"query has the shape \[2, 3, 32\]: it must be", *3 * [z(2, 3, 32)]),
            (r"query has the shape \[\]: it must be", *3 * [z()]),
            (r"key has the shape .*: it must be \[batch", good, good[0], good[0]),
            (r"at least 1", z(1, 2, 0, 32), good, good),
            (r"at least 1", good, z(1, 2, 0, 32), z(1, 2, 0, 32)),
            (r"at least 1", *3 * [z(1, 2, 3, 0)]),
            (r"key has .* and value .*: they must", good, good, z(1, 2, 4, 32)),
            (r"batch and head_dim", good, z(2, 2, 3, 32), z(2, 2, 3, 32)),
            (r"batch and head_dim", good, z(1, 2, 3, 64), z(1, 2, 3, 64)),
            (r"head_dim is 52: must be a multiple of 8 up", *3 * [z(1, 2, 3, 52)]),
            (r"head_dim is 264: must be a multiple of 8 up", *3 * [z(1, 2, 3, 264)]),
            (r"enable_gqa=True", good, z(1, 1, 3, 32), z(1, 1, 3, 32)),
        ):
            self.refuses(ValueError, words, q, k, v)
        three = z(1, 3, 3, 32)
        self.refuses(ValueError, "a multiple", three, good, good, enable_gqa=True)

    def test_dtypes_and_devices(self):
        good = torch.zeros(1, 2, 3, 32, device=self.device)
        for dtype in (torch.float64, torch.int32, torch.complex64):
            words = f"query is {dtype}: it must be float32, float16 or bfloat16"
            self.refuses(TypeError, words, *3 * [good.to(dtype)])
        self.refuses(TypeError, "one dtype", good, good.half(), good)
        self.refuses(ValueError, "one device", good, good.to("meta"), good)
        self.refuses(TypeError, "must be a torch.Tensor", good, [1.0], good)
        self.refuses(TypeError, "must be a torch.Tensor", None, good, good)

    def test_memory(self):
        good = torch.zeros(1, 2, 3, 32, device=self.device)
        across = torch.zeros(1, 2, 32, 3, device=self.device).mT
        words = r"query has the strides \[192, 96, 1, 3\]: the last must be 1 .* pass query.contiguous\(\)"
        self.refuses(ValueError, words, across, good, good)
        narrow = torch.zeros(1, 2, 3, 33, device=self.device)[..., :32]
        self.refuses(ValueError, "multiples of 16 bytes", narrow, good, good)
        same = torch.zeros(1, 1, 3, 32, device=self.device).expand(1, 2, 3, 32)
        self.refuses(ValueError, "value has the strides", good, good, same)
        odd = torch.zeros(good.numel() + 1, device=self.device)[1:].view(good.shape)
        self.refuses(ValueError, r"pass key.clone\(\)", good, odd, good)
        self.refuses(ValueError, "to_dense", good.to_sparse(), good, good)

    def test_options(self):
        good = 3 * [torch.zeros(1, 2, 3, 32, device=self.device)]
        mask = torch.ones(3, 3, dtype=torch.bool, device=self.device)
        self.refuses(NotImplementedError, "attn_mask", *good, attn_mask=mask)
        self.refuses(NotImplementedError, "dropout_p is 0.1", *good, dropout_p=0.1)
        for scale in (0.0, -1.0, math.inf, math.nan):
            self.refuses(ValueError, "a finite number above 0", *good, scale=scale)

    def test_no_backward_pass(self):
        given = self.tensors(head_dim=64)[:3]
        fa_tutorial.use("03/one_pass", "08/mma_fused")
        words = "no backward pass.*08/mma_fused cannot run this: dtype is fp32"
        self.refuses(ValueError, words, *given)
        with torch.no_grad():
            self.assertEqual(attention(*given).shape, given[0].shape)
        small = self.tensors()[:3]
        self.refuses(
            NotImplementedError, "lse has no gradient", *small, return_lse=True
        )

    def test_operators_called_directly(self):
        q, k, v, do = (x.detach() for x in self.tensors())
        o, lse = OPERATOR(q, k, v, False, 1.0, "", "")
        for wrong in (
            (do[:, :1], q, k, v, o, lse),
            (do.half(), q, k, v, o, lse),
            (do, q, k, v, o.mT.contiguous().mT, lse),
            (do, q, k, v, o, lse[:, 1:]),
            (do, q, k, v[:, :, 1:].contiguous(), o, lse),
        ):
            with self.assertRaisesRegex(ValueError, "must be"):
                BACKWARD(*wrong, False, 1.0, "")
        with self.assertRaisesRegex(ValueError, "07/best is not|no variant|--variant"):
            OPERATOR(q, k, v, False, 1.0, "07/best", "")


class Selection(OnDevice):
    def setUp(self):
        self.addCleanup(fa_tutorial.use)

    def test_variants(self):
        names = fa_tutorial.variants()
        self.assertIn("05/register_tiled", names)
        self.assertIn("07/final", names)
        self.assertIn("08/mma_deterministic", names)
        self.assertEqual(min(names)[:2], "03")
        self.assertEqual(max(names)[:2], "10")

    def test_use(self):
        q = torch.randn(1, 1, 4, 256, device=self.device)
        by_default = attention(q, q, q)
        with fa_tutorial.use("03/one_pass"):
            other = attention(q, q, q)
            with fa_tutorial.use("03_one_pass_attention/two_pass"):
                attention(q, q, q)
            self.assertTrue(torch.equal(attention(q, q, q), other))
        self.assertTrue(torch.equal(attention(q, q, q), by_default))
        torch.testing.assert_close(other, by_default)

    def test_the_backward_pass_is_that_of_its_forward_pass(self):
        q, k, v, do = self.tensors(head_dim=64)
        with fa_tutorial.use("08/fp32_two_kernels"):
            o = attention(q, k, v)
        fa_tutorial.use("08/mma_pipelined")  # which takes 16 bits
        torch.autograd.grad(o, (q, k, v), do)
        with self.assertRaisesRegex(ValueError, "08/mma_pipelined.*dtype is fp32"):
            attention(q, k, v)

    def test_bad_names(self):
        for error, words, *names in (
            (ValueError, "is not a variant: write CHAPTER/VARIANT", "final"),
            (ValueError, "is not a variant", "07/"),
            (ValueError, "there is no chapter 99: the chapters are 01, 02", "99/final"),
            (ValueError, "01 is about softmax", "01/unsafe"),
            (ValueError, "11 is about masks, the operators run", "11/compressed"),
            (ValueError, "07 has no variant best: it has stages_1", "07/best"),
            (ValueError, "both forward passes: choose one", "07/final", "03/one_pass"),
            (TypeError, "is not a variant", 7),
        ):
            with self.assertRaisesRegex(error, words) as raised:
                fa_tutorial.use(*names)
            self.assertNotIn("\n", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
