"""Tests of ./learn bench, as far as possible without a GPU: python3 test_bench_command.py."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import re
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from unittest import mock

from tools.bench import bench as bench_program
from tools.bench import machine, plans, summary
from tools.learn.commands import bench
from tools.learn.console import LearnError

from . import fakes

ROOT = Path(__file__).resolve().parents[2]


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)

    def assert_one_line(self, done, status: int, word: str):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(word, done.stderr)

    def test_without_a_gpu_nothing_is_built(self):
        self.assert_one_line(self.tree.learn("bench"), 3, "no GPU")
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_bad_arguments(self):
        self.assert_one_line(self.tree.learn("bench", "99"), 2, "no chapter 99")
        self.assert_one_line(self.tree.learn("bench", "--repeat", "0"), 2, "must be 1 or more")
        self.assert_one_line(self.tree.learn("bench", "--json", "/nowhere/x.json"), 2, "--json")

    def test_sustained_needs_peers(self):
        done = self.tree.learn("bench", "--sustained")
        self.assert_one_line(done, 2, "--sustained needs --peers")
        alone = ["bench", "--sustained", "--json", "x.json"]
        with (
            mock.patch.object(sys, "argv", alone),
            self.assertRaisesRegex(bench_program.Stop, "--sustained needs --peers"),
        ):
            bench_program.main()

    def test_peers_need_pytorch(self):
        with (
            mock.patch.object(sys, "executable", "/bin/false"),
            mock.patch.object(bench.shutil, "which", return_value="/bin/false"),
            mock.patch.object(bench.subprocess, "run") as run,
        ):
            run.return_value.returncode = 1
            with self.assertRaisesRegex(LearnError, "needs PyTorch"):
                bench.python_with_torch()
            with self.assertRaisesRegex(LearnError, "^timing chapter 14 needs PyTorch.*torch$"):
                bench.python_with_torch("timing chapter 14", "")

    def test_decoding_has_a_benchmark_of_its_own(self):
        args = argparse.Namespace(preset="cuda", json=None, repeat=7, peers=True)
        chapter = mock.Mock(executable="ch14_decoding")
        with (
            mock.patch.object(bench.setup, "build") as build,
            mock.patch.object(bench.subprocess, "run") as run,
        ):
            run.return_value.returncode = 0
            status = bench.bench_decoding(mock.Mock(), args, chapter, "python", "NVIDIA H200")
        self.assertEqual(status, 0)
        self.assertEqual(build.call_args.args[2], ["ch14_decoding_library", "read_roof"])
        target = str(ROOT / "docs" / "results" / "decoding_h200.json")
        words = ["python", "-m", "tools.bench.decoding", "--rounds", "7", "--json", target, "--peers"]
        self.assertEqual(run.call_args.args[0], words)

    def test_file_named_after_the_gpu(self):
        self.assertEqual(bench.short_name("NVIDIA H100 80GB HBM3, 81559 MiB"), "h100")
        self.assertEqual(bench.short_name("Card"), "gpu")


class TimingTest(unittest.TestCase):
    """Chapters' programs, as shell scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        (self.build / "bin").mkdir()

    def time(self, error: str, refused: dict) -> tuple[list[dict], str]:
        result = {
            "name": "small",
            "time_ms": {"median": 2.0, "min": 1.5, "max": 2.5, "repeats": 3},
            "check": {"passed": True, "tensors": {"o": {"rel_l2": 1e-7}}},
        }
        program = self.build / "bin" / "ch04_x"
        program.write_text(
            "#!/bin/sh\n"
            f"case \"$*\" in *'--variant large'*) echo '{json.dumps({'refused': refused})}'\n"
            f'echo "error: {error}" >&2; exit 2;; esac\n'
            f"echo '{json.dumps({'variants': [result]})}'\n"
        )
        program.chmod(0o755)
        point = plans.Point("fp32", 1, 2, 128, 256, False)
        plan = plans.Plan([point], [("04_x", ["large", "small"])], [])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            rows = bench_program.time_alone(plan, self.build, 3)
        return rows, said.getvalue()

    def test_what_the_device_cannot_run_is_skipped_and_named(self):
        why = "a block needs 84480 bytes of shared memory, this device has 65536"
        refused = {"text": why, "reason": "device", "variant": "large"}
        rows, said = self.time("in words", refused)
        self.assertEqual([row["variant"] for row in rows], ["small"])
        self.assertIn(f"  skipped: large cannot run this: {why}\n", said)

    def test_any_other_failure_stops(self):
        with self.assertRaisesRegex(bench_program.Stop, "no device"):
            self.time("no device", {"text": "no device"})

    def test_modules_that_are_imported_late_exist(self):
        source = Path(bench_program.__file__).read_text()
        late = re.findall(r"^ +(?:from (\S+) )?import (\w+)$", source, re.MULTILINE)
        self.assertEqual(set(late), {(".", "attention")})
        self.assertTrue(Path(bench_program.__file__).with_name("attention.py").exists())


