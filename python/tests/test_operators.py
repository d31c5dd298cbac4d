"""The operators on the CPU, compared with float64: python -m unittest tests.test_operators, in python/.

Needs PyTorch, and the programs of the chapters in build/sim. FA_TUTORIAL_CALLS=2000: the number of random
calls. test_cuda.py runs the same tests on a GPU.
"""

from __future__ import annotations

import fractions
import math
import os
import unittest

import fa_tutorial
import torch
from fa_tutorial import scaled_dot_product_attention as attention
from torch._dynamo import compiled_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils import flop_counter

from . import random_calls, reference

CALLS = int(os.environ.get("FA_TUTORIAL_CALLS", "40"))
DTYPES = random_calls.DTYPES
OPERATOR = torch.ops.fa_tutorial.attention.default
BACKWARD = torch.ops.fa_tutorial.attention_backward.default


class OnDevice(unittest.TestCase):
    """Tests whose tensors are on `device`."""

    device = "cpu"

    def tensors(
        self, dtype=torch.float32, heads=2, kv_heads=2, seq_q=9, seq_k=9, head_dim=32, batch=1
    ) -> list[torch.Tensor]:
        """Q, K, V and dO."""
        shapes = [(batch, heads, seq_q, head_dim), (batch, kv_heads, seq_k, head_dim)]
        drawn = (torch.randn(shapes[which], device=self.device) for which in (0, 1, 1, 0))
        return [x.to(dtype).requires_grad_(number < 3) for number, x in enumerate(drawn)]


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

    def test_expanded_keys_and_values(self):
        """One head of one batch of K and V for all, as expand() makes it. Its gradient is the sum over
        all.
        """
        for dtype, causal in ((torch.float32, True), (torch.bfloat16, False)):
            q, k, v, do = self.tensors(dtype, heads=4, seq_q=37, seq_k=50, batch=2)
            k, v = (x.detach()[:1, :1].requires_grad_() for x in (k, v))
            wide = [x.expand(2, 4, 50, 32) for x in (k, v)]
            gradients = torch.autograd.grad(attention(q, *wide, is_causal=causal), (q, k, v), do)
            expected = reference.attention(q, *wide, do, causal, 32**-0.5)
            complaint = reference.complaint(expected, "dq", gradients[0])
            self.assertEqual(complaint, "")
            for x, found, name in zip((k, v), gradients[1:], ("dk", "dv"), strict=True):
                self.assertEqual(found.shape, x.shape)
                exact = expected.results[name].sum((0, 1), keepdim=True)
                size = 8**0.5 * expected.sizes[name]  # of the sum of 8 such gradients
                error = float((found.double() - exact).norm())
                self.assertLessEqual(error, reference.LIMITS[dtype] * size, name)

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
            o = attention(torch.sin(q), k, v, is_causal=True, scale=0.2, enable_gqa=True)
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

    def test_compiled_backward_pass(self):
        given = self.tensors()[:3]

        def loss():
            return attention(*given).pow(2).sum()

        expected = torch.autograd.grad(loss(), given)
        with compiled_autograd._enable(torch.compile(backend="aot_eager")):
            loss().backward()
        for x, right in zip(given, expected, strict=True):
            torch.testing.assert_close(x.grad, right)

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


