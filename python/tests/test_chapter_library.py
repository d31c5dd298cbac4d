"""The way to the kernels on a GPU, with a stand-in for a chapter's library: python -m unittest
tests.test_chapter_library.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import types
import unittest
from unittest import mock

import torch
from fa_tutorial import builds, chapter_library, execution, operators
from fa_tutorial.refusal import Reason, Refusal

STREAM = 1234
WORKSPACE = 1000


class Library:
    """What ctypes.CDLL() returns, and what was asked of it."""

    def __init__(self):
        self.problems: list[tuple[str, chapter_library.FaAttention]] = []
        self.launched: list[tuple[int, int]] = []
        self.released: list[int] = []
        self.bytes, self.error, self.reason = WORKSPACE, b"", 0
        self.launches = True
        for name in dir(type(self)):  # ctypes' functions have attributes
            if name.startswith("do_"):
                function = mock.Mock(side_effect=getattr(self, name))
                setattr(self, f"fa_{name[3:]}", function)

    def do_interface(self):
        return chapter_library.INTERFACE

    def do_cuda_version(self):
        return -1

    def do_error(self):
        return self.error

    def do_reason(self):
        return self.reason

    def refuses(self, reason: Reason, text: bytes) -> None:
        self.bytes, self.reason, self.error = -1, int(reason), text

    def do_variants(self):
        return b"one\ntwo\n"

    def do_workspace_bytes(self, variant, problem):
        return self.bytes

    def do_bind(self, variant, problem):
        given = chapter_library.FaAttention.from_buffer_copy(problem._obj)
        self.problems.append((variant.decode(), given))
        return len(self.problems)

    def do_launch(self, bound, stream):
        self.launched.append((bound, stream))
        return self.launches

    def do_release(self, bound):
        self.released.append(bound)


class ChapterLibraryTest(unittest.TestCase):
    def setUp(self):
        self.library = Library()
        loaded = chapter_library.ChapterLibrary.__new__(chapter_library.ChapterLibrary)
        loaded._library = self.library
        loaded._declare("a file", "how to build it")
        stream = types.SimpleNamespace(cuda_stream=STREAM)
        for target, name, value in (
            (chapter_library, "load", lambda chapter: loaded),
            (torch.cuda, "device", lambda device: contextlib.nullcontext()),
            (torch.cuda, "current_stream", lambda: stream),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        chapter_library.refusal.cache_clear()
        self.q = torch.zeros(2, 6, 5, 64, dtype=torch.bfloat16)
        self.k, self.v = (torch.zeros(2, 3, 7, 64, dtype=torch.bfloat16) for _ in "kv")
        self.lse = torch.zeros(2, 6, 5)

    def test_a_forward_pass(self):
        inputs = {"q": self.q, "k": self.k, "v": self.v}
        outputs = {"o": torch.empty_like(self.q), "lse": self.lse}
        execution.launch("07/final", inputs, outputs, True, 0.25)
        ((variant, given),) = self.library.problems
        self.assertEqual(variant, "final")
        names = ("batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim")
        numbers = [getattr(given, name) for name in (*names, "dtype", "causal")]
        self.assertEqual(numbers, [2, 6, 3, 5, 7, 64, 2, 1])
        self.assertEqual(given.scale, 0.25)
        for name, tensor in (inputs | outputs).items():
            self.assertEqual(getattr(given, name), tensor.data_ptr())
        for name in ("do", "dq", "dk", "dv"):
            self.assertIsNone(getattr(given, name))
        for name in ("q", "o"):
            strides = getattr(given, f"{name}_strides")
            numbers = (strides.batch, strides.head, strides.row)
            self.assertEqual(numbers, (6 * 5 * 64, 5 * 64, 64))
        self.assertTrue(given.workspace)
        self.assertEqual(self.library.launched, [(1, STREAM)])
        self.assertEqual(self.library.released, [1])

    def test_strides_are_those_of_the_tensors(self):
        packed = torch.zeros(2, 7, 12, 64, dtype=torch.bfloat16).transpose(1, 2)
        tensors = {"q": packed[:, :6], "k": packed[:, 6:9], "v": packed[:, 9:]}
        given = chapter_library.describe(tensors, False, 1.0)
        for name in tensors:
            strides = getattr(given, f"{name}_strides")
            numbers = (strides.batch, strides.head, strides.row)
            self.assertEqual(numbers, (7 * 12 * 64, 64, 12 * 64))

    def test_a_backward_pass_has_the_results_of_its_forward_pass(self):
        o, do, dq = (torch.empty_like(self.q) for _ in range(3))
        dk, dv = torch.empty_like(self.k), torch.empty_like(self.v)
        given = {"q": self.q, "k": self.k, "v": self.v, "do": do, "o": o}
        outputs = {"dq": dq, "dk": dk, "dv": dv}
        given["lse"] = self.lse
        self.library.bytes = 0
        execution.launch("08/mma_pipelined", given, outputs, False, 1.0)
        ((variant, problem),) = self.library.problems
        self.assertEqual(variant, "mma_pipelined")
        for name, tensor in (given | outputs).items():
            self.assertEqual(getattr(problem, name), tensor.data_ptr())
        self.assertIsNone(problem.workspace)  # none is needed

    def test_refusals_are_one_sentence(self):
        self.library.refuses(Reason.PROBLEM, b"--head-dim is 64: must be one of 32")
        tensors = {"q": self.q, "k": self.k, "v": self.v}
        with (
            mock.patch.object(execution, "simulate", execution.launch),
            self.assertRaisesRegex(ValueError, "^07/final cannot run this: head_dim is 64: must be"),
        ):
            execution.run("07/final", tensors, {}, False, 1.0)
        asked = ("07_multi_stage", "final", torch.bfloat16, 64, torch.device("cpu"))
        refusal = Refusal(Reason.PROBLEM, "--head-dim is 64: must be one of 32")
        self.assertEqual(chapter_library.refusal(*asked), refusal)

    def test_a_failure_is_no_refusal(self):
        self.library.refuses(Reason.OTHER, b"out of memory")
        tensors = {"q": self.q, "k": self.k, "v": self.v}
        with self.assertRaisesRegex(RuntimeError, "^out of memory$"):
            execution.launch("07/final", tensors, {}, False, 1.0)

    def test_the_reason_decides_what_would_help(self):
        text = "q has other strides"
        for reason in Reason:
            refused = str(execution.sentence("07/final", Refusal(reason, text)))
            helps = "pass it as .contiguous()" in refused
            self.assertEqual(helps, reason == Reason.LAYOUT)

    def test_the_reasons_are_those_of_the_library(self):
        folder = builds.checkout() / "common" / "attention"
        source = (folder / "refusal.hpp").read_text()
        known = re.findall(r"^    k(\w+) = (\d+),", source, re.MULTILINE)
        ours = {reason.name: int(reason) for reason in Reason if reason}
        self.assertEqual({name.upper(): int(n) for name, n in known}, ours)

    def test_every_option_has_our_name(self):
        for reason, sentence in (
            (
                "--batch 65536 times --kv-heads 2: this variant takes at most 65535",
                "batch 65536 times kv_heads 2: this variant takes at most 65535",
            ),
            ("--heads is 6: must be a multiple of --kv-heads, which is 4", "of kv_heads,"),
            ("--head-dim-v is 8: takes that of --head-dim", "head_dim_v is 8: .* head_dim"),
        ):
            refusal = Refusal(Reason.VARIANT, reason)
            refused = execution.sentence("07/final", refusal)
            self.assertRegex(str(refused), f"^07/final cannot run this: .*{sentence}")
            self.assertNotIn("--", str(refused))

    def test_expanded_tensors(self):
        """Kernels read them where they are; those that read dense tensors alone get copies."""
        k = self.k[:, :1].expand(2, 3, 7, 64)
        v = self.v[:1].transpose(1, 2).contiguous().transpose(1, 2).expand(2, 3, 7, 64)
        given = (self.q, k, v)
        found = operators._readable("07/final", *given)
        self.assertTrue(all(x is y for x, y in zip(found, given, strict=True)))
        strides = chapter_library.describe(dict(zip("qkv", found, strict=True)), False, 1.0).k_strides
        numbers = (strides.batch, strides.head, strides.row)
        self.assertEqual(numbers, (3 * 7 * 64, 0, 64))
        chapter_library.refusal.cache_clear()
        self.library.refuses(Reason.LAYOUT, b"q has the strides (1, 2, 3, 1)")
        q, *copies = operators._readable("07/final", *given)
        self.assertIs(q, self.q)
        for copy, x in zip(copies, (k, v), strict=True):
            self.assertTrue(copy.is_contiguous() and torch.equal(copy, x))
        dense = (self.q, self.k, self.v)
        self.assertIs(operators._readable("07/final", *dense)[1], self.k)

    def test_a_launch_that_fails(self):
        self.library.launches, self.library.error = False, b"no kernel image"
        tensors = {"q": self.q, "k": self.k, "v": self.v}
        with self.assertRaisesRegex(RuntimeError, "^07_multi_stage/final: no kernel image"):
            execution.launch("07/final", tensors, {}, False, 1.0)
        self.assertEqual(self.library.released, [1])

    def test_the_struct_has_the_size_of_the_library(self):
        source = builds.checkout() / "common" / "harness" / "library.cpp"
        size = ctypes.sizeof(chapter_library.FaAttention)
        self.assertIn(f"sizeof(FaAttention) == {size}", source.read_text())


if __name__ == "__main__":
    unittest.main()
