"""Tests of ./learn. They need no compiler, no network and no root: python3 test_learn.py."""

from __future__ import annotations

import html.parser
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

from tools.learn import console, machine, packages, phases
from tools.learn.cli import COMMANDS
from tools.report import results, table

from . import fakes, fixtures

WIDTH = 100


def plain(text: str, style: str) -> str:
    return text


def has_matplotlib() -> bool:
    """Whether any of the Pythons that try to make the report can do so."""
    code = "from importlib.util import find_spec as f; exit(not f('matplotlib'))"
    pythons = {sys.executable, "/usr/bin/python3"}
    found = [machine.first_output([python, "-c", code]) for python in pythons]
    return any(output is not None for output in found)


needs_matplotlib = unittest.skipUnless(has_matplotlib(), "no Python here has matplotlib")


class LearnTest(unittest.TestCase):
    """With a separate tree for every test."""

    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)

    def assert_one_line(self, done: subprocess.CompletedProcess, status: int, *words: str):
        """It ended with this status and with one line on stderr, which contains the words."""
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("learn: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_well(self, done: subprocess.CompletedProcess):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


class TableTest(unittest.TestCase):
    def cells(self, *runs: dict) -> list[list[str]]:
        chapters = results.read(list(runs))
        return [table.cells(row) for chapter in chapters for row in chapter.rows]

    def test_shows_the_numbers_of_the_json(self):
        rows = self.cells(fixtures.safe_softmax(), fixtures.online_softmax())
        self.assertEqual(
            [cell.strip() for cell in rows[1]],
            [
                "row_per_thread",
                "1.3e-07 / 2e-06",
                "-",
                "10.1 MB",
                "10.1 MB",
                "1.33",
                "12.1 %",
                "0",
                "0",
                "ok",
            ],
        )
        self.assertEqual(rows[3][7], "46.9 k")  # conflicts: wavefronts minus ideal
        self.assertEqual(rows[4][5], "0.75")  # the ratio goes on in the next chapter
        self.assertEqual((rows[0][1], rows[0][9]), ("nan / 2e-06", "declared"))

    def test_what_a_gpu_cannot_count_is_a_dash(self):
        rows = self.cells(fixtures.safe_softmax("cuda"))
        self.assertEqual(rows[1][3:], ["10.1 MB", "-", "-", "-", "-", "-", "ok"])

    def test_ratio_needs_the_same_problem(self):
        other = fixtures.online_softmax()
        other["problem"] = {"rows": 1, "cols": 1}
        rows = self.cells(fixtures.safe_softmax(), other)
        self.assertEqual(rows[4][5], "-")

    def test_nan_is_the_worst_error_and_never_passes(self):
        run = fixtures.chapter("03_x", [fixtures.variant("v", 1)])
        tensors = run["variants"][0]["check"]["tensors"]
        tensors["nan"] = {"rel_l2": None, "max_abs": None, "tolerance": 1.0}
        row = results.read([run])[0].rows[0]
        self.assertEqual(row.error.tensor, "nan")

    def test_an_output_that_is_judged_by_its_largest_error_only_decides(self):
        run = fixtures.chapter("03_x", [fixtures.variant("v", 1)])
        check = run["variants"][0]["check"]
        check["tensors"]["lse"] = {"rel_l2": 0.5, "max_abs": 0.25, "measure": "max_abs", "tolerance": 1e-4}
        check["passed"] = False
        row = results.read([run])[0].rows[0]
        self.assertEqual(row.error.tensor, "y")
        self.assertEqual(row.verdict, results.FAIL)

    def test_the_workspace_has_a_column_where_a_variant_has_one(self):
        run = fixtures.safe_softmax()
        self.assertNotIn("work-", table.render(results.read([run]), plain))
        run["variants"][1]["workspace_bytes"] = 5_033_376
        text = table.render(results.read([run]), plain)
        self.assertRegex(text, r"row_per_thread +1.3e-07 / 2e-06 5.03 MB +10.1 MB")
        self.assertRegex(text, r"row_per_warp +\S+ / 2e-06 +- ")

    def test_verdicts(self):
        cases = {
            results.OK: {},
            results.UNCHECKED: {"check": None},
            results.FAIL: {"defects": [fixtures.RACE]},
        }
        for verdict, fields in cases.items():
            run = fixtures.chapter("03_x", [fixtures.variant("v", 1) | fields])
            self.assertEqual(results.read([run])[0].rows[0].verdict, verdict)
        wrong = fixtures.chapter("03_x", [fixtures.variant("v", 1, rel_l2=1.0)])
        self.assertEqual(results.read([wrong])[0].rows[0].verdict, results.FAIL)
        stopped = fixtures.variant("v", 1) | {"failure": "the kernel never ended"}
        text = table.render(results.read([fixtures.chapter("03_x", [stopped])]), plain)
        self.assertIn("did not run: the kernel never ended", text)

    def test_a_formula_that_is_off_by_one_byte_fails_and_is_named(self):
        run = fixtures.online_softmax()
        run["variants"][0]["traffic"]["counted"]["read_bytes"] += 1
        chapters = results.read([run])
        self.assertEqual(chapters[0].rows[0].verdict, results.FAIL)
        self.assertIn("02 online: the formula says", table.render(chapters, plain))

    def test_a_formula_may_be_a_minimum(self):
        run = fixtures.online_softmax()
        traffic = run["variants"][0]["traffic"]
        for tensor in traffic["predicted"]["tensors"].values():
            tensor["at_least"] = True
        traffic["counted"]["read_bytes"] += 1
        row = results.read([run])[0].rows[0]
        self.assertEqual(row.verdict, results.OK)
        self.assertEqual(table.cells(row)[3], ">=7.55 MB")
        traffic["counted"]["read_bytes"] -= 2
        self.assertEqual(results.read([run])[0].rows[0].verdict, results.FAIL)

    def test_never_wider_than_100_columns(self):
        long = fixtures.variant("a_name_that_is_much_too_long_for_the_table", 999_999)
        long["defects"] = [fixtures.RACE] * 99_999
        long["workspace_bytes"] = 1_234_567_890
        for tensor in long["traffic"]["predicted"]["tensors"].values():
            tensor["at_least"] = True
        long["check"]["known_failure"] = "a long reason " * 20
        long["shared"]["load_wavefronts"] = 10**14
        long["check"]["tensors"]["y"].update(rel_l2=1.26e-07, tolerance=1.5e-06)
        run = fixtures.chapter("03_a_chapter", [fixtures.variant("v", 1), long])
        run["problem"] = {f"a_long_size_{index}": 10**9 for index in range(9)}
        for line in table.render(results.read([run]), plain).splitlines():
            self.assertLessEqual(len(line), WIDTH, line)
        self.assertLessEqual(len(table.HOW_TO_READ), WIDTH)

    def test_sectors_of_atomic_additions_count_for_reads_and_for_writes(self):
        run = fixtures.safe_softmax()
        counted = run["variants"][0]["traffic"]["counted"]
        before = results.read([run])[0].rows[0].counted.sectors
        counted["atomic_sectors"] = 7
        self.assertEqual(results.read([run])[0].rows[0].counted.sectors, before + 14)

    def test_the_problem_in_words(self):
        run = fixtures.safe_softmax()
        run["problem"] |= {"k": "/some/where/k.npy", "scale": 0.17677669, "causal": False}
        expected = "softmax, rows 2748, cols 229, scale 0.1768, from q.npy k.npy"
        self.assertEqual(results.read([run])[0].problem, expected)

    def test_numbers_for_people(self):
        self.assertEqual(results.human(27816960, "B"), "27.8 MB")
        self.assertEqual(results.human(999_950, "B"), "1.00 MB")
        self.assertEqual(results.human(0, "B"), "0 B")
        self.assertEqual(results.human(9999), "9999")
        self.assertEqual(results.human(46920), "46.9 k")
        self.assertEqual(results.scientific(2e-6), "2e-06")
        self.assertEqual(results.scientific(float("inf")), "inf")


class RunTest(LearnTest):
    def test_prints_one_table_calls_no_apt_and_leaves_nothing_behind(self):
        temporary = self.tree.root / "tmp"
        temporary.mkdir()
        done = self.tree.learn("run", TMPDIR=str(temporary))
        self.assert_well(done)
        self.assertEqual(done.stdout.count("verdict"), 1)
        self.assertRegex(done.stdout, r"on_chip +9e-08 / 2e-06 +5.03 MB +5.03 MB +0.67")
        self.assertIn("* declared: 01 unsafe: exp(x) overflows", done.stdout)
        self.assertIn(table.HOW_TO_READ, done.stdout)
        self.assertRegex(done.stdout, r"then ./learn (start|test) 01\n")
        for line in done.stdout.splitlines():
            if not line.startswith("-- "):  # a command that was run, as it was run
                self.assertLessEqual(len(line), WIDTH, line)
        self.assertLessEqual(done.stdout.count("/40]"), 10)  # progress, in a log
        self.assertNotRegex(done.stdout, "[\r\x1b]")
        self.assertEqual(self.tree.calls("apt-get"), [])
        self.assertEqual([path.name for path in temporary.glob("*learn*")], [])
        self.assertEqual(
            self.tree.calls("cmake")[-2:],
            [
                "cmake --preset sim",
                "cmake --build --preset sim --target ch01_safe_softmax ch02_online_softmax",
            ],
        )

    def test_chapters_read_the_tensors_that_they_know(self):
        for name in ("03_attention", "08_backward"):
            self.tree.set_results(fixtures.chapter(name, [fixtures.variant("v", 1)]))
            (self.tree.root / "chapters" / name).mkdir()
            (self.tree.root / "chapters" / name / "README.md").touch()
        self.assert_well(self.tree.learn("run", "02", "3", "8"))
        data = self.tree.root / "data"
        softmax = self.tree.calls("ch02_online_softmax")[0]
        self.assertIn(f"--variant all --q {data}/q.npy --k {data}/k.npy --json", softmax)
        attention = self.tree.calls("ch03_attention")[0]
        self.assertIn(f"--v {data}/v.npy --json", attention)
        backward = self.tree.calls("ch08_backward")
        self.assertEqual(len(backward), 2)
        for call, dtype in zip(backward, ("fp32", "bf16"), strict=True):
            self.assertIn(f"--variant all --dtype {dtype} --q", call)
            self.assertIn(f"--v {data}/v.npy --do {data}/do.npy --json", call)
        self.assertEqual(self.tree.calls("ch01_safe_softmax"), [])

    def test_options_after_the_chapter_are_for_its_program(self):
        done = self.tree.learn("run", "01", "--rows", "3", "--no-install", "--cols=5")
        self.assert_well(done)
        [call] = self.tree.calls("ch01_safe_softmax")
        self.assertIn(" --variant all --rows 3 --cols=5 --json ", call)
        self.assertEqual(self.tree.calls("dpkg-query"), [])
        self.assertIn("ch01_safe_softmax --variant all --rows 3 --cols=5\n", done.stdout)
        done = self.tree.learn("run", "2", "--scale", "-1", "--variant", "online", "--json", "-")
        self.assertEqual(json.loads(done.stdout), [fixtures.online_softmax()])
        [call] = self.tree.calls("ch02_online_softmax")
        self.assertIn("--variant online --q ", call)
        self.assertIn("/k.npy --scale -1 --json", call)

    def test_an_element_type_of_ones_own_is_the_only_one(self):
        run = fixtures.chapter("08_backward", [fixtures.variant("v", 1)])
        self.tree.set_results(run)
        (self.tree.root / "chapters/08_backward").mkdir()
        (self.tree.root / "chapters/08_backward/README.md").touch()
        self.assert_well(self.tree.learn("run", "8", "--dtype", "fp16"))
        [call] = self.tree.calls("ch08_backward")
        self.assertIn("--variant all --dtype fp16 --q ", call)

    def test_what_comes_next(self):
        name = "01_safe_softmax"
        own = self.tree.root / "exercises" / name
        self.assertIn("then ./learn test 01", self.tree.learn("run", "1").stdout)
        (self.tree.root / "chapters" / name / "exercises.toml").touch()
        self.assertIn("then ./learn start 01", self.tree.learn("run", "1").stdout)
        own.mkdir(parents=True)
        self.assertIn("then ./learn check 01", self.tree.learn("run", "1").stdout)

    def test_what_the_program_refuses_is_one_line(self):
        done = self.tree.learn("run", "1", "--rows", "x", FAKE_EXIT_01="2")
        self.assert_one_line(done, 2, "learn: --q q.npy: must be float16\n")
        done = self.tree.learn("run", "--rows", "3", "01")
        self.assert_one_line(
            done,
            2,
            "--rows is no option of this command; those of a chapter's program come after NN "
            "(see ./learn run --help)",
        )

    def test_a_gpu_takes_the_time(self):
        self.assert_well(self.tree.learn("run", "1", "--preset", "cuda"))
        self.assertIn("--bench", self.tree.calls("ch01_safe_softmax")[0])

    def test_what_was_skipped_is_said_and_is_no_failure(self):
        run = fixtures.online_softmax()
        small = "a block needs 131072 bytes of shared memory, this device has 101376"
        run["variants"][1:3] = [fixtures.skipped(name, small) for name in ("two", "3")]
        self.tree.set_results(run)
        done = self.tree.learn("run", "2")
        self.assert_well(done)
        self.assertIn(f"* skipped: 02 two, 3: {small}\n", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertIn(["two", *["-"] * 7, "skipped"], rows)
        on_chip = next(row for row in rows if row and row[0] == "on_chip")
        self.assertIn("0.67", on_chip)  # of the bytes of `online`

    def test_what_a_gpu_is_too_old_for_runs_on_the_simulator(self):
        old = "needs compute capability 8.0, this device has 7.5"
        partly = fixtures.online_softmax("cuda")
        partly["variants"][2:] = [
            fixtures.skipped(name, old, too_old=True) for name in ("block_per_row", "on_chip")
        ]
        self.tree.set_results(partly, "cuda")
        simulated = fixtures.online_softmax()
        del simulated["variants"][:2]
        self.tree.set_results(simulated, "sim")
        file = self.tree.root / "all.json"
        done = self.tree.learn("run", "2", "--preset", "cuda", "--json", str(file))
        self.assert_well(done)
        first, second = self.tree.calls("ch02_online_softmax")
        self.assertIn("--variant all ", first)
        self.assertIn("--variant block_per_row,on_chip ", second)
        self.assertNotIn("--bench", second)
        self.assertIn("not for this GPU: block_per_row, on_chip\n", done.stdout)
        self.assertIn(f"* 02_online_softmax ran on the simulator: {old}\n", done.stdout)
        gpu, sim = json.loads(file.read_text())
        self.assertEqual([v["name"] for v in gpu["variants"]], ["online", "vectorized"])
        self.assertEqual((sim["backend"], sim["too_old"]), ("sim", old))

    def add_hopper(self):
        run = fixtures.chapter("09_hopper", [fixtures.variant("final", 1)])
        self.tree.set_results(run)
        folder = self.tree.root / "chapters/09_hopper"
        folder.mkdir()
        (folder / "README.md").touch()
        (folder / "CMakeLists.txt").write_text("fa_add_chapter(ARCHITECTURE 90a)\n")

    def add_gpu(self, capability: str):
        for name in ("nvcc", "nvidia-smi"):
            path = self.tree.bin / name
            path.write_text(
                '#!/bin/sh\ncase "$*" in\n'
                '  *--version*) echo "release 13.0" ;;\n'
                f"  *compute_cap*) echo {capability} ;;\n"
                '  *) echo "A GPU, 8 MiB" ;;\nesac\n'
            )
            path.chmod(0o755)

    def test_what_cannot_take_the_real_input_runs_on_random_numbers(self):
        self.add_hopper()
        done = self.tree.learn("run")
        self.assert_well(done)
        [call] = self.tree.calls("ch09_hopper")
        self.assertIn(" --variant all --heads 4 --kv-heads 2 --seq-q 229 ", call)
        self.assertIn(" --head-dim 64 --causal --json ", call)
        self.assertNotIn(".npy", call)
        [line] = [x for x in done.stdout.splitlines() if "random numbers" in x]
        self.assertRegex(line, "^09: .* head_dim 64 and more; .* real input is 32")
        self.assertLessEqual(len(line), WIDTH)
        self.assertNotIn("random numbers", self.tree.learn("run", "02").stdout)
        self.assert_well(self.tree.learn("run", "9", "--seq-q", "7"))
        own = self.tree.calls("ch09_hopper")[-1]
        self.assertIn(" --variant all --seq-q 7 --json ", own)

    def test_kernels_for_another_gpu_run_on_the_simulator(self):
        self.add_hopper()
        self.add_gpu("12.0")
        done = self.tree.learn("run", "9")
        self.assert_well(done)
        why = "09: needs compute capability 9.0 exactly, this GPU has 12.0: runs on the simulator\n"
        self.assertEqual(done.stdout.count(why), 1)
        builds = [call for call in self.tree.calls("cmake") if "--build" in call]
        self.assertEqual(builds, ["cmake --build --preset sim --target ch09_hopper"])
        tests = self.tree.learn("test", "9")
        self.assertEqual(tests.stdout.count(why), 1)
        self.assertIn("ctest --preset sim", self.tree.calls("ctest")[0])
        self.assertNotIn(why, self.tree.learn("run", "1", "9").stdout)
        self.assertIn("--preset cuda", self.tree.calls("cmake")[-1])

    def test_kernels_run_on_the_gpu_that_they_are_for(self):
        self.add_hopper()
        for capability, words in (("9.0", ()), ("12.0", ("--preset", "cuda"))):
            self.add_gpu(capability)
            done = self.tree.learn("run", "9", *words)
            self.assert_well(done)
            self.assertNotIn("needs compute capability", done.stdout)
            self.assertIn("--bench", self.tree.calls("ch09_hopper")[-1])

    def test_json_is_the_list_of_what_the_chapters_wrote(self):
        file = self.tree.root / "all.json"
        self.assert_well(self.tree.learn("run", "--json", str(file)))
        self.assertEqual(file.stat().st_mode & 0o777, 0o644)
        runs = json.loads(file.read_text())
        self.assertEqual(runs, [fixtures.safe_softmax(), fixtures.online_softmax()])

    def test_json_on_standard_output_is_alone_there(self):
        done = self.tree.learn("run", "1", "--json", "-")
        self.assertEqual(json.loads(done.stdout), [fixtures.safe_softmax()])
        self.assertIn("verdict", done.stderr)

    def test_json_that_cannot_be_written_is_refused_before_anything(self):
        for target in ("no/such/all.json", "data"):
            done = self.tree.learn("run", "--json", str(self.tree.root / target))
            self.assert_one_line(done, 2, "--json", "a folder that exists")
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_a_defect_ends_with_1_and_is_shown(self):
        run = fixtures.online_softmax()
        run["variants"][1]["defects"] = [fixtures.RACE]
        self.tree.set_results(run)
        done = self.tree.learn("run", FAKE_EXIT_02="1")
        self.assert_one_line(done, 1, "02_online_softmax")
        self.assertIn("what is wrong\n\n========= Race reported", done.stdout)
        self.assertNotIn("a table", done.stdout)
        self.assertIn("\n\ngdb: ./learn debug 02 --q data/q.npy\n", done.stdout)
        self.assertRegex(done.stdout, r"vectorized .* 1 FAIL")

    def test_2_and_3_of_a_chapter_are_passed_on(self):
        done = self.tree.learn("run", FAKE_EXIT_01="2")
        self.assert_one_line(done, 2, "could not run 01_safe_softmax")
        self.assertIn("error: --q q.npy: must be float16", done.stdout)
        self.assertIn("02_online_softmax (", done.stdout)
        done = self.tree.learn("run", "1", FAKE_EXIT_01="3")
        self.assert_one_line(done, 3, "could not run 01_safe_softmax")

    def test_a_crash_is_a_failure(self):
        done = self.tree.learn("run", "1", FAKE_EXIT_01="-11")
        self.assert_one_line(done, 1, "01_safe_softmax")
        self.assertIn("ended by SIGSEGV", done.stdout)

    def test_missing_data_is_named(self):
        (self.tree.root / "data/k.npy").unlink()
        self.assert_one_line(self.tree.learn("run"), 2, "data/k.npy", "git checkout")


class BuildTest(LearnTest):
    def test_a_compiler_error_is_shown_and_the_file_named(self):
        done = self.tree.learn("run", FAKE_BUILD="fails")
        self.assert_one_line(done, 1, "chapters/01_safe_softmax/chapter.cu.o")
        self.assertIn("kernel.cuh:7:3: error: expected ';'", done.stdout)
        self.assertNotIn("-a -very -long -command", done.stdout)

    def test_cmake_that_fails_says_why(self):
        done = self.tree.learn("test", FAKE_CONFIGURE="fails")
        self.assert_one_line(done, 1, "configuring sim failed")
        self.assertIn("CMake Error: no such thing", done.stdout)

    def test_too_old_tools(self):
        old = {"FAKE_COMPILER": "g++ (Debian 10.2.1-6) 10.2.1 20210110"}
        self.assert_one_line(self.tree.learn("run", **old), 3, "g++ 10.2.1", "12 or newer")
        done = self.tree.learn("test", FAKE_CMAKE="3.22.1")
        self.assert_one_line(done, 3, "cmake 3.22.1", "3.25 or newer")

    def test_presets(self):
        self.assertIn("--preset sim", self.tree.learn("test", FA_PRESET="sim").stdout)
        done = self.tree.learn("test", "--preset", "simm")
        self.assert_one_line(done, 2, "--preset simm", "sim, cuda")
        done = self.tree.learn("test", FA_PRESET="base")
        self.assert_one_line(done, 2, "FA_PRESET base", "sim, cuda")
        done = self.tree.learn("run", "--preset", "cuda", CUDA_HOME="/nowhere")
        self.assert_one_line(done, 3, "there is no nvcc")

    def test_ctrl_c_ends_it_all_with_one_line(self):
        process = subprocess.Popen(
            self.tree.command("run"),
            env=self.tree.environment(FAKE_SLEEP="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        sign = self.tree.root / "asleep"
        for _ in range(500):
            if sign.exists() and sign.read_text():
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=15)
        self.assertEqual((process.returncode, error), (130, "learn: interrupted\n"))
        with self.assertRaises(ProcessLookupError):
            os.kill(int(sign.read_text()), 0)


class CtestTest(LearnTest):
    def test_passing_tests(self):
        done = self.tree.learn("test")
        self.assert_well(done)
        self.assertIn("2 tests passed, 1 skipped", done.stdout)
        self.assertIn("were left out: ./learn test --all\n", done.stdout)
        self.assertEqual(self.tree.tests_that_ran(), [1, 2, 3])

    def test_all_tests(self):
        done = self.tree.learn("test", "--all")
        self.assert_well(done)
        self.assertNotIn("left out", done.stdout)
        self.assertEqual(self.tree.tests_that_ran(), [1, 2, 3, 4])

    def test_chapters_are_labels(self):
        done = self.tree.learn("test", "01", "chapters/02_online_softmax")
        self.assert_well(done)
        self.assertIn("./learn test 01 chapters/02_online_softmax --all\n", done.stdout)
        self.assertEqual(self.tree.tests_that_ran(), [1, 2])

    def test_a_failing_test_is_named_with_what_it_printed(self):
        done = self.tree.learn("test", FAKE_CTEST="fails")
        self.assert_one_line(done, 1, "1 of 2 tests failed")
        self.assertIn("failed  test_ch02_online_softmax.Online", done.stdout)
        self.assertIn("kernel_test.cpp:12: Failure", done.stdout)

    def test_no_tests(self):
        done = self.tree.learn("test", "02", FAKE_CTEST_NONE="1")
        self.assert_one_line(done, 1, "no tests of chapter 02")

    def test_lines_of_ctest(self):
        reader = phases.CtestReader()
        phase = phases.Phase(mock.Mock(live=False, width=WIDTH))
        for line in (
            "1/7 Test #1: a.ok ......   Passed    0.03 sec",
            "2/7 Test #5: notfound .......***Not Run   0.00 sec",
            "3/7 Test #6: off ............***Not Run (Disabled)   0.00 sec",
            "4/7 Test #2: b/bad with a space ...***Failed    0.05 sec",
            "5/7 Test #3: skipped ........***Skipped   0.06 sec",
            "6/7 Test #7: segv ...........***Exception: SegFault  0.04 sec",
            "7/7 Test #4: slow ...........***Timeout   1.65 sec",
        ):
            reader(phase, line)
        self.assertEqual(reader.passed, 1)
        self.assertEqual(reader.skipped, ["off", "skipped"])
        self.assertEqual(reader.failed, ["notfound", "b/bad with a space", "segv", "slow"])


class DocsTest(LearnTest):
    """With a stand-in for tools/docs/website/build.py."""

    def builder(self, text: str) -> None:
        path = self.tree.root / "tools" / "docs" / "website" / "build.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def docs(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        # With a markdown-it here, this Python builds the site.
        (self.tree.root / "broken" / "markdown_it.py").touch()
        return self.tree.learn("docs", *words, **variables)

    def test_says_where_the_site_is(self):
        self.builder("")
        done = self.docs()
        self.assert_well(done)
        self.assertIn("site:   build/docs/html/index.html", done.stdout)
        self.assertEqual(self.tree.calls("apt-get") + self.tree.calls("cmake"), [])

    def test_installs_what_is_missing_and_shows_the_command_first(self):
        self.builder("")
        done = self.docs(FAKE_MISSING="doxygen libjs-mathjax")
        self.assert_well(done)
        install = self.tree.calls("apt-get")[-1]
        self.assertTrue(install.endswith("install --no-install-recommends doxygen libjs-mathjax"))
        self.assertLess(
            done.stdout.index("doxygen libjs-mathjax"), done.stdout.index("tools.docs.website.build")
        )

    def test_no_install(self):
        self.builder("")
        self.assert_well(self.docs("--no-install", FAKE_MISSING="doxygen"))
        self.assertEqual(self.tree.calls("apt-get"), [])

    def test_errors_are_one_line(self):
        self.builder(
            "import sys\nprint('x.hpp:3: warning: @param z', flush=True)\nsys.exit('docs: Doxygen has "
            "warnings: see above')"
        )
        done = self.docs()
        self.assert_one_line(done, 1, "the site was not made: Doxygen has warnings: see above")
        self.assertIn("x.hpp:3: warning", done.stdout)
        self.builder("import sys\nprint('docs: not installed: doxygen')\nsys.exit(3)")
        self.assert_one_line(self.docs(), 3, "the site was not made: not installed: doxygen")


class PackagesTest(LearnTest):
    def test_missing_packages_are_installed_and_the_command_comes_first(self):
        done = self.tree.learn("test", FAKE_MISSING="libfmt-dev libgtest-dev")
        self.assert_well(done)
        sudo = "" if os.geteuid() == 0 else "sudo "
        install = (
            f"-- packages: {sudo}env DEBIAN_FRONTEND=noninteractive apt-get -y "
            "-o DPkg::Lock::Timeout=300 install --no-install-recommends libfmt-dev libgtest-dev\n"
        )
        self.assertIn(f"-- package lists: {sudo}apt-get -y update\n", done.stdout)
        self.assertIn(install, done.stdout)
        self.assertEqual(self.tree.calls("apt-get")[0], "apt-get -y update")
        self.assertTrue(self.tree.calls("apt-get")[1].endswith(" libfmt-dev libgtest-dev"))
        self.assert_well(self.tree.learn("test", FAKE_MISSING="libfmt-dev libgtest-dev"))
        self.assertEqual(len(self.tree.calls("apt-get")), 2)

    def test_apt_that_fails(self):
        done = self.tree.learn("run", FAKE_MISSING="libcli11-dev", FAKE_APT="fails")
        self.assert_one_line(done, 3, "does not know libcli11-dev")
        self.assertIn("E: Unable to locate package", done.stdout)

    def test_programs_that_do_not_come_from_dpkg_are_taken(self):
        done = self.tree.learn("run", FAKE_MISSING="cmake ninja-build")
        self.assert_well(done)
        self.assertEqual(self.tree.calls("apt-get"), [])

    def test_no_apt_lists_the_packages_and_their_purpose(self):
        self.tree.without("apt-get")
        done = self.tree.learn("run", FAKE_MISSING="libeigen3-dev")
        self.assert_one_line(done, 3, "no apt-get")
        self.assertRegex(done.stdout, r"libeigen3-dev +float64 reference")
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_without_dpkg_it_looks_for_itself(self):
        self.tree.without("apt-get", "dpkg-query", "ninja")
        done = self.tree.learn("run")
        self.assert_one_line(done, 3, "no apt-get")
        self.assertRegex(done.stdout, r"ninja-build +runs the build")
        self.assertNotIn("binutils", done.stdout)  # addr2line is on the PATH

    def test_no_install_takes_what_is_there(self):
        done = self.tree.learn("run", "--no-install", FAKE_MISSING="libfmt-dev")
        self.assert_well(done)
        self.assertEqual(self.tree.calls("apt-get"), [])

    def ensure(self, **variables: str) -> str:
        """Calls packages.ensure() as an ordinary user. Returns the output."""
        packages.missing.cache_clear()
        said = []
        terminal = mock.Mock(spec=console.Console, live=False, width=WIDTH)
        terminal.say.side_effect = lambda text="", style="": said.append(text)
        environment = self.tree.environment(**variables)
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch("os.geteuid", return_value=1000),
            mock.patch("sys.stdin", mock.Mock(isatty=lambda: False)),
        ):
            try:
                packages.ensure(terminal)
            except console.LearnError as error:
                said.append(f"exit {error.status}: {error}")
        packages.missing.cache_clear()
        return "\n".join(said)

    def test_with_sudo(self):
        said = self.ensure(FAKE_MISSING="libfmt-dev")
        self.assertIn("-- package lists: sudo apt-get -y update", said)
        self.assertIn("-- packages: sudo env DEBIAN_FRONTEND=noninteractive apt-get", said)
        self.assertEqual(len(self.tree.calls("apt-get")), 2)
        self.assertNotIn("exit", said)

    def test_neither_root_nor_sudo_prints_the_command(self):
        self.tree.without("sudo")
        self.tree.without("cmake", "ninja")
        said = self.ensure(FAKE_MISSING="cmake ninja-build")
        self.assertRegex(said, r"(?m)^apt-get -y update && env .* cmake ninja-build$")
        self.assertIn("exit 3: installing needs root or sudo", said)
        self.assertEqual(self.tree.calls("apt-get"), [])

    def test_sudo_that_wants_a_password_and_nobody_to_type_it(self):
        said = self.ensure(FAKE_MISSING="libfmt-dev", FAKE_SUDO="1")
        self.assertRegex(said, r"(?m)^sudo apt-get -y update && sudo env .* libfmt-dev$")
        self.assertIn("exit 3", said)
        self.assertEqual(self.tree.calls("apt-get"), [])

    def test_the_report_alone_stops_nobody(self):
        self.tree.without("sudo")
        said = self.ensure(FAKE_MISSING="python3-matplotlib")
        self.assertIn("Going on without", said)
        self.assertNotIn("exit", said)

    def test_nor_when_apt_does_not_have_it(self):
        said = self.ensure(FAKE_MISSING="python3-matplotlib", FAKE_APT="fails")
        self.assertIn("E: Unable to locate package", said)
        self.assertIn("Going on without", said)
        self.assertNotIn("exit", said)

    def test_what_can_be_left_out_does_not_keep_the_rest_from_being_installed(self):
        missing = "libcli11-dev libopenmpi-dev"
        said = self.ensure(FAKE_MISSING=missing, FAKE_APT="fails")
        first, second = (c for c in self.tree.calls("apt-get") if " install " in c)
        self.assertTrue(first.endswith(missing), first)
        self.assertTrue(second.endswith("--no-install-recommends libcli11-dev"), second)
        self.assertIn("exit 3", said)


class CommandLineTest(LearnTest):
    def test_what_makes_no_sense_is_one_line_and_2(self):
        cases = {
            ("run", "99"): ("no chapter 99", "01, 02"),
            ("test", "1", "x"): ("no chapter x", "01, 02"),
            ("tset",): ("tset is not a command", "did you mean test?"),
            ("frobnicate",): ("run, test, start",),
            ("look", "01"): ("chapter 01 have no maps", "07, 08, 09 and 10 have some"),
            ("run", "--jsn", "f"): ("--jsn",),
            ("run", "--json"): ("--json", "expected one argument"),
            ("--version",): ("--version",),
        }
        for words, expected in cases.items():
            with self.subTest(words):
                self.assert_one_line(self.tree.learn(*words), 2, *expected)
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_started_as_a_program(self):
        self.assert_well(
            subprocess.run(
                [self.tree.root / "learn", "doctor"],
                env=self.tree.environment(),
                capture_output=True,
                text=True,
                check=False,
            )
        )

    def test_help(self):
        for words in (["--help"], ["run", "--help"], ["test", "-h"], ["doctor", "-h"]):
            done = self.tree.learn(*words)
            self.assert_well(done)
            for line in done.stdout.splitlines():
                self.assertLessEqual(len(line), WIDTH)

    def test_help_is_that_of_the_command_wherever_it_stands(self):
        for command in COMMANDS:
            own = self.tree.learn(command, "--help")
            self.assert_well(own)
            self.assertTrue(own.stdout.startswith(f"usage: ./learn {command} "))
            for words in (["01", "--help"], ["01", "-h"], ["01", "--rows", "3", "-h"]):
                after = self.tree.learn(command, *words)
                self.assertEqual((after.stdout, after.stderr), (own.stdout, ""))
        self.assertEqual(self.tree.calls("cmake") + self.tree.calls("ch01"), [])

    def test_a_reader_that_leaves(self):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write) as gone:
            done = subprocess.run(
                self.tree.command("--help"),
                env=self.tree.environment(),
                stdout=gone,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        self.assertEqual(done.stderr, "")


class OverviewTest(LearnTest):
    def test_a_fresh_tree(self):
        done = self.tree.learn()
        self.assert_well(done)
        self.assertRegex(done.stdout, r"(?m)^   01  Safe softmax +not built$")
        self.assertRegex(done.stdout, r"(?m)^   02  02_online_softmax +not built$")
        self.assertLess(done.stdout.index("./learn run"), done.stdout.index("./learn test"))

    def test_after_tests(self):
        self.tree.learn("test", FAKE_CTEST="fails")
        done = self.tree.learn()
        self.assertRegex(done.stdout, r"01  Safe softmax +built +tests: 1 passed\n")
        self.assertRegex(done.stdout, r"02  02_online_.* +built +tests: 1 of 1 failed\n")
        self.assertIn("./learn test 02", done.stdout)

    def test_tests_that_are_called_as_their_label(self):
        self.tree.learn("test")
        log = self.tree.root / "build/sim/Testing/Temporary/LastTest.log"
        text = log.read_text().replace("test_ch01_safe_softmax.Safe", "chapter01.ends")
        log.write_text(text)
        said = self.tree.learn().stdout
        self.assertRegex(said, r"01  Safe softmax +built +tests: 1 passed\n")


class DoctorTest(LearnTest):
    def test_ready(self):
        done = self.tree.learn("doctor", CUDA_HOME="/nowhere")
        self.assert_well(done)
        self.assertTrue(done.stdout.endswith("ready\n"))
        self.assertRegex(done.stdout, r"compiler +g\+\+ 12.2.0\n")
        self.assertRegex(done.stdout, r"preset +sim: there is no nvcc\n")

    def test_not_ready(self):
        done = self.tree.learn("doctor", FAKE_MISSING="libfmt-dev", FAKE_CMAKE="3.18.4")
        self.assert_one_line(done, 3, "not ready", "cmake 3.18.4", "installs libfmt-dev")
        self.assertEqual(self.tree.calls("apt-get"), [])


class TerminalTest(LearnTest):
    def on_terminal(self, *words: str, **variables: str) -> str:
        """The output of ./learn on a terminal."""
        ours, its = pty.openpty()
        environment = self.tree.environment(TERM="xterm", **variables)
        process = subprocess.Popen(
            self.tree.command(*words), env=environment, stdin=its, stdout=its, stderr=its
        )
        os.close(its)
        text = b""
        try:
            while chunk := os.read(ours, 65536):
                text += chunk
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        os.close(ours)
        process.wait()
        return text.decode()

    def test_colour_and_an_updating_line_on_a_terminal_only(self):
        text = self.on_terminal("run", "1", "--no-install")
        self.assertIn("\x1b[32mok\x1b[0m", text)
        self.assertIn("\x1b[33mdeclared\x1b[0m", text)
        self.assertIn("\r   [40/40] 100 %", text)

    def test_no_color(self):
        text = self.on_terminal("run", "1", "--no-install", NO_COLOR="1")
        self.assertIn("\r   [40/40] 100 %", text)
        self.assertNotIn("\x1b[3", text)
        self.assertNotIn("\x1b", self.on_terminal(NO_COLOR="1"))


class PageReader(html.parser.HTMLParser):
    """Collects what the tests check on the page."""

    def __init__(self):
        super().__init__()
        self.references: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        for name in ("src", "href", "xlink:href", "srcset", "data"):
            self.references += [values[name]] if name in values else []
        self.ids += [values["id"]] if "id" in values else []
        if tag == "svg":
            self.labels.append(values.get("aria-label", ""))


class ReportTest(LearnTest):
    def report(self, *runs: dict) -> str:
        for run in runs:
            self.tree.set_results(run)
        done = subprocess.run(
            [sys.executable, self.tree.root / "learn", "run"],
            env=self.tree.environment(PYTHONPATH=""),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("plots:  build/report.html", done.stdout)
        return (self.tree.root / "build" / "report.html").read_text(encoding="utf-8")

    @needs_matplotlib
    def test_is_one_file_that_needs_nothing(self):
        run = fixtures.online_softmax()
        run["variants"][1]["defects"] = [fixtures.RACE | {"message": "<script>"}]
        text = self.report(run)
        page = PageReader()
        page.feed(text)
        self.assertNotRegex(text, r"https?:|//[a-z]|@import")
        self.assertTrue(all(reference.startswith("#") for reference in page.references))
        self.assertEqual(set(page.tags) & {"script", "link", "img", "iframe"}, set())
        targets = set(re.findall(r"url\(#([^)]+)\)", text))
        targets |= {reference[1:] for reference in page.references}
        self.assertLessEqual(targets, set(page.ids))
        self.assertEqual(len(page.ids), len(set(page.ids)))
        # Colours come from the page, for light and dark alike.
        drawings = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
        self.assertNotRegex(drawings, r"#[0-9a-f]{6}")
        self.assertEqual(len(page.labels), 4)
        self.assertIn("02 on_chip: 5.03 MB counted", page.labels[0])
        self.assertIn("12.1 %", page.labels[1])
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertIn("&lt;script&gt;", text)

    @needs_matplotlib
    def test_of_a_gpu_shows_what_is_known(self):
        text = self.report(fixtures.safe_softmax("cuda"), fixtures.online_softmax("cuda"))
        self.assertEqual(text.count("<svg"), 3)
        self.assertIn("02 on_chip: 0.1 ms, 1500 GB/s", text)
        self.assertIn("NVIDIA H100", text)
        self.assertIn("./learn run --preset sim", text)

    def test_without_matplotlib_there_is_a_table_and_one_line(self):
        done = self.tree.learn("run")
        self.assert_well(done)
        self.assertIn("on_chip", done.stdout)
        line = r"(?m)^build/report.html was not made: .*nothing to draw with$"
        self.assertRegex(done.stdout, line)
        self.assertFalse((self.tree.root / "build" / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