class FakeGpu:
    """As much of PyTorch as the functions that time need. The GPU runs what is enqueued in order, in no time
    of the host.
    """

    def __init__(self):
        self.now_ms = 0.0
        self.slept = []
        gpu = self

        class Event:
            def __init__(self, enable_timing):
                self.at = None

            def record(self):
                self.at = gpu.now_ms

            def elapsed_time(self, other):
                return other.at - self.at

            def synchronize(self):
                pass

        cuda = types.SimpleNamespace(Event=Event, synchronize=lambda: None, _sleep=self.slept.append)
        types_of_elements = ("float32", "float16", "bfloat16")
        self.torch = types.ModuleType("torch")
        self.torch.cuda = cuda
        self.torch.dtype = self.torch.Tensor = object
        for name in types_of_elements:
            setattr(self.torch, name, name)
        attention = types.ModuleType("torch.nn.attention")
        attention.SDPBackend = mock.MagicMock()
        attention.sdpa_kernel = None
        package = types.ModuleType("fa_tutorial")  # without its operators
        package.__path__ = [str(ROOT / "python" / "fa_tutorial")]
        self.modules = {
            "fa_tutorial": package,
            "torch": self.torch,
            "torch.nn": types.ModuleType("torch.nn"),
            "torch.nn.attention": attention,
        }

    def kernel(self, ms: float) -> mock.Mock:
        def launch(number):
            self.now_ms += ms

        return mock.Mock(side_effect=launch)


