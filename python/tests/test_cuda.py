"""The operators on a GPU: python -m unittest tests.test_cuda, in python/. Skipped where PyTorch finds no GPU.

The tests of the other files again, and what only a GPU has: streams, graphs, several devices, the memory that
a call takes and the time that it costs the host. Needs the chapters' libraries: ./learn test --pytorch
--preset cuda builds them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import unittest
from unittest import mock

import fa_tutorial
import torch
from fa_tutorial import attention as attend
from fa_tutorial import chapter_library, decoding, masked, native, operators, selection
from fa_tutorial import scaled_dot_product_attention as attention
from fa_tutorial.masks import Masks
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from . import (
    masked_calls,
    random_calls,
    reference,
    test_attention,
    test_decoding,
    test_flash_attn,
    test_operators,
    test_training,
    test_transformers,
    test_varlen,
    triton_cases,
)

on_a_gpu = unittest.skipUnless(torch.cuda.is_available(), "PyTorch finds no GPU")
HOW_TO_BUILD = "the operators in C++ are not built: python -m fa_tutorial.build_native"
SLEEP = 100_000_000  # cycles: at least 50 ms
# What an operator may take of the host's time in addition to a launch.
MOST_OVERHEAD_US = 10.0


@on_a_gpu
class AgreementOnGpu(test_operators.Agreement):
    device = "cuda"
    longest = 600


@on_a_gpu
class AutogradOnGpu(test_operators.Autograd):
    device = "cuda"

    def test_compiled_backward_pass(self):
        """Compiled autograd traces the nodes of Python, but not that of the operators in C++."""
        if not native.is_loaded():
            return super().test_compiled_backward_pass()
        with self.assertRaisesRegex(NotImplementedError, "AttentionBackward"):
            super().test_compiled_backward_pass()

    @unittest.skipUnless(native.is_loaded(), HOW_TO_BUILD)
    def test_opcheck_of_the_operators_in_cpp(self):
        for dtype in test_operators.DTYPES:
            q, k, v, do = self.tensors(dtype, heads=4, seq_q=5, seq_k=7)
            rest = (True, 0.2, "", "")
            self.assertIs(operators.call, torch.ops.fa_tutorial.attention_native.default)
            for _ in range(2):  # in Python at first
                o, lse = operators.call(q, k, v, *rest)
                torch.autograd.grad(o, (q, k, v), do)
            torch.library.opcheck(operators.call, (q, k, v, *rest))
            q, k, v, o = (x.detach() for x in (q, k, v, o))
            torch.library.opcheck(operators.call, (q, k, v, *rest))
            backward = torch.ops.fa_tutorial.attention_backward_native.default
            torch.library.opcheck(backward, (do, q, k, v, o, lse, True, 0.2, ""))

    @unittest.skipUnless(native.is_loaded(), HOW_TO_BUILD)
    def test_who_sees_a_call(self):
        """at_once() leaves a call alone that someone else has to see."""
        q, k, v, do = self.tensors(torch.bfloat16, head_dim=64)
        exact = reference.attention(q, k, v, do, False, 64**-0.5)

        def computes(*tensors: torch.Tensor) -> bool:
            o = operators.at_once(*tensors, False, None, False, "", "")
            if o is not None:
                self.assertEqual(reference.complaint(exact, "o", o), "")
                self.assertEqual(o.stride(), q.stride())
            return o is not None

        native.forget()
        self.assertFalse(computes(q, k, v))
        torch.autograd.grad(attention(q, k, v), (q, k, v), do)
        self.assertTrue(computes(q, k, v))
        o = attention(q, k, v)
        self.assertEqual(o.grad_fn.name(), "AttentionBackward")
        gradients = torch.autograd.grad(o, (q, k, v), do)
        for name, found in zip(("dq", "dk", "dv"), gradients, strict=True):
            self.assertEqual(reference.complaint(exact, name, found), "")
        with torch.no_grad():
            self.assertTrue(computes(q, k, v))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            self.assertTrue(computes(q, k, v))
        for someone in (
            torch.autocast("cuda", dtype=torch.float16),
            torch.overrides.BaseTorchFunctionMode(),
            TorchDispatchMode(),
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        ):
            with someone:
                self.assertFalse(computes(q, k, v), someone)
        with forward_ad.dual_level():
            self.assertTrue(computes(q, k, v))
            self.assertFalse(computes(q, forward_ad.make_dual(k, k), v))

        def inside(x: torch.Tensor) -> torch.Tensor:
            self.assertFalse(computes(x, k, v))
            return x.sum()

        torch.func.vmap(inside)(q.detach()[None])
        torch.func.grad(inside)(q.detach())
        self.assertFalse(computes(q, k, v.cpu()))
        self.assertFalse(computes(q, k, v[:, :, 1:]))

    def test_compiled_by_inductor(self):
        self.compiled_agrees("inductor")


@on_a_gpu
class TransformationsOnGpu(test_operators.Transformations):
    device = "cuda"

    def test_many_gradients_in_cpp(self):
        for _ in range(2):  # the second time, autograd's node is the one of C++
            self.test_many_gradients_of_one_call()


@on_a_gpu
class EmptyOnGpu(test_operators.Empty):
    device = "cuda"


@on_a_gpu
class FlopsOnGpu(test_operators.Flops):
    device = "cuda"


@on_a_gpu
class RefusalsOnGpu(test_operators.Refusals):
    device = "cuda"

    def test_two_kinds_of_devices(self):
        good = torch.zeros(1, 2, 3, 32, device="cuda")
        words = "key is on cpu and query on cuda:0: move them to one device"
        self.refuses(ValueError, words, good, good.cpu(), good)

    def test_libraries_that_are_not_built(self):
        native.forget()
        chapter_library.load.cache_clear()
        self.addCleanup(chapter_library.load.cache_clear)
        good = torch.zeros(1, 2, 3, 32, device="cuda")
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, {"FA_TUTORIAL_BUILD": folder}),
        ):
            words = r"there is no .*libch05.*--target ch05_\w+_library\) builds it"
            self.refuses(FileNotFoundError, words, good, good, good)


@on_a_gpu
class SelectionOnGpu(test_operators.Selection):
    device = "cuda"


@on_a_gpu
class AttentionOnGpu(test_attention.Agreement):
    device = "cuda"
    longest = 600
    calls = 2  # the second one in C++


def calls_of_each_argument() -> dict[str, masked_calls.Call]:
    """Small calls of attention() with each of its arguments, on a GPU."""
    calls = {}

    def call() -> masked_calls.Call:
        return masked_calls.tensors(torch.bfloat16, 1, 2, 1, 64, 64, 64, "cuda")

    for name, value in {
        "window": 20,
        "softcap": 3.0,
        "dropout_p": 0.25,
        "documents": torch.arange(64, device="cuda", dtype=torch.int32) // 30,
        "key_lengths": torch.tensor([50], device="cuda", dtype=torch.int32),
        "block_mask": torch.ones(2, 1, 1, device="cuda", dtype=torch.bool),
        "alibi_slopes": torch.rand(2, device="cuda"),
        "sinks": torch.randn(2, device="cuda").requires_grad_(),
    }.items():
        calls[name] = call()
        calls[name].arguments[name] = value
    calls["deterministic"] = call()
    calls["deterministic"].arguments |= {"window": 20, "deterministic": True}
    return calls


def decoding_calls() -> dict[str, tuple]:
    """The arguments of small calls of decode()."""
    q, k, v = (
        torch.randn(2, heads, keys, 64, device="cuda").bfloat16()
        for heads, keys in ((4, 1), (2, 64), (2, 64))
    )
    lengths = torch.tensor([64, 9], device="cuda", dtype=torch.int32)
    table = torch.tensor([[1], [0]], device="cuda", dtype=torch.int32)
    return {"decode": (q, k, v), "lengths": (q, k, v, lengths), "block_table": (q, k, v, lengths, table)}


@on_a_gpu
@unittest.skipUnless(native.is_loaded(), HOW_TO_BUILD)
class NewFunctionsInCpp(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_each_argument(self):
        """The second call does not run the operator in Python, nor does its backward pass."""
        for name, call in calls_of_each_argument().items():
            leaves = [call.q, call.k, call.v, *[x for x in (call.arguments.get("sinks"),) if x is not None]]

            def run(call=call, leaves=leaves) -> tuple:
                torch.manual_seed(1)
                o = fa_tutorial.attention(call.q, call.k, call.v, **call.arguments)
                return o, *torch.autograd.grad(o, leaves, call.do)

            in_python = run()
            failing = mock.Mock(side_effect=AssertionError("ran in Python"))
            with mock.patch.object(masked.execution, "run", failing):
                o, *gradients = run()
            self.assertEqual(o.grad_fn.name(), "MaskedAttentionBackward", name)
            for x, same in zip((o, *gradients), in_python, strict=True):
                torch.testing.assert_close(x, same, rtol=0.02, atol=1e-2, msg=name)
            self.assertTrue(torch.equal(o, in_python[0]), name)

    def test_decode(self):
        for name, given in decoding_calls().items():
            in_python = fa_tutorial.decode(*given, return_lse=True)
            failing = mock.Mock(side_effect=AssertionError("ran in Python"))
            with mock.patch.object(masked.execution, "run", failing):
                found = fa_tutorial.decode(*given, return_lse=True)
            for x, same in zip(found, in_python, strict=True):
                self.assertTrue(torch.equal(x, same), name)

    def test_numbers_that_have_changed(self):
        """They are checked again."""
        calls = calls_of_each_argument()
        for name, wrong in (("documents", -1), ("key_lengths", 65)):
            call = calls[name]
            for _ in range(2):
                fa_tutorial.attention(call.q, call.k, call.v, **call.arguments)
            call.arguments[name][0] = wrong
            with self.assertRaisesRegex(ValueError, rf"{name} has the number {wrong}"):
                fa_tutorial.attention(call.q, call.k, call.v, **call.arguments)
        q, k, v, lengths, table = decoding_calls()["block_table"]
        for _ in range(2):
            fa_tutorial.decode(q, k, v, lengths, table)
        table[1, 0] = 2
        with self.assertRaisesRegex(ValueError, "block_table has the number 2"):
            fa_tutorial.decode(q, k, v, lengths, table)

    def test_second_gradient_and_many_gradients(self):
        call = calls_of_each_argument()["window"]
        inputs = (call.q, call.k, call.v)
        for _ in range(2):
            o = fa_tutorial.attention(*inputs, window=20)
            torch.autograd.grad(o, inputs, call.do)
        o = fa_tutorial.attention(*inputs, window=20)
        with self.assertRaisesRegex(NotImplementedError, "no gradient of its own"):
            gradients = torch.autograd.grad(o, inputs, call.do, create_graph=True)
            gradients[0].sum().backward()
        o = fa_tutorial.attention(*inputs, window=20)
        each = torch.stack((call.do, 2 * call.do))
        (dv,) = torch.autograd.grad(o, call.v, each, is_grads_batched=True)
        torch.testing.assert_close(dv[1], 2 * dv[0], rtol=0.02, atol=1e-2)


@on_a_gpu
class AutogradOfAttentionOnGpu(test_attention.Autograd):
    device = "cuda"


@on_a_gpu
class RefusalsOfAttentionOnGpu(test_attention.Refusals):
    device = "cuda"


@on_a_gpu
class VarlenOnGpu(test_varlen.Varlen):
    device = "cuda"
    longest = 300


@on_a_gpu
class FlashAttnOnGpu(test_flash_attn.FlashAttn):
    device = "cuda"


@on_a_gpu
class ModelsOnGpu(test_transformers.Models):
    device = "cuda"


@on_a_gpu
class DecodingOnGpu(test_decoding.Decoding):
    device = "cuda"
    longest = 3000

    def test_fp8(self):
        """A key is its element times the scale of its head."""
        lengths = torch.tensor([50, 9], device="cuda")
        q, sequences = self.sequences([50, 50])
        scales = [torch.rand(2, device="cuda") + 0.5 for _ in "kv"]
        caches = [torch.cat(x).to(torch.float8_e4m3fn) for x in sequences]
        given = dict(zip(("k_scale", "v_scale"), scales, strict=True))
        found = fa_tutorial.decode(q, *caches, lengths, return_lse=True, **given)
        wide = [x.double() * scale[:, None, None].double() for x, scale in zip(caches, scales, strict=True)]
        parts = [[x[row : row + 1, :, :length] for row, length in enumerate((50, 9))] for x in wide]
        self.agrees(q, parts, found)


@on_a_gpu
class GradientsOfAModelOnGpu(test_training.ModelTest):
    device = "cuda"
    other_forward = "05/register_tiled"  # takes the strides of the model's q, k and v

    def test_a_recorded_step_changes_no_token(self):
        text, passed, _ = self.written("ours", recorded=True)
        self.assertEqual(
            passed, [4, 1, 1, 12, 12]
        )  # two steps call the model: the first, and the recorded one
        self.assertEqual(text, self.written("ours", cached=False)[0])


@on_a_gpu
class TrainingOnGpu(test_training.Resumed):
    options = ("--device", "cuda", "--deterministic", "--runs", "ours")


def inputs(dtype=torch.bfloat16, seq=300, head_dim=64, heads=6) -> list[torch.Tensor]:
    """Q, K, V and dO on the current device."""
    shape = (2, heads, seq, head_dim)
    return [torch.randn(shape, device="cuda").to(dtype) for _ in range(4)]


def forward_and_backward(q, k, v, do) -> tuple[torch.Tensor, ...]:
    """O, dQ, dK and dV."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    o = attention(q, k, v, is_causal=True)
    return o.detach(), *torch.autograd.grad(o, (q, k, v), do)


