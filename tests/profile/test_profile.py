"""Tests of chapters/*/profile.sh and tools/profile. They need no GPU.

Stand-ins for ncu, nvidia-smi and the programs of a chapter obey one JSON file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.profile import columns, hopper_results, ncu, sectors, softmax_results

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100

STAND_IN = r"""
import csv, json, os, subprocess, sys

name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
here = os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0])))
while not os.path.exists(f"{here}/fake.json"):
    here = os.path.dirname(here)
fake = json.load(open(f"{here}/fake.json"))
with open(f"{here}/calls.txt", "a") as file:
    file.write(" ".join([name, *words]) + "\n")


def value_of(option):
    return words[words.index(option) + 1] if option in words else None


if name == "nvidia-smi":
    print(*[f"GPU {i}: NVIDIA H100 80GB HBM3" for i in range(fake["gpus"])], sep="\n")
elif name == "ncu":
    program = next(i for i, word in enumerate(words) if os.path.basename(word).startswith("ch"))
    metrics = value_of("--metrics").split(",")
    log = open(value_of("--log-file"), "w")
    for metric in fake.get("unknown_metrics", []):
        if metric in metrics:
            log.write(f"==ERROR== Failed to find metric {fake.get('calls_it', metric)}\n")
            sys.exit(1)
    done = subprocess.run(words[program:])
    log.write("==PROF== Connected to process 1\n")
    if fake.get("permission_error"):
        log.write("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
                  "Counters on the target device 0.\n")
        sys.exit(1)
    if done.returncode:
        log.write(f"==ERROR== The application returned an error code ({done.returncode}).\n")
        sys.exit(done.returncode)
    table = csv.writer(log, quoting=csv.QUOTE_ALL)
    table.writerow(["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *metrics])
    table.writerow(["", "", "", "", "", *["sector" for _ in metrics]])
    launches = [x for v in value_of("--variant").split(",") for x in fake["launches"][v]]
    for number, launch in enumerate(launches):
        cells = [launch["metrics"].get(metric, launch.get("others", 0)) for metric in metrics]
        table.writerow([number, 1, launch["kernel"], "(128, 1, 1)", "(2, 8, 1)", *cells])
    log.write("==WARNING== something that nobody asked for\n")
else:
    variants = fake["variants"]
    if "--list" in words:
        print("a chapter", *[f"  {v}  what it does" for v in variants], sep="\n")
        sys.exit(0)
    wanted = value_of("--variant").split(",")
    refused = [v for v in wanted if v in fake.get("refused", {})]
    if refused:
        print(f"error: --variant {refused[0]} cannot run this: {fake['refused'][refused[0]]}", file=sys.stderr)
        sys.exit(2)
    if "build/cuda" in sys.argv[0] and any(v in fake.get("crashes", []) for v in wanted):
        print("error: an illegal memory access was encountered", file=sys.stderr)
        sys.exit(1)
    result = {"chapter": "c", "device": "CPU simulator, 2 cores", "problem": {"name": "p"}, "variants": []}
    for v in wanted:
        traffic = {"predicted": {"read_bytes": 600, "write_bytes": 424}}
        variant = {"name": v, "traffic": traffic}
        if "build/sim" in sys.argv[0]:
            traffic["counted"] = {"read_bytes": 600, "write_bytes": 424, **variants[v]}
            variant["shared"] = {"load_wavefronts": 30, "load_wavefronts_ideal": 10,
                                 "store_wavefronts": 5, "store_wavefronts_ideal": 5}
            variant["ops"] = {"mma": 64, "barriers": 0, "shuffles": 0}
            variant["defects"] = [{"kind": "race"}] if v in fake.get("defects", []) else []
        else:
            result["device"] = "NVIDIA H100 80GB HBM3"
        result["variants"].append(variant)
    text = json.dumps(result)
    if value_of("--json") == "-":
        print(text)
    elif "--json" in words:
        open(value_of("--json"), "w").write(text)
"""  # noqa: E501


def counters(reads: int, writes: int, atomics: int = 0) -> dict:
    """The simulator's counts for a variant."""
    return {
        "read_sectors": reads,
        "write_sectors": writes,
        "atomic_sectors": atomics,
        "read_requests": reads // 4,
        "write_requests": writes // 4,
    }


def launch(kernel: str = "void fa::online_softmax<4>(const float *)", **values) -> dict:
    """A launch with these measurements, by our names; everything else is 0."""
    return {"kernel": kernel, "metrics": {ncu.METRICS[name]: value for name, value in values.items()}}


class ProfileTest(unittest.TestCase):
    """With separate stand-ins for every test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-profile-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.fake = {
            "gpus": 1,
            "variants": {"online": counters(80, 20), "on_chip": counters(40, 20)},
            "launches": {
                "online": [launch(read_sectors=80, read_requests=20, write_sectors=20)],
                "on_chip": [launch(read_sectors=40, read_requests=5, write_sectors=20)],
            },
        }
        for name in ("bin/ncu", "bin/nvidia-smi"):
            self.program(name)
        for name in ("bash", "dirname"):  # and nothing else from this machine, which may have a GPU
            (self.root / "bin" / name).symlink_to(shutil.which(name))
        for build in ("sim", "cuda"):
            self.program(f"build/{build}/bin/ch02_online_softmax")
            self.program(f"build/{build}/bin/ch07_multi_stage")

    def program(self, name: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable} -IS\n{STAND_IN}")
        path.chmod(0o755)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def profile(
        self, *words: str, folder: str = "02_online_softmax", **variables: str
    ) -> subprocess.CompletedProcess:
        """Runs a chapter's profile.sh."""
        (self.root / "fake.json").write_text(json.dumps(self.fake))
        env = {
            **os.environ,
            "PATH": str(self.root / "bin"),
            "PYTHON": sys.executable,
            "CUDA_HOME": str(self.root),
            "FA_BUILD": str(self.root / "build/cuda"),
            "FA_SIM_BUILD": str(self.root / "build/sim"),
            **variables,
        }
        return subprocess.run(
            [self.root / "bin/bash", ROOT / "chapters" / folder / "profile.sh", *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def calls(self, name: str) -> list[str]:
        """The command lines with which a stand-in was called to run something."""
        path = self.root / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [x for x in lines if x.split()[0] == name and "--list" not in x]

    def data(self, *words: str, **variables: str) -> dict:
        done = self.profile(*words, "--json", "-", **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return json.loads(done.stdout)

    def assert_one_line(self, done: subprocess.CompletedProcess, status: int, *words: str):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def row(self, done: subprocess.CompletedProcess, name: str, at: int = 0) -> list:
        """The cells of a variant in the at-th part of the table."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [x for x in done.stdout.splitlines() if x.split()[:1] == [name]]
        return lines[at].replace(" MB", "MB").replace(" kB", "kB").replace(" B", "B").split()[1:]


class TableTest(ProfileTest):
    def test_shows_what_was_predicted_counted_and_measured(self):
        self.fake["launches"]["online"] = [
            launch(
                read_sectors=80,
                read_requests=20,
                write_sectors=22,
                l2_read_sectors=60,
                l2_write_sectors=15,
                dram_read_bytes=1000,
                dram_write_bytes=500,
            )
        ]
        done = self.profile()
        cells = ["1.02kB", "3.20kB", "3.26kB", "2.40kB", "1.50kB", "+2.00", "%"]
        self.assertEqual(self.row(done, "online"), cells)
        self.assertIn("on NVIDIA H100", done.stdout)
        sectors_per_load = self.row(done, "online", 1)[:2]
        self.assertEqual(sectors_per_load, ["4.00", "4.00"])
        self.assertEqual(self.row(done, "on_chip", 1)[:2], ["4.00", "8.00"])

    def test_a_variant_is_the_sum_of_its_kernels_and_percentages_are_weighted(self):
        self.fake["launches"]["online"] = [
            launch(
                "void fa::first<(int)4>(float *)",
                read_sectors=50,
                write_sectors=5,
                time_ns=1000,
                warps_active_percent=80,
            ),
            launch(
                "void fa::second(int)",
                read_sectors=30,
                write_sectors=15,
                time_ns=3000,
                warps_active_percent=20,
            ),
        ]
        data = self.data("--variant", "online,on_chip")
        online, on_chip = data["variants"]
        self.assertEqual(online["measured"]["read_sectors"], 80)
        self.assertEqual(online["measured"]["warps_active_percent"], 35)
        self.assertEqual(online["difference"], 0)
        self.assertEqual([k["name"] for k in online["kernels"]], ["first<4>", "second"])
        self.assertEqual(len(on_chip["kernels"]), 1)
        self.assertEqual(len(self.calls("ncu")), 2)  # one after the other
        done = self.profile()
        self.assertIn("\n  second", done.stdout)

    def test_kernels_of_the_harness_are_left_out(self):
        self.fake["launches"]["online"].append(
            launch("fa::backend::<unnamed>::copy(const float4 *)", read_sectors=999)
        )
        [online] = self.data("--variant", "online")["variants"]
        self.assertEqual(online["measured"]["read_sectors"], 80)
        self.assertEqual(len(online["kernels"]), 1)

    def test_atomics_count_twice(self):
        self.fake["variants"]["online"] = counters(80, 20, atomics=10)
        self.fake["launches"]["online"] = [launch(read_sectors=80, write_sectors=20, atomic_sectors=10)]
        done = self.profile("--variant", "online")
        self.assertEqual(self.row(done, "online")[1:3], ["3.84kB", "3.84kB"])

    def test_what_cublas_moves_is_not_compared(self):
        self.fake["variants"] = {"three_kernels": counters(80, 20)}
        self.fake["launches"] = {"three_kernels": self.fake["launches"]["on_chip"]}
        done = self.profile()
        self.assertEqual(self.row(done, "three_kernels")[-1], "-")
        self.assertIn("three_kernels calls cuBLAS", done.stdout)

    def combined(self, *launches: dict) -> dict:
        """The combined measurements of launches with these values, by our names."""
        return ncu.combine(
            [ncu.Launch("k", "1", "1", {ncu.METRICS[n]: v for n, v in values.items()}) for values in launches]
        )

    def test_constants_moved_are_no_mma(self):
        self.assertEqual(self.combined({"mma": 70, "hfma2": 6}), {"mma": 64})

    def test_products_of_warpgroups_are_no_mma(self):
        seen = self.combined({"mma": 70, "hfma2": 6, "wgmma": 60})
        self.assertEqual(seen, {"mma": 4, "wgmma": 60})

    def test_atomics_with_and_without_a_result_count(self):
        self.assertEqual(self.combined({"atomic_sectors": 5, "atom_sectors": 2}), {"atomic_sectors": 7})

    def test_what_the_copy_engine_moves_is_at_the_l1_as_well(self):
        self.fake["launches"]["online"] = [
            launch(read_sectors=30, write_sectors=15, landed_sectors=50, copied_out_sectors=5)
        ]
        done = self.profile("--variant", "online")
        self.assertEqual(self.row(done, "online")[1:3], ["3.20kB", "3.20kB"])

    def test_every_way_into_shared_memory_and_out_of_it_counts(self):
        one = {"shared_load_wavefronts": 5, "ldmatrix_wavefronts": 40}
        one |= {"shared_store_wavefronts": 3, "cp_async_wavefronts": 20}
        one |= {"shared_wavefronts": 68, "shared_wavefronts_ideal": 60}
        joined = {"shared_load_wavefronts": 90, "shared_store_wavefronts": 46}
        self.assertEqual(self.combined(one, one), joined | {"bank_conflicts": 16})

    def test_fits_the_page(self):
        names = ["fragment_double_buffer", "a_name_that_is_longer_than_any"]
        big = launch("void fa::multi_stage_attention<fa::Tile<(int)64> >(int)")
        big["others"] = 123_456_789_012
        for name, metric in ncu.METRICS.items():
            if not ncu.is_count(metric):
                big["metrics"][metric] = 100 if name.endswith("percent") else 99.99
        self.fake["variants"] = dict.fromkeys(names, counters(10**12, 10**11))
        self.fake["launches"] = {name: [big, big] for name in names}
        for folder in ("02_online_softmax", "07_multi_stage"):
            done = self.profile(folder=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            table = done.stdout.split("\n\n", 1)[1]
            self.assertLessEqual(max(map(len, table.splitlines())), WIDTH, table)
            self.assertIn("stalled:" if folder[1] == "7" else "sectors/load", table)


class OptionsTest(ProfileTest):
    def test_the_readers_options_take_the_place_of_the_usual_ones(self):
        self.profile("--rows", "37", "--seed=5", "--variant", "on_chip", "--no-check")
        for call in (*self.calls("ncu"), *self.calls("ch02_online_softmax")):
            words = call.split()[call.split().index("--variant") :]
            expected = "--variant on_chip --rows 37 --cols 1024 --seed 5 --no-check"
            self.assertEqual(words[: len(expected.split())], expected.split())

    def test_input_files_bring_their_shape(self):
        self.profile("--x", "x.npy")
        self.assertTrue(self.calls("ch02_online_softmax"))
        for call in self.calls("ch02_online_softmax"):
            self.assertNotIn("--rows", call)

    def test_a_variant_that_refuses_the_problem_is_left_out(self):
        self.fake["refused"] = {"on_chip": "--dtype is fp16: this variant takes fp32"}
        done = self.profile()
        self.assertEqual(self.row(done, "online")[1], "3.20kB")
        self.assertIn("on_chip is left out: ", done.stdout)
        self.fake["refused"]["online"] = "--rows is 0"
        self.assert_one_line(self.profile("--rows", "0"), 2, "--rows is 0")

    def test_unusable_arguments_are_one_line(self):
        for words, message in {
            ("--bench",): "--bench cannot be used in a profile",
            ("--variant", "on_ship"): "one or more of online, on_chip",
            ("--variant",): "--variant must be followed",
            ("on_chip",): "on_chip is not an option",
            ("--json",): "--json",
            ("--json", "no/such/folder/file"): "must be a file",
        }.items():
            self.assert_one_line(self.profile(*words), 2, message)
        self.assertEqual(self.calls("ncu"), [])

    def test_exercise_and_other_programs(self):
        for build in ("sim", "cuda"):
            self.program(f"build/{build}/bin/ch02_online_softmax_exercise")
        self.assertTrue(self.data("--exercise")["exercise"])
        self.assertIn("ch02_online_softmax_exercise --variant", self.calls("ncu")[-1])
        self.program("elsewhere/ch02_mine")
        self.data(FA_PROGRAM=str(self.root / "elsewhere/ch02_mine"))
        self.assertIn("elsewhere/ch02_mine --variant", self.calls("ncu")[-1])

    def test_help(self):
        done = self.profile("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--variant all --rows 2048 --cols 1024", done.stdout)

    def test_json_in_a_file_beside_the_table(self):
        file = self.root / "profile.json"
        done = self.profile("--json", str(file))
        self.assertIn("HBM bytes", done.stdout)
        self.assertEqual(len(json.loads(file.read_text())["variants"]), 2)

    def test_a_large_problem_is_not_for_the_simulator(self):
        data = self.data("--large")
        self.assertEqual(data["options"], ["--rows", "8192", "--cols", "4096"])
        self.assertNotIn("simulator", data["variants"][0])
        self.assertEqual(data["variants"][0]["predicted_bytes"], 1024)


class MissingTest(ProfileTest):
    def test_a_metric_that_the_gpu_does_not_have_is_a_dash(self):
        for launches in self.fake["launches"].values():
            launches[0]["metrics"][ncu.METRICS["dram_read_bytes"]] = "n/a"
            launches[0]["metrics"][ncu.METRICS["l2_atomic_sectors"]] = "n/a"
        cells = self.row(self.profile(), "online")
        self.assertEqual(cells[2:5], ["3.20kB", "0B", "-"])

    def test_atomics_of_the_l2_are_needed_only_where_there_are_some(self):
        self.fake["unknown_metrics"] = [ncu.METRICS["l2_atomic_sectors"]]
        self.fake["variants"]["on_chip"] = counters(40, 20, atomics=1)
        self.fake["launches"]["online"] = [launch(l2_read_sectors=50, l2_write_sectors=50)]
        self.fake["launches"]["on_chip"] = [launch(atomic_sectors=1)]
        done = self.profile()
        self.assertEqual(self.row(done, "online")[3], "3.20kB")
        self.assertEqual(self.row(done, "on_chip")[3:5], ["-", "0B"])
        self.assertEqual(len(self.calls("ncu")), 4)  # a second time without it
        self.fake["calls_it"] = "number 9"
        self.assertEqual(self.row(self.profile(), "online")[3], "3.20kB")

    def test_an_error_of_ncu_is_told(self):
        self.fake["unknown_metrics"] = [ncu.METRICS["read_sectors"]]
        self.fake["calls_it"] = "number 9"
        done = self.profile()
        self.assert_simulator_only(done, "Failed to find metric number 9")

    def test_without_a_simulator_its_columns_are_dashes(self):
        self.remove("build/sim/bin/ch02_online_softmax")
        done = self.profile()
        self.assertEqual(self.row(done, "online")[:3], ["1.02kB", "-", "3.20kB"])
        words = " ".join(done.stdout.split())
        self.assertIn("./learn profile 02 builds it", words)

    def assert_simulator_only(self, done: subprocess.CompletedProcess, why: str):
        self.assertEqual(self.row(done, "online"), ["1.02kB", "3.20kB"])
        self.assertEqual(done.stderr, "")
        self.assertNotIn("ncu", done.stdout.split("variant", 2)[-1].split("\n\n")[0])
        self.assertIn(why, done.stdout.splitlines()[-1])

    def test_without_a_gpu_the_simulator_counts(self):
        self.fake["gpus"] = 0
        self.assert_simulator_only(self.profile(), "nvidia-smi finds no GPU")
        self.remove("bin/nvidia-smi")
        self.assert_simulator_only(self.profile(), "nvidia-smi finds no GPU")
        self.assert_one_line(self.profile("--no-simulator"), 3, "no GPU")
        self.remove("build/sim/bin/ch02_online_softmax")
        self.assert_one_line(self.profile(), 2, "no GPU", "./learn profile 02")

    def test_without_ncu_the_simulator_counts(self):
        self.remove("bin/ncu")
        self.assert_simulator_only(self.profile(), "ncu is not in PATH")

    def test_without_permission_the_simulator_counts(self):
        self.fake["permission_error"] = True
        done = self.profile()
        self.assert_simulator_only(done, "NVreg_RestrictProfilingToAdminUsers=0")
        self.assertEqual(len(self.calls("ncu")), 1)  # it would be refused again
        self.assert_one_line(self.profile("--no-simulator"), 3, "run as root")

    def test_without_the_program_it_says_how_to_build_it(self):
        self.remove("build/cuda/bin/ch02_online_softmax")
        self.assert_one_line(self.profile(), 2, "./learn profile")

    def test_a_program_that_fails(self):
        self.fake["crashes"] = ["on_chip"]
        done = self.profile()
        self.assertEqual(done.returncode, 1)
        self.assertIn("on_chip failed: an illegal memory access", done.stdout)
        self.assertIn("3.20 kB", done.stdout)  # of the other one

    def test_defects_are_told(self):
        self.fake["defects"] = ["online"]
        done = self.profile()
        self.assertIn("online: the simulator finds defects", done.stdout)


class SectorsTest(ProfileTest):
    """The scripts that write docs/results."""

    def measure(self, variants: list[str]) -> list[dict]:
        (self.root / "fake.json").write_text(json.dumps(self.fake))
        path = f"{self.root}/bin:{os.environ['PATH']}"
        with mock.patch.object(sectors, "ROOT", self.root), mock.patch.dict(os.environ, {"PATH": path}):
            return sectors.profile("02_online_softmax", variants, {"rows": 3})

    def test_variants_with_a_kernel_each_run_together(self):
        first, second = self.measure(["online", "on_chip"])
        self.assertEqual((first["read_sectors"], second["read_sectors"]), (80, 40))
        self.assertEqual(len(self.calls("ncu")), 1)
        self.assertNotIn("hfma2", first)

    def test_else_one_at_a_time(self):
        self.fake["launches"]["online"] *= 2
        first, second = self.measure(["online", "on_chip"])
        self.assertEqual((first["read_sectors"], second["read_sectors"]), (160, 40))
        self.assertEqual(len(self.calls("ncu")), 3)

    def test_the_simulators_counters_have_the_same_names(self):
        names = sectors.simulated(
            {
                "traffic": {"counted": counters(1, 2)},
                "shared": {
                    "load_wavefronts": 5,
                    "load_wavefronts_ideal": 1,
                    "store_wavefronts": 4,
                    "store_wavefronts_ideal": 2,
                },
                "ops": {"mma": 3},
            }
        )
        joined = {name for name, *_ in ncu.JOINED}
        self.assertLessEqual(names.keys(), ncu.METRICS.keys() | joined)
        self.assertEqual(names["bank_conflicts"], 6)

    def count(self) -> list[dict]:
        (self.root / "fake.json").write_text(json.dumps(self.fake))
        with mock.patch.object(sectors, "ROOT", self.root):
            return sectors.count(["02_online_softmax"], [{"rows": 3}])

    def test_a_variant_that_has_defects_is_not_counted(self):
        counted = [(run["variant"], run["read_sectors"]) for run in self.count()]
        self.assertEqual(counted, [("online", 80), ("on_chip", 40)])
        self.fake["defects"] = ["on_chip"]
        with self.assertRaisesRegex(SystemExit, "online_softmax/on_chip fails"):
            self.count()


class SoftmaxTest(unittest.TestCase):
    """The timed shapes of chapters 01 and 02."""

    def time(self, **variant) -> list[dict]:
        times = dict.fromkeys(("median", "min", "max", "repeats"), 1.0)
        ready = {"time_ms": times, "check": {"passed": True}, "gb_per_s": 1.0, "share_of_copy": 1.0}
        result = {"variants": [{"name": "online", **ready, **variant}]}
        with mock.patch.object(sectors, "run_program", return_value=result):
            return softmax_results.time_chapter("02_online_softmax", 3, 5)

    def test_a_wrong_result_has_a_row_that_says_so(self):
        self.assertTrue(self.time()[0]["right"])
        self.assertFalse(self.time(check={"passed": False})[0]["right"])

    def test_what_does_not_run_ends_it(self):
        message = "02_online_softmax/online on 3 x 5: launch failed"
        with self.assertRaisesRegex(SystemExit, message):
            self.time(failure="launch failed")


class HopperTest(unittest.TestCase):
    """Chapters 09, 10 and 12, whose copies are counted elsewhere."""

    # Of chapter 10. `deterministic` moves other bytes.
    SAME_BYTES = ("wgmma", "register_sums", "overlapped", "decoupled", "final")

    def rows(self, name: str, key: str) -> list[dict]:
        return json.loads((sectors.RESULTS / name).read_text())[key]

    def test_what_was_measured_is_what_the_simulator_counts(self):
        for _, files, _ in hopper_results.CHAPTERS.values():
            measured = sorted(sectors.RESULTS.glob(f"{files}_h[0-9]*.json"))
            self.assertEqual(len(measured), 1, files)
            compared = self.rows(measured[0].name, "sectors")
            counted = self.rows(f"{files}_simulator.json", "runs")
            for row, expected in zip(compared, counted, strict=True):
                seen = row.pop("measured")
                self.assertEqual(row, expected)
                for name in hopper_results.EQUAL:
                    # Two warps may each write half of a sector: then the L2 counts it once or twice. Chapter
                    # 14 stores little else than sums and parts of few rows.
                    share = 0.1 if files == "decoding_sectors" else 0.01
                    delta = share * row[name] if name == "l2_write_sectors" else 0
                    self.assertAlmostEqual(seen[name], row[name], delta=delta, msg=f"{name}: {row}")

    def test_each_step_of_chapter_10_brings_the_same_bytes(self):
        rows = self.rows("hopper_backward_simulator.json", "runs")
        for head_dim in (64, 128):
            fused = [row for row in rows if row["head_dim"] == head_dim and row["variant"] in self.SAME_BYTES]
            self.assertEqual(len(fused), len(self.SAME_BYTES))
            for name in ("landed_sectors", "l2_write_sectors", "l2_atomic_sectors"):
                self.assertEqual(len({row[name] for row in fused}), 1, name)

    def test_of_whole_tiles_all_bytes_land_that_the_formula_predicts(self):
        whole = [
            row
            for row in self.rows("hopper_simulator.json", "runs")
            if row["seq_q"] == row["seq_k"] == 256 and row["variant"] in ("tma", "wgmma")
        ]
        self.assertEqual([row["variant"] for row in whole], ["tma", "wgmma"])
        for row in whole:
            self.assertEqual(row["landed_sectors"], row["l2_read_sectors"])

    def test_on_a_problem_that_fills_the_gpu_the_formula_is_what_was_measured(self):
        variants = self.rows("hopper_profile_h200.json", "variants")
        self.assertEqual(len(variants), 8)
        for variant in variants:
            seen = variant["measured"]
            bytes_seen = ncu.SECTOR_BYTES * (seen["landed_sectors"] + seen["l2_write_sectors"])
            bytes_seen += 8 * seen["l2_atomic_sectors"]  # read, and written
            bytes_seen += 4 * seen["read_requests"]  # of marks
            self.assertEqual(bytes_seen, variant["predicted_bytes"], variant["name"])

    def test_a_difference_is_found(self):
        row = dict.fromkeys(hopper_results.EQUAL, 100)
        row["measured"] = dict(row) | {"landed_sectors": 103}
        found = hopper_results.differences([row])
        self.assertAlmostEqual(found["landed_sectors"], 0.03)
        self.assertEqual(found["wgmma"], 0)

    def test_counts_of_the_l2_have_the_names_of_its_metrics(self):
        renamed = hopper_results.of_l2({"read_sectors": 5, "mma": 3, "variant": "a"})
        self.assertEqual(renamed, {"l2_read_sectors": 5, "mma": 3, "variant": "a"})
        self.assertLessEqual(set(hopper_results.NAMES), ncu.METRICS.keys())


class ChaptersTest(unittest.TestCase):
    def test_every_chapter_shows_what_there_is(self):
        scripts = sorted(ROOT.glob("chapters/[0-9][0-9]_*/profile.sh"))
        self.assertEqual(len(scripts), len(list(ROOT.glob("chapters/[0-9]*"))))
        for script in scripts:
            text = script.read_text()
            self.assertIn(f"tools.profile.chapter {script.parent.name} ", text)
            [groups] = [x for x in text.split() if "," in x and x.split(",")[0] in columns.GROUPS]
            self.assertLessEqual(set(groups.split(",")), columns.GROUPS.keys())


if __name__ == "__main__":
    unittest.main()