class ProtocolTest(unittest.TestCase):
    def setUp(self):
        self.gpu = FakeGpu()
        late = ("tools.bench.attention", "tools.bench.chapter_library", "tools.bench.peers")
        with mock.patch.dict(sys.modules, self.gpu.modules):
            self.attention = importlib.import_module(late[0])
        for name in late:
            self.addCleanup(sys.modules.pop, name, None)

    def test_a_peer_that_is_not_installed_is_named_with_its_package(self):
        point = plans.Point("bf16", 1, 2, 128, 64, False)
        for name, package in (("FlashAttention-3", "fa3-fwd"), ("FlashAttention-4", '"flash-attn-4')):
            with (
                mock.patch.dict(sys.modules, {"fa3_fwd_interface": None, "flash_attn": None}),
                self.assertRaisesRegex(self.attention.Missing, f"pip install --pre {package}"),
            ):
                self.attention.bind_peer(name, point, [])

    def test_a_peer_gets_tensors_in_its_own_order(self):
        point = plans.Point("bf16", 1, 2, 128, 64, True)
        peer = types.ModuleType("fa3_fwd_interface")

        class Swapped(str):
            def transpose(self, *axes):
                return Swapped(f"{self}{axes[0]}{axes[1]}")

        peer.flash_attn_func = lambda q, k, v, causal: (Swapped(f"{q} {k} {v} {causal} "), "LSE")
        with mock.patch.dict(sys.modules, {"fa3_fwd_interface": peer}):
            launch = self.attention.bind_peer("FlashAttention-3", point, [[Swapped(x) for x in "qkv"]])
            self.assertEqual(launch(3), ("q12 k12 v12 True 12",))

    def test_flash_attention_3_has_no_backward_pass(self):
        point = plans.Point("bf16", 1, 2, 128, 64, False, backward=True)
        with self.assertRaisesRegex(RuntimeError, "forward pass alone"):
            self.attention.bind_peer("FlashAttention-3", point, [])

    def test_a_reason_is_told_once(self):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            for _ in range(2):
                self.attention.tell_once("  FlashAttention-3 does not run")
        self.assertEqual(told.getvalue(), "  FlashAttention-3 does not run\n")

    def test_short_kernels_are_launched_several_times_between_two_events(self):
        short, long = self.gpu.kernel(0.25), self.gpu.kernel(3.0)
        times = self.attention.time_in_turns([short, long], 5)
        self.assertEqual(times, [[0.25] * 5, [3.0] * 5])
        # One to load, one in the first round, which finds out how long it takes, then 4 and 1 in each of 6.
        self.assertEqual((short.call_count, long.call_count), (26, 8))
        numbers = [call.args[0] for call in short.call_args_list[-20:]]
        self.assertEqual(numbers, list(range(20)))  # other tensors each time
        self.assertEqual(self.attention.launches_per_timing(1e-3), 10)

    def test_the_gpu_sleeps_until_all_launches_are_enqueued(self):
        def slow_host(number):
            time.sleep(0.01)

        self.attention.time_in_turns([slow_host], 1)
        self.assertGreaterEqual(self.gpu.slept[-1], 0.1 * 2e9)  # ten launches

    def test_sustained_is_the_mean_of_a_third_of_a_second(self):
        kernel = self.gpu.kernel(0.5)
        sampler = mock.Mock()
        sampler.between.return_value = {"clock_mhz": 1400, "watts": 699, "samples": 9}
        row = self.attention.time_sustained(kernel, 0.5, sampler)
        self.assertEqual(kernel.call_count, 800)  # 600, after 200 to warm up
        self.assertEqual(
            row, {"mean_ms": 0.5, "launches": 600} | {"clock_mhz": 1400, "watts": 699, "samples": 9}
        )

    def test_both_protocols_are_kept_in_the_results(self):
        point = plans.Point("bf16", 1, 1, 64, 64, False)
        plan = plans.Plan([point], [("09_hopper", ["final"])], [])
        row = {"chapter": "09_hopper", "variant": "final", "tflops": 1.0}
        found = [row | {"median_ms": 1.0, "right": True}], [row | {"mean_ms": 2.0}]
        options = argparse.Namespace(peers=True, sustained=True, repeat=3)
        self.attention.torch.cuda.empty_cache = lambda: None
        said = io.StringIO()
        with (
            mock.patch.object(bench_program, "PLANS", {"d64": plan}),
            mock.patch.object(self.attention, "run_point", return_value=found) as run,
            mock.patch.object(bench_program.machine, "Sampler"),
            mock.patch.dict(sys.modules, {"tools.bench.attention": self.attention}),
            contextlib.redirect_stdout(said),
        ):
            result = bench_program.time_attention(["09"], options)
            self.assertIsNotNone(run.call_args.args[3])
            options.sustained = False
            run.return_value = found[0], []
            burst = bench_program.time_attention(["09"], options)
            self.assertIsNone(run.call_args.args[3])
        self.assertEqual(result["timings"][0]["plan"], "d64")
        self.assertEqual(result["sustained"], [{"plan": "d64"} | found[1][0]])
        self.assertEqual(list(burst), ["timings"])

    def test_other_plans_of_a_file_are_kept_with_their_machine(self):
        def rows(plan, *names):
            return [{"plan": plan, "variant": name} for name in names]

        first = {"device": "G", "machine": 1, "timings": rows("a", "x") + rows("b", "y")}
        first["sustained"] = rows("b", "y")
        second = {"device": "G", "machine": 2, "timings": rows("a", "z")}
        kept = self.attention.with_other_plans(second, ["a"], first)
        self.assertEqual(kept["timings"], rows("b", "y") + rows("a", "z"))
        self.assertEqual(kept["sustained"], rows("b", "y"))
        of_first = {"plans": ["b"], "device": "G", "machine": 1}
        self.assertEqual((kept["machine"], kept["earlier"]), (2, [of_first]))
        third = {"device": "G", "machine": 3, "timings": rows("c", "w")}
        both = self.attention.with_other_plans(dict(third), ["c"], kept)
        of_second = {"plans": ["a"], "device": "G", "machine": 2}
        self.assertEqual(both["earlier"], [of_first, of_second])
        only_new = self.attention.with_other_plans(dict(third), ["c", "a", "b"], kept)
        self.assertEqual(only_new["timings"], rows("c", "w"))
        self.assertEqual(only_new["earlier"], [])