class Compared(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.addCleanup(fa_tutorial.use)

    def is_right(self, given: list, found: tuple, what: object = None) -> None:
        """Compares the results of forward_and_backward() with float64."""
        exact = reference.attention(*given, True, given[0].shape[-1] ** -0.5)
        for name, x in zip(("o", "dq", "dk", "dv"), found, strict=True):
            share = reference.share_of_limit(exact, name, x)
            self.assertLessEqual(share, 1.0, (name, what))


@on_a_gpu
class Streams(Compared):
    def test_a_call_waits_for_its_stream_alone(self):
        """Each stream writes its inputs late. Kernels on another stream would read the NaN before."""
        for dtype in random_calls.DTYPES:
            given = [inputs(dtype) for _ in range(4)]
            forward_and_backward(*given[0])  # loads kernels, which takes the host long
            late = [[torch.full_like(x, torch.nan) for x in one] for one in given]
            torch.cuda.synchronize()
            streams = [torch.cuda.Stream() for _ in given]
            found = []
            for stream, empty, one in zip(streams, late, given, strict=True):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(SLEEP)
                    for x, values in zip(empty, one, strict=True):
                        x.copy_(values)
                    found.append(forward_and_backward(*empty))
            busy = [not stream.query() for stream in streams]
            torch.cuda.synchronize()
            self.assertTrue(all(busy), "a call waited for the GPU")
            for one, results in zip(given, found, strict=True):
                self.is_right(one, results, dtype)

    def test_many_calls_at_once(self):
        """Kernels of several streams overlap: nothing that they write may be shared."""
        given = [inputs(seq=700) for _ in range(3)]
        streams = [torch.cuda.Stream() for _ in given]
        torch.cuda.synchronize()
        found = []
        for number in range(30):
            with torch.cuda.stream(streams[number % 3]):
                found.append(forward_and_backward(*given[number % 3]))
        torch.cuda.synchronize()
        for number, results in enumerate(found):
            self.is_right(given[number % 3], results, number)


@on_a_gpu
class Graphs(Compared):
    def captured(self, dtype: torch.dtype) -> None:
        given = inputs(dtype)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            forward_and_backward(*given)  # what is done once, before the capture
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = forward_and_backward(*given)
        for _ in range(3):
            for x, other in zip(given, inputs(dtype), strict=True):
                x.copy_(other)
            for x in results:
                x.fill_(torch.nan)
            graph.replay()
            self.is_right(given, results, dtype)

    def test_captured_and_replayed(self):
        for dtype in random_calls.DTYPES:
            self.captured(dtype)

    def test_captured_kernels_of_chapters_07_and_08(self):
        with fa_tutorial.use("07/final", "08/mma_pipelined"):
            self.captured(torch.bfloat16)

    def test_compiled_with_graphs(self):
        torch.compiler.reset()
        compiled = torch.compile(attention, fullgraph=True, mode="reduce-overhead")
        given = inputs()
        for _ in range(4):  # warmed up, captured, replayed
            q, k, v = (x.detach().requires_grad_() for x in given[:3])
            torch.compiler.cudagraph_mark_step_begin()
            o = compiled(q, k, v, is_causal=True)
            gradients = torch.autograd.grad(o, (q, k, v), given[3])
            self.is_right(given, (o.detach(), *gradients))


@on_a_gpu
class GraphsOfMasksAndCaches(unittest.TestCase):
    """A graph of attention() or decode() reads the numbers that tensors have when it is replayed."""

    def captured(self, function) -> torch.cuda.CUDAGraph:
        function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.found = function()
        return graph

    def replayed(self, function, lengths: torch.Tensor) -> None:
        graph = self.captured(function)
        lengths.copy_(torch.tensor([7, 150]))
        graph.replay()
        self.assertTrue(torch.equal(self.found, function()))

    def test_masks(self):
        call = masked_calls.tensors(torch.bfloat16, 2, 4, 2, 200, 200, 64, "cuda")
        lengths = torch.tensor([200, 30], dtype=torch.int32, device="cuda")
        masks = {"is_causal": True, "window": 50, "key_lengths": lengths}
        inputs = [x.detach() for x in (call.q, call.k, call.v)]
        self.replayed(lambda: fa_tutorial.attention(*inputs, **masks), lengths)

    def test_decode(self):
        q = torch.randn(2, 8, 1, 128, device="cuda").bfloat16()
        k, v = (torch.randn(2, 2, 300, 128, device="cuda").bfloat16() for _ in "kv")
        lengths = torch.tensor([300, 30], dtype=torch.int32, device="cuda")
        self.replayed(lambda: fa_tutorial.decode(q, k, v, lengths), lengths)


@unittest.skipUnless(torch.cuda.device_count() > 1, "there is no second GPU")
class Devices(Compared):
    def test_tensors_of_another_device(self):
        for device in ("cuda:1", "cuda:0", "cuda:1"):
            given = [x.to(device) for x in inputs()]
            found = forward_and_backward(*given)
            self.assertEqual({str(x.device) for x in found}, {device})
            self.is_right(given, found, device)
        self.assertEqual(torch.cuda.current_device(), 0)

    def test_two_devices_in_one_call(self):
        q, k, v, _ = inputs()
        with self.assertRaisesRegex(ValueError, "key is on cuda:1 and query on cuda:0"):
            attention(q, k.to("cuda:1"), v)


@on_a_gpu
class Layouts(Compared):
    def packed(self, dtype=torch.bfloat16) -> list[torch.Tensor]:
        """Q, K and V as one linear layer computes them: views of [batch, seq, 3, heads, head_dim]."""
        qkv = torch.randn(2, 300, 3, 6, 64, device="cuda").to(dtype)
        return [x.transpose(1, 2) for x in qkv.unbind(2)]

    def test_heads_inside(self):
        q, k, v = self.packed()
        exact = reference.attention(q, k, v, q, True, 64**-0.5)
        with fa_tutorial.use("07/final"), torch.no_grad():
            for _ in range(2):
                o = attention(q, k, v, is_causal=True)
                share = reference.share_of_limit(exact, "o", o)
                self.assertLessEqual(share, 1.0)
                self.assertTrue(o.transpose(1, 2).is_contiguous())
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            attention(q, k, v, is_causal=True)
            taken = torch.cuda.max_memory_allocated() - before
        self.assertLess(taken, 1.1 * o.nbytes)  # O and LSE, and no copy

    def test_expanded(self):
        """One head of one batch of K and V for all: kernels that take strides read it where it is."""
        q, k, v, do = inputs(seq=4000)
        k, v = (x[:1, :1].expand(q.shape) for x in (k, v))
        exact = reference.attention(q, k, v, do, True, 64**-0.5)
        before = torch.cuda.memory_allocated()
        for variant in ("", "07/final", "09/final"):
            if torch.cuda.get_device_capability() != (9, 0) and variant[:2] == "09":
                continue
            with fa_tutorial.use(*filter(None, [variant])), torch.no_grad():
                for _ in range(2):  # the second time in C++
                    torch.cuda.reset_peak_memory_stats()
                    o = attention(q, k, v, is_causal=True)
                    taken = torch.cuda.max_memory_allocated() - before
                    self.assertLess(taken, 1.5 * o.nbytes, variant)  # no copy of K or V
                    share = reference.share_of_limit(exact, "o", o)
                    self.assertLessEqual(share, 1.0, variant)
                    del o
        for _ in range(2):
            self.is_right([q, k, v, do], forward_and_backward(q, k, v, do))

    def test_expanded_in_every_variant(self):
        for name in fa_tutorial.variants():
            done = 0
            for dtype in (torch.float32, torch.bfloat16):
                q, k, v, do = inputs(dtype, seq=100)
                k = k[:1].expand(k.shape)
                v = v[:, :1].expand(v.shape)
                with fa_tutorial.use(name):
                    try:
                        for _ in range(2):
                            found = forward_and_backward(q, k, v, do)
                            self.is_right([q, k, v, do], found, (name, dtype))
                        done += 1
                    except ValueError as refusal:
                        self.assertRegex(str(refusal), rf"{name}.*dtype is .*takes")
            self.assertGreaterEqual(done, 1, name)

    def test_variants_that_need_dense_tensors(self):
        q, k, v = self.packed(torch.float32)
        with fa_tutorial.use("03/one_pass"):
            words = r"03/one_pass cannot run this: q has the strides .*contiguous"
            with self.assertRaisesRegex(ValueError, words) as raised:
                attention(q, k, v)
            self.assertNotIn("\n", str(raised.exception))


@on_a_gpu
class ManyHeads(unittest.TestCase):
    def test_more_than_the_other_dimensions_of_a_grid(self):
        """A grid has at most 65535 blocks in y and in z: a variant computes more heads, or says in one
        sentence that it does not. With one key, O is V."""
        self.addCleanup(fa_tutorial.use)
        many = 65536
        for name in fa_tutorial.variants():
            done = 0
            for dtype in (torch.float32, torch.bfloat16):
                for batch, heads, kv_heads in ((many, 1, 1), (1, many, many), (1, many, 1)):
                    q = torch.randn(batch, heads, 1, 64, device="cuda").to(dtype)
                    k, v = (x[:, :kv_heads].clone().requires_grad_() for x in (q, 2 * q))
                    with fa_tutorial.use(name):
                        try:
                            for _ in range(2):  # the second time in C++
                                o = attention(q, k, v, enable_gqa=True)
                                (dv,) = torch.autograd.grad(o, v, torch.ones_like(o))
                        except ValueError as refusal:
                            words = rf"{name} cannot run this: .*(at most 65535|dtype is)"
                            self.assertRegex(str(refusal), words)
                            self.assertNotIn("\n", str(refusal))
                            continue
                    torch.testing.assert_close(o, v.expand(o.shape), msg=name)
                    expected = torch.full_like(v, heads // kv_heads)
                    # P is 1, up to the rounding of LSE, which is near 16.
                    torch.testing.assert_close(
                        dv,
                        expected,
                        rtol=1e-5 if dtype == torch.float32 else 0.05,
                        atol=0.0,
                        msg=lambda text, name=name, shape=q.shape: f"{name}, {shape}: {text}",
                    )
                    done += 1
            print(f"{name}: {done} of 6 with {many} heads", file=sys.stderr)


@on_a_gpu
class Deterministic(Compared):
    def test_the_same_bits(self):
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        for dtype in random_calls.DTYPES:
            given = inputs(dtype, seq=1500)
            first = forward_and_backward(*given)
            for _ in range(3):
                for x, again in zip(first, forward_and_backward(*given), strict=True):
                    self.assertTrue(torch.equal(x, again), dtype)
            self.is_right(given, first, dtype)


@on_a_gpu
class Costs(unittest.TestCase):
    def setUp(self):
        self.addCleanup(fa_tutorial.use)

    def test_memory(self):
        """A call takes O and LSE, its workspace, and no copy of an input."""
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v, _ = inputs(dtype, seq=4096)
            torch.cuda.synchronize()
            attention(q, k, v)
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            o = attention(q, k, v)
            taken = torch.cuda.max_memory_allocated() - before
            lse = 4 * o.numel() // o.shape[-1]
            # Less than half a tensor more: the workspace of chapter 09 counts tiles.
            self.assertLess(taken, o.nbytes + lse + q.nbytes // 2, dtype)

    @unittest.skipUnless(native.is_loaded(), HOW_TO_BUILD)
    def test_time_of_the_host(self):
        """How much longer than a launch of its kernels a call keeps the host busy."""
        for variant in ("07/final", "09/final"):
            if torch.cuda.get_device_capability() != (9, 0) and variant[:2] == "09":
                continue
            fa_tutorial.use(variant)
            found = overhead_us(variant)
            print(f"{variant}: {found}", file=sys.stderr)
            extra = found["operator"] - found["launch"]
            self.assertLess(extra, MOST_OVERHEAD_US, (variant, found))
            recorded = found["operator, with a gradient"]
            pytorchs = found["PyTorch's attention, with a gradient"]
            self.assertLess(recorded, pytorchs, (variant, found))

    @unittest.skipUnless(native.is_loaded(), HOW_TO_BUILD)
    def test_time_of_the_host_for_new_arguments(self):
        for name, found in overheads_of_new_arguments().items():
            print(f"{name}: {found}", file=sys.stderr)
            self.assertLess(found["operator"] - found["launch"], MOST_OVERHEAD_US, (name, found))


def host_us(call, calls: int = 200, rounds: int = 25) -> float:
    """The host's time for a call in microseconds, in the fastest tenth of the rounds; the GPU has caught up
    before each.
    """
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append(1e6 * (time.perf_counter() - begin) / calls)
    torch.cuda.synchronize()
    return statistics.quantiles(times, n=10)[0]


def overhead_us(variant: str) -> dict[str, float]:
    """The host's time for a launch, and for calls of the operator and of PyTorch's own attention, which
    autograd records or not. The kernels are so short that the host never waits for the GPU."""
    q, k, v = (torch.randn(1, 1, 64, 64, device="cuda", dtype=torch.bfloat16) for _ in "qkv")
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    chapter, name = selection.split(variant)
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    given = chapter_library.describe(tensors, False, 0.125)
    bound = chapter_library.load(chapter).bind(name, given)
    stream = torch.cuda.current_stream().cuda_stream
    functional = torch.nn.functional.scaled_dot_product_attention
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    attention(*leaves).sum().backward()  # from now on, the backward pass is known
    return {
        "launch": host_us(lambda: bound.launch(stream)),
        "operator": host_us(lambda: attention(q, k, v)),
        "operator, with a gradient": host_us(lambda: attention(*leaves)),
        "PyTorch's attention": host_us(lambda: functional(q, k, v)),
        "PyTorch's attention, with a gradient": host_us(lambda: functional(*leaves)),
    }


def _launch(variant: str, tensors: dict, more) -> float:
    """The host's time for a launch of a variant on these tensors."""
    chapter, name = selection.split(variant)
    library = chapter_library.load(chapter)
    given = chapter_library.describe(tensors, False, 0.125)
    added = more.add_to(given, tensors)
    workspace = torch.zeros(library.workspace_bytes(name, given), dtype=torch.uint8, device="cuda")
    given.workspace = workspace.data_ptr() or None
    bound = library.bind(name, given)
    stream = torch.cuda.current_stream().cuda_stream
    time_of_launch = host_us(lambda: bound.launch(stream))
    del added
    return time_of_launch


def overheads_of_new_arguments() -> dict[str, dict[str, float]]:
    """The host's time for a launch and for a call, with each argument of attention() and of decode()."""
    found = {}
    for argument, call in calls_of_each_argument().items():
        q, k, v = (x.detach() for x in (call.q, call.k, call.v))
        given = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in call.arguments.items()}
        fields = {name: x for name, x in given.items() if name in Masks.__dataclass_fields__}
        if "block_mask" in given:
            fields |= {"block_mask": given["block_mask"].view(torch.uint8), "block_size": 128}
        if "dropout_p" in given:
            fields["seed"] = torch.tensor([1])
        masks = Masks(**fields)
        o, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
        variant = masked.variant_for(q, v, masks, "deterministic" in given)
        found[argument] = {
            "launch": _launch(variant, {"q": q, "k": k, "v": v, "o": o, "lse": lse}, masks),
            "operator": host_us(lambda q=q, k=k, v=v, given=given: attend(q, k, v, **given)),
        }
    for name, given in decoding_calls().items():
        q, k, v, *tables = given
        paged = len(tables) == 2
        cache = decoding.Cache(2 if paged else 0, 64, 64, *tables)
        o, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
        found[name] = {
            "launch": _launch("14/paged", {"q": q, "k": k, "v": v, "o": o, "lse": lse}, cache),
            "operator": host_us(lambda given=given: fa_tutorial.decode(*given)),
        }
    return found


@on_a_gpu
class TritonOnGpu(triton_cases.Cases):
    """Each element type and head dimension is another kernel, which takes a second to compile."""

    device = "cuda"
    dtypes = (torch.bfloat16, torch.float32)
    tile = None
    head_dims = (64, 128)

    def test_one_of_each(self):
        self.one_of_each()

    def test_empty(self):
        self.empty()

    def test_large_logits(self):
        self.large_logits()

    def test_random_sizes(self):
        self.random_sizes(60, longest=700)

    def test_bad_input(self):
        self.bad_input()


if __name__ == "__main__":
    unittest.main()