class Transformations(OnDevice):
    """torch.func, and derivatives in forward mode."""

    def setUp(self):
        torch.manual_seed(0)
        torch.compiler.reset()
        self.q, self.k, self.v, self.do = (x.detach() for x in self.tensors(heads=4, kv_heads=2, seq_q=7))

    def attend(self, q, k, v) -> torch.Tensor:
        return attention(q, k, v, is_causal=True, enable_gqa=True)

    def loss(self, q, k, v, do) -> torch.Tensor:
        return (self.attend(q, k, v) * do).sum()

    def expected(self, q, k, v, do) -> tuple[torch.Tensor, ...]:
        """The gradients of loss(), without torch.func."""
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(self.loss(*leaves, do), leaves)

    def same(self, found, expected) -> None:
        for x, right in zip(found, expected, strict=True):
            torch.testing.assert_close(x, right)

    def batches(self) -> list[torch.Tensor]:
        """Three times Q, K, V and dO."""
        every = (self.q, self.k, self.v, self.do)
        return [torch.stack([x, 2 * x, -x]) for x in every]

    def test_gradients(self):
        given = (self.q, self.k, self.v, self.do)
        gradient = torch.func.grad(self.loss, argnums=(0, 1, 2))
        self.same(gradient(*given), self.expected(*given))
        o, pull = torch.func.vjp(self.attend, *given[:3])
        self.assertTrue(torch.equal(o, self.attend(*given[:3])))
        self.same(pull(self.do), self.expected(*given))
        compiled = torch.compile(gradient, fullgraph=True, backend="aot_eager")
        self.same(compiled(*given), self.expected(*given))

    def test_many_calls_at_once(self):
        q, k, v, _ = self.batches()
        each = torch.stack([self.attend(*one) for one in zip(q, k, v, strict=True)])
        call = torch.func.vmap(self.attend)
        self.same([call(q, k, v)], [each])
        inside = torch.func.vmap(self.attend, in_dims=(3, 2, 0))
        self.same([inside(q.movedim(0, 3), k.movedim(0, 2), v)], [each])
        shared = torch.func.vmap(self.attend, in_dims=(0, None, None))
        right = torch.stack([self.attend(x, k[0], v[0]) for x in q])
        self.same([shared(q, k[0], v[0])], [right])
        twice = torch.func.vmap(torch.func.vmap(self.attend, (None, 0, None)), (0, 0, 0))
        right = [[self.attend(q[i], k[i] + j, v[i]) for j in range(2)] for i in range(3)]
        found = twice(q, torch.stack([k, k + 1], 1), v)
        self.same([found], [torch.stack([torch.stack(row) for row in right])])
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        self.same([compiled(q, k, v)], [each])

    def test_gradients_of_many_calls(self):
        given = self.batches()
        right = [self.expected(*one) for one in zip(*given, strict=True)]
        right = [torch.stack(x) for x in zip(*right, strict=True)]
        gradient = torch.func.grad(self.loss, argnums=(0, 1, 2))
        self.same(torch.func.vmap(gradient)(*given), right)

        def sum_of_losses(*given):
            return torch.func.vmap(self.loss)(*given).sum()

        outside = torch.func.grad(sum_of_losses, argnums=(0, 1, 2))
        self.same(outside(*given), right)
        leaves = [x.requires_grad_() for x in given[:3]]
        plain = torch.autograd.grad(sum_of_losses(*leaves, given[3]), leaves)
        self.same(plain, right)

    def test_many_gradients_of_one_call(self):
        given = (self.q, self.k, self.v)
        sums = torch.func.jacrev(lambda q: self.attend(q, self.k, self.v).sum((0, 2, 3)))
        found = sums(self.q)
        for head in range(4):
            do = torch.zeros_like(self.do)
            do[:, head] = 1
            self.same([found[head]], [self.expected(*given, do)[0]])
        leaf = self.q.clone().requires_grad_()
        o = self.attend(leaf, self.k, self.v)
        several = torch.stack([self.do, 2 * self.do])
        (found,) = torch.autograd.grad(o, leaf, several, is_grads_batched=True)
        expected = self.expected(*given, self.do)[0]
        self.same(found, [expected, 2 * expected])

    def test_gradients_of_two_levels(self):
        """What one level of torch.func leaves alone, another one may want."""
        q, k, v, do = self.q, self.k, self.v, self.do
        dq, dk, _ = self.expected(q, k, v, do)

        def inner(q, k):
            gradient, value = torch.func.grad_and_value(self.loss)(q, k, v, do)
            return value, gradient

        found, gradient = torch.func.grad(inner, argnums=1, has_aux=True)(q, k)
        self.same([found, gradient], [dk, dq])
        leaf = k.clone().requires_grad_()
        value, gradient = inner(q, leaf)
        self.same([*torch.autograd.grad(value, leaf), gradient], [dk, dq])

    def refuses(self, words: str, call, *args) -> None:
        with self.assertRaises(NotImplementedError) as raised:
            call(*args)
        self.assertRegex(str(raised.exception), words)
        self.assertNotIn("\n", str(raised.exception))

    def test_forward_mode(self):
        q, k, v = self.q, self.k, self.v

        def of_q(x):
            return self.attend(x, k, v)

        def dual(operator):
            with forward_ad.dual_level():
                return operator(q, forward_ad.make_dual(k, k), v)

        def operator(q, k, v):
            return OPERATOR(q, k, v, True, 1.0, "", "")

        words = "no derivative in forward mode: use one in reverse mode"
        self.refuses(words, torch.func.jvp, of_q, (q,), (q,))
        self.refuses(words, torch.func.jvp, torch.func.vmap(of_q), (q[None],), (q[None],))
        self.refuses(words, torch.func.jacfwd(of_q), q)
        self.refuses(words, torch.func.hessian(lambda x: of_q(x).sum()), q)
        self.refuses(words, torch.func.linearize, of_q, q)
        self.refuses(words, torch.func.jvp, lambda x: operator(x, k, v), (q,), (q,))
        self.refuses(words, dual, self.attend)
        self.refuses(words, dual, operator)
        with forward_ad.dual_level():  # in which nothing is a dual number
            self.assertTrue(torch.equal(of_q(q), self.attend(q, k, v)))
        tangent = torch.compile(lambda x: torch.func.jvp(of_q, (x,), (x,)), backend="aot_eager")
        with self.assertRaisesRegex(Exception, words):
            tangent(q)

    def test_second_gradient(self):
        def first(q):
            return torch.func.grad(lambda x: self.attend(x, self.k, self.v).sum())(q)

        second = torch.func.grad(lambda q: first(q).sum())
        self.refuses("no gradient of its own", second, self.q)

    def test_of_the_scale(self):
        def scaled(scale):
            return attention(self.q, self.q, self.q, scale=scale).sum()

        scale = torch.tensor(0.5, device=self.device)
        with self.assertRaisesRegex(TypeError, "scale is a Tensor: it must be a"):
            torch.func.grad(scaled)(scale)
        with self.assertRaisesRegex(TypeError, "scale is a Tensor: it must be a"):
            torch.func.vmap(scaled)(scale[None])