class SamplerTest(unittest.TestCase):
    """nvidia-smi, as a shell script."""

    def sample(self, script: str) -> machine.Sampler:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "nvidia-smi"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            path = {"PATH": f"{folder}:/usr/bin:/bin"}
            with mock.patch.dict("os.environ", path), machine.Sampler() as sampler:
                return sampler

    def test_clock_and_power_of_an_interval(self):
        every = 'case "$*" in *-lms*) while :; do echo "1410, 698.5"; sleep 0.02; done;;'
        sampler = self.sample(f'{every} *) echo "1410, 698.5";; esac')
        found = sampler.between(0, time.monotonic())
        self.assertEqual((found["clock_mhz"], found["watts"]), (1410, 698.5))
        self.assertGreaterEqual(found["samples"], 1)
        self.assertEqual(sampler.between(0, 1), {})

    def test_a_driver_that_does_not_know_the_field_is_asked_for_the_mean(self):
        instant = '*instant*) echo "not a valid field";;'
        sampler = self.sample(f'case "$*" in {instant} *-lms*) echo "990, 70"; sleep 1;; esac')
        self.assertEqual(sampler.samples[0][1:], (990, 70))

    def test_without_nvidia_smi_nothing_is_recorded(self):
        for script in ("exit 9", "echo '[N/A], [N/A]'"):
            sampler = self.sample(script)
            self.assertEqual(sampler.between(0, time.monotonic()), {})


class GridTest(unittest.TestCase):
    def test_chapter_09_is_compared_with_cudnn_and_fa2_on_the_papers_grid(self):
        found = bench_program.plans_of(["09"])
        self.assertEqual(set(found), {"d64", "d128", "d256", "fp16"})
        for name in ("d64", "d128", "d256"):
            points = {(p.seq, p.causal) for p in found[name].points}
            for seq in plans.HOPPER_LENGTHS:
                self.assertLessEqual({(seq, False), (seq, True)}, points)
            self.assertLessEqual({"flash (FA2)", "cuDNN"}, set(found[name].peers))
            [(chapter, variants)] = found[name].ours
            self.assertEqual((chapter, variants[0]), ("09_hopper", "final"))
            self.assertEqual("no_maximum" in variants, name != "d256")

    def test_chapter_10_is_compared_with_cudnn_and_fa2_on_the_papers_grid(self):
        expected = {(seq, c) for seq in plans.HOPPER_LENGTHS for c in (False, True)}
        for head_dim in (64, 128, 256):
            plan = plans.PLANS[f"hopper_backward_d{head_dim}"]
            self.assertEqual({(p.seq, p.causal) for p in plan.points}, expected)
            self.assertTrue(all(p.backward for p in plan.points))
            self.assertLessEqual({"flash (FA2)", "cuDNN"}, set(plan.peers))
            variants = dict(plan.ours)["10_hopper_backward"]
            self.assertEqual(variants, ["final"] if head_dim == 256 else None)
        grid = bench_program.plans_of(["10"])
        self.assertEqual(set(grid), {"backward_d64", "backward_d128", "hopper_backward_d256"})

    def test_sustained_rows_are_compared_like_the_others(self):
        rows = [
            {"chapter": chapter, "variant": "v", "rows": 1, "cols": 2, "mean_ms": ms}
            for chapter, ms in (("09_x", 1.0), (None, 1.5))
        ]
        (found,) = summary.compare(summary.as_timings(rows))
        self.assertAlmostEqual(found["mean"], 1.5)

    def test_flops_of_a_point(self):
        full = plans.Point("bf16", 2, 3, 10, 64, False)
        self.assertEqual(full.flops, 4 * 2 * 3 * 100 * 64)
        causal = plans.Point("bf16", 2, 3, 10, 64, True, backward=True)
        self.assertEqual(causal.flops, 1.25 * full.flops)

    def test_the_papers_grid_has_as_many_tokens_everywhere(self):
        for point in plans.constant_tokens(128, plans.LENGTHS):
            self.assertEqual((point.batch * point.seq, point.heads), (16384, 16))

    def test_only_the_same_problem_is_compared(self):
        ours = {"chapter": "08_x", "variant": "v", "rows": 1, "cols": 2}
        peer = {"chapter": None, "variant": "p", "rows": 1, "cols": 3}
        rows = [ours | {"median_ms": 1.0}, peer | {"median_ms": 1.0}]
        self.assertEqual(list(summary.compare(rows)), [])
        rows.append(peer | {"cols": 2, "median_ms": 3.0})
        (found,) = summary.compare(rows)
        self.assertAlmostEqual(found["mean"], 3.0)
        self.assertEqual(found["where"], "1 x 2")


if __name__ == "__main__":
    unittest.main()
