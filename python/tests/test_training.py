"""The small GPT and its training: python -m unittest tests.test_training, in python/."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import fa_tutorial
import torch
from training import gpt, train

FOLDER = Path(__file__).resolve().parents[1]


class ModelTest(unittest.TestCase):
    device = "cpu"
    other_forward = "03/one_pass"
    sizes = gpt.Sizes(layers=2, heads=2, head_dim=32, context=24)

    def text(self) -> torch.Tensor:
        drawn = torch.randint(gpt.BYTES, (2, self.sizes.context + 1))
        return drawn.to(self.device)

    def gradients(self, attention: str, dtype=torch.float32, autocast=False) -> list:
        """Of every parameter, in float64."""
        torch.manual_seed(0)
        model = gpt.Gpt(self.sizes, gpt.ATTENTION[attention]).to(self.device, dtype)
        with torch.no_grad():  # so that attention is far from uniform
            for block in model.blocks:
                block.qkv.weight *= 10
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=autocast):
            loss = model.loss(self.text())
        loss.backward()
        return [parameter.grad.double() for parameter in model.parameters()]

    def error(self, gradients: list) -> float:
        """The largest error of a parameter's gradient, relative to the gradient's norm."""
        exact = self.gradients("unfused", torch.float64)
        pairs = zip(gradients, exact, strict=True)
        return max(float((g - x).norm() / x.norm()) for g, x in pairs)

    def test_gradients_of_the_whole_model(self):
        self.assertLess(self.error(self.gradients("ours")), 1e-5)

    def test_gradients_of_the_whole_model_in_bf16(self):
        ours = self.error(self.gradients("ours", autocast=True))
        peer = self.error(self.gradients("sdpa", autocast=True))
        self.assertLess(ours, 1.5 * peer)

    def test_gradients_with_another_kernel(self):
        self.addCleanup(fa_tutorial.use)
        fa_tutorial.use(self.other_forward, "08/fp32_two_kernels")
        self.assertLess(self.error(self.gradients("ours")), 1e-5)

    def test_compiled_without_a_graph_break(self):
        torch.compiler.reset()
        torch.manual_seed(0)
        model = gpt.Gpt(self.sizes, gpt.ours).to(self.device)
        text = self.text()
        compiled = torch.compile(model.loss, fullgraph=True, backend="aot_eager")
        found = torch.autograd.grad(compiled(text), list(model.parameters()))
        expected = torch.autograd.grad(model.loss(text), list(model.parameters()))
        for ours, eager in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, eager)

    def test_no_input_of_the_kernels_is_a_copy(self):
        """Q, K and V of each layer are parts of one tensor, the result of its linear layer."""
        run = fa_tutorial.scaled_dot_product_attention
        model = gpt.Gpt(self.sizes, gpt.ours).to(self.device)
        with mock.patch.object(fa_tutorial, "scaled_dot_product_attention", wraps=run) as calls:
            model(self.text()[:, 1:])
        self.assertEqual(calls.call_count, self.sizes.layers)
        for call in calls.call_args_list:
            self.assertEqual(len({x.untyped_storage().data_ptr() for x in call.args}), 1)
            self.assertFalse(any(x.is_contiguous() for x in call.args))

    def written(self, attention: str, **way: bool) -> tuple[bytes, list[int], int]:
        """A greedy text that is longer than the context, the tokens that passed the model at each step, and
        the calls of decode().
        """
        torch.manual_seed(0)
        sizes = gpt.Sizes(layers=2, heads=2, head_dim=64, context=12)
        model = gpt.Gpt(sizes, gpt.ATTENTION[attention]).to(self.device)
        with torch.no_grad():  # so that attention is far from uniform
            for block in model.blocks:
                block.qkv.weight *= 10
        passed = []
        model.register_forward_pre_hook(lambda _, given: passed.append(given[0].shape[1]))
        decode = mock.patch.object(fa_tutorial, "decode", wraps=fa_tutorial.decode)
        with torch.autocast(self.device, dtype=torch.bfloat16), decode as calls:
            text = model.write(b"def ", 11, temperature=0, **way)
        return text, passed, calls.call_count

    def test_a_cache_changes_no_token(self):
        for attention, decoded in (("ours", 16), ("sdpa", 0)):
            with self.subTest(attention):
                text, passed, calls = self.written(attention)
                self.assertEqual(passed, [4, *[1] * 8, 12, 12])
                self.assertEqual(calls, decoded)
                again, passed, calls = self.written(attention, cached=False)
                self.assertEqual(passed, [*range(4, 13), 12, 12])
                self.assertEqual(calls, 0)
                self.assertEqual(text, again)

    def test_small_model_has_10_million_parameters(self):
        model = gpt.Gpt(train.SMALL.sizes, gpt.ours)
        count = sum(parameter.numel() for parameter in model.parameters())
        self.assertAlmostEqual(count / 1e6, 11, delta=1)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.addCleanup(torch.use_deterministic_algorithms, False)


class Resumed(InFolder):
    options = ("--runs", "ours")
    keep = ("--steps", "7", "--keep-every", "5")

    def command(self, out: str, *words: str) -> list[str]:
        small = [sys.executable, "-m", "training.train", *self.options, *self.keep]
        return [*small, "--out", str(self.folder / out), *words]

    def run_to_the_end(self, out: str, *words: str) -> subprocess.CompletedProcess:
        command = self.command(out, *words)
        return subprocess.run(command, cwd=FOLDER, check=False, capture_output=True, text=True)

    def weights(self, out: str) -> dict:
        file = self.folder / out / "ours" / "checkpoint.pt"
        return torch.load(file, weights_only=True)["model"]

    def test_a_killed_run_ends_with_the_same_weights(self):
        done = self.run_to_the_end("whole")
        self.assertEqual(done.returncode, 0, done.stderr)
        with subprocess.Popen(
            self.command("killed"), cwd=FOLDER, stdout=subprocess.PIPE, text=True
        ) as process:
            for line in process.stdout:
                if json.loads(line).get("step") == 6:
                    process.send_signal(signal.SIGKILL)
                    break
        done = self.run_to_the_end("killed")
        self.assertEqual(done.returncode, 0, done.stderr)
        first = json.loads(done.stdout.splitlines()[0])
        self.assertEqual(first["step"], 5)  # where the last checkpoint was
        whole, resumed = self.weights("whole"), self.weights("killed")
        self.assertTrue(all(torch.equal(whole[name], resumed[name]) for name in whole))

        for words, bad in (
            ("other sizes or steps", lambda file: None),
            ("is not a checkpoint", lambda file: file.write_bytes(b"PK")),
        ):
            bad(self.folder / "whole" / "ours" / "checkpoint.pt")
            done = self.run_to_the_end("whole", "--steps", "8")
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"^train: .*{words}.*--again[^\n]*\n$")


class TrainingTest(InFolder):
    def test_bad_options(self):
        for words, *options in (
            ("must be 1 or more", "--steps", "0"),
            ("--keep-every 0: must be 1 or more", "--keep-every", "0"),
            ("must be one or more of unfused, ours, sdpa, efficient", "--runs", "ours,fast"),
            ("efficient: is for GPUs", "--runs", "ours,efficient"),
            ("finds no GPU", "--device", "cuda"),
            ("Not a directory", "--out", f"{__file__}/out"),
        ):
            if "GPU" in words and torch.cuda.is_available():
                continue
            with contextlib.redirect_stderr(io.StringIO()) as stderr:
                self.assertEqual(train.main(list(options)), 2)
            self.assertRegex(stderr.getvalue(), f"^train: .*{words}[^\n]*\n$")

    def test_curves_agree(self):
        plan = dataclasses.replace(train.TINY, steps=4, sample=3)
        file = self.folder / "results" / "training.json"
        file.parent.mkdir()
        words = ["--out", str(self.folder), "--json", str(file)]
        options, _ = train.parse(words)
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            train.train(options, plan)
        last = json.loads(stdout.getvalue().splitlines()[-1])
        curves = {result["run"]: result["losses"] for result in last["results"]}
        self.assertEqual(list(curves), ["unfused", "ours", "sdpa"])
        for ours, theirs in zip(curves["ours"], curves["sdpa"], strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-3)
        self.assertLess(curves["ours"][-1], curves["ours"][0])
        written = json.loads(file.read_text())
        self.assertEqual(written["runs"], last["results"])
        self.assertEqual(written["plan"]["steps"], 4)
        picture = (self.folder / "losses.png").exists()
        self.assertEqual(picture, "losses.png" in last["drawn"])

    def test_without_matplotlib(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            line = train.draw([], self.folder / "losses.png")
        self.assertEqual(line, "no picture of the losses: matplotlib is not installed")

    def test_text_of_a_step_depends_on_its_number_alone(self):
        text = train.text_of_standard_library(1)
        one, again, other = (train.batch_of(text, train.TINY, n) for n in (3, 3, 4))
        self.assertTrue(torch.equal(one, again))
        self.assertFalse(torch.equal(one, other))


if __name__ == "__main__":
    unittest.main()