class Empty(OnDevice):
    """Without queries or keys, no kernel runs. O of a query that sees no key is 0 and its LSE -inf."""

    lengths = (
        {"batch": 0},
        {"heads": 0, "kv_heads": 0},
        {"heads": 0, "kv_heads": 2},
        {"seq_q": 0},
        {"seq_k": 0},
        {"seq_q": 0, "seq_k": 0},
        {"batch": 0, "seq_k": 0},
    )

    def setUp(self):
        torch.manual_seed(0)
        torch.compiler.reset()

    def is_right(self, call, q, k, v, do, what: object) -> None:
        o = call(q, k, v, is_causal=True, enable_gqa=True)
        self.assertTrue(torch.equal(o, torch.zeros_like(q)), what)
        gradients = torch.autograd.grad(o, (q, k, v), do)
        for found, given in zip(gradients, (q, k, v), strict=True):
            self.assertTrue(torch.equal(found, torch.zeros_like(given)), what)
            self.assertEqual(found.dtype, given.dtype)

    def test_results(self):
        for dtype in DTYPES:
            for lengths in self.lengths:
                given = self.tensors(dtype, **lengths)
                self.is_right(attention, *given, (dtype, lengths))
                with torch.no_grad():
                    options = {"enable_gqa": True, "return_lse": True}
                    _, lse = attention(*given[:3], **options)
                self.assertTrue(torch.equal(lse, torch.full_like(lse, -math.inf)))
                self.assertEqual(lse.shape, given[0].shape[:3])

    def test_views(self):
        q, k, v, do = self.tensors(torch.bfloat16, seq_q=12, seq_k=12, head_dim=36)
        self.is_right(attention, q[:, :, 3:3], k, v, do[:, :, 3:3], "queries")
        self.is_right(attention, q, k[:, :, 12:], v[:, :, 12:], do, "keys")
        inside = [x.transpose(1, 2).contiguous().transpose(1, 2)[:0] for x in (q, k, v)]
        self.is_right(attention, *inside, do[:0], "batch")

    def test_fake(self):
        """Fake tensors have the layout of the results, those of expanded inputs, too."""
        given = [self.tensors(torch.bfloat16, **lengths) for lengths in self.lengths]
        q, k, v, do = self.tensors(torch.bfloat16, batch=3, heads=4, kv_heads=4)
        given += [(q, k[:1, 1:2].expand(k.shape), v[:1].expand(v.shape), do)]
        rest = (True, 0.2, "")
        for tensors in given:
            q, k, v, do = (x.detach() for x in tensors)
            results = OPERATOR(q, k, v, *rest, "")
            gradients = BACKWARD(do, q, k, v, *results, *rest)
            with FakeTensorMode() as mode:
                q, k, v, do = (mode.from_tensor(x) for x in (q, k, v, do))
                fake = OPERATOR(q, k, v, *rest, "")
                fakes = (*fake, *BACKWARD(do, q, k, v, *fake, *rest))
            for x, right in zip(fakes, (*results, *gradients), strict=True):
                for of in ("shape", "dtype", "device"):
                    self.assertEqual(getattr(x, of), getattr(right, of))
                self.assertEqual(x.stride(), right.stride())

    def test_compiled(self):
        options = {"backend": "aot_eager", "fullgraph": True}
        compiled = torch.compile(attention, dynamic=True, **options)
        q, k, v, _ = self.tensors()
        self.assertEqual(compiled(q, k, v, enable_gqa=True).shape, q.shape)
        for lengths in self.lengths:
            self.is_right(compiled, *self.tensors(**lengths), lengths)
        torch.compiler.reset()  # eight lengths are as many as it compiles for
        static = torch.compile(attention, dynamic=False, **options)
        self.is_right(static, *self.tensors(seq_k=0), "compiled for zero keys")

    def test_a_batch_whose_length_only_the_data_tell(self):
        def some(q, wanted):
            chosen = q[wanted]
            return attention(chosen, chosen, chosen)

        def first(q, count):
            keys = q[:, :, : count.item()]
            return attention(q, keys, keys)

        q, *_ = self.tensors(batch=3)
        wanted = torch.tensor([True, False, True], device=self.device)
        count = torch.tensor(4, device=self.device)
        options = {"capture_dynamic_output_shape_ops": True}
        with torch._dynamo.config.patch(capture_scalar_outputs=True, **options):
            calls = [(some, wanted, wanted & False)]
            if torch.__version__ >= torch.torch_version.TorchVersion("2.11"):
                calls.append((first, count, 0 * count))  # older versions refuse q[...]
            for call, few, none in calls:
                compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
                for which in (few, none):
                    self.assertTrue(torch.equal(compiled(q, which), call(q, which)))

    def test_no_data(self):
        for seq_k in (0, 4):
            q = torch.zeros(2, 3, 5, 32, device="meta", requires_grad=True)
            k = torch.zeros(2, 1, seq_k, 32, device="meta").expand(2, 3, seq_k, 32)
            o = attention(q, k, k)
            o.sum().backward()
            self.assertEqual((o.shape, q.grad.shape), (q.shape, q.shape))


class Flops(OnDevice):
    def test_as_pytorch_counts_them(self):
        q, k, v, do = self.tensors(heads=4, kv_heads=2, seq_q=7, seq_k=11)
        of_q, of_k = q.shape, (1, 4, 11, 32)  # PyTorch's formulas take equal heads
        forward = flop_counter.sdpa_flop_count(of_q, of_k, of_k)
        backward = flop_counter.sdpa_backward_flop_count(of_q, of_q, of_k, of_k)
        self.assertEqual((forward, backward), (4 * 7 * 11 * 4 * 32, 10 * 7 * 11 * 4 * 32))
        for causal in (False, True):  # on a GPU, the second call runs in C++
            with flop_counter.FlopCounterMode(display=False) as counter:
                o = attention(q, k, v, is_causal=causal, enable_gqa=True)
            self.assertEqual(counter.get_total_flops(), forward)
            with flop_counter.FlopCounterMode(display=False) as counter:
                torch.autograd.grad(o, (q, k, v), do)
            self.assertEqual(counter.get_total_flops(), backward)

    def test_of_nothing(self):
        q, k, v, do = self.tensors(seq_k=0)
        with flop_counter.FlopCounterMode(display=False) as counter:
            torch.autograd.grad(attention(q, k, v), (q, k, v), do)
        self.assertEqual(counter.get_total_flops(), 0)


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
            (r"head_dim must be at least 1", *3 * [z(1, 2, 3, 0)]),
            (r"key has .* and value .*: they must", good, z(1, 2, 0, 32), good),
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
        none = z(1, 0, 3, 32)
        self.refuses(ValueError, "a multiple", good, none, none, enable_gqa=True)

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
        same = torch.zeros(1, 2, 3, 1, device=self.device).expand(1, 2, 3, 32)
        self.refuses(ValueError, "value has the strides", good, good, same)
        odd = torch.zeros(good.numel() + 1, device=self.device)[1:].view(good.shape)
        self.refuses(ValueError, r"pass key.clone\(\)", good, odd, good)
        self.refuses(ValueError, "to_dense", good.to_sparse(), good, good)

    def test_options(self):
        good = 3 * [torch.zeros(1, 2, 3, 32, device=self.device)]
        mask = torch.ones(3, 3, dtype=torch.bool, device=self.device)
        self.refuses(NotImplementedError, "attn_mask", *good, attn_mask=mask)
        self.refuses(NotImplementedError, "query is torch.float32: .* dropout_p", *good, dropout_p=0.1)
        for scale in (0.0, -1.0, math.inf, math.nan):
            self.refuses(ValueError, "a finite number above 0", *good, scale=scale)

    def test_numbers(self):
        """A scale that is a parameter would get no gradient: PyTorch's own attention takes the same
        numbers.
        """
        good = 3 * [torch.zeros(1, 2, 3, 32, device=self.device)]
        number = torch.tensor(0.5, device=self.device)
        for words, scale in (
            ("scale is a Parameter: it must be a number", torch.nn.Parameter(number)),
            ("scale is a Tensor", number.clone().requires_grad_()),
            ("scale is a Tensor", number[None]),
            ("scale is a str", "0.5"),
            ("scale is a complex", 0.5j),
        ):
            with self.assertRaises(TypeError):
                torch.nn.functional.scaled_dot_product_attention(*good, scale=scale)
            self.refuses(TypeError, words, *good, scale=scale)
            with torch.no_grad():
                self.refuses(TypeError, words, *good, scale=scale)
        none = torch.nn.Parameter(0 * number)
        self.refuses(TypeError, "dropout_p is a Parameter", *good, dropout_p=none)
        for scale in (number, 1, fractions.Fraction(1, 2)):
            self.assertTrue(torch.equal(attention(*good, scale=scale), good[0]))

    def test_no_backward_pass(self):
        given = self.tensors(head_dim=64)[:3]
        fa_tutorial.use("03/one_pass", "08/mma_fused")
        words = "no backward pass.*08/mma_fused cannot run this: dtype is fp32"
        self.refuses(ValueError, words, *given)
        with torch.no_grad():
            self.assertEqual(attention(*given).shape, given[0].shape)
        small = self.tensors()[:3]
        self.refuses(NotImplementedError, "lse has no gradient", *small, return_lse=True)

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
        with self.assertRaisesRegex(ValueError, "07/best.* (no|is not a) variant|variant 'best': must be"):
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
            (ValueError, "11 is about masks, use.. chooses among", "11/compressed"),
            (ValueError, "07 has no variant best: it has stages_1", "07/best"),
            (ValueError, "both forward passes: choose one", "07/final", "03/one_pass"),
            (TypeError, "is not a variant", 7),
        ):
            with self.assertRaisesRegex(error, words) as raised:
                fa_tutorial.use(*names)
            self.assertNotIn("\n", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
