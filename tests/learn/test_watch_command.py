"""Tests of ./learn watch on recordings that were not made by the simulator: python3 -m
tests.learn.test_watch_command.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.watch import synthetic
from tools.learn import cli, console, moments, project, views, watching
from tools.learn.commands import watch
from tools.learn.console import LearnError
from tools.watch import recording

from . import fakes, fixtures

WATCH_TOML = """
options = "--rows 7 --seed 1"

[[view]]
title = "Warps wait"
variant = "row_per_block"
options = "--rows 9"
on = "wait"
show = "timeline"
see = "They wait at `__syncthreads()`."
"""
TENSORS = {"x": {"shape": [32, 32], "bytes": 4096}, "y": {"shape": [32, 32], "bytes": 4096}}


def result(variant: dict) -> dict:
    """What the stand-in of chapter 01 writes."""
    return fixtures.chapter("01_safe_softmax", [variant]) | {"tensors": TENSORS}


class CommandTest(unittest.TestCase):
    """With a separate tree for every test."""

    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)
        self.root = self.tree.root
        self.chapter = self.root / "chapters" / "01_safe_softmax"
        (self.chapter / "watch.toml").write_text(WATCH_TOML)
        self.tree.set_results(result(fixtures.variant("row_per_block", 3)))
        self.record(synthetic.transpose(self.root))

    def record(self, made: synthetic.Synthetic) -> None:
        made.write(self.root / "recording")

    def learn(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        return self.tree.learn("watch", *words, **variables)

    def page(self, name: str) -> str:
        return (self.root / "build" / "watch" / name).read_text(encoding="utf-8")

    def made(self, done: subprocess.CompletedProcess) -> str:
        """The output of a command that has written a page."""
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def assert_one_line(self, done: subprocess.CompletedProcess, status: int, text: str):
        self.assertEqual((done.returncode, done.stderr), (status, f"learn: {text}\n"))
        folder = self.root / "build" / "watch"
        self.assertEqual(list(folder.glob("*")) if folder.exists() else [], [])

    # --- what it runs, and what it writes

    def test_the_last_variant_on_the_problem_of_the_chapter(self):
        said = self.made(self.learn("1"))
        built = self.tree.calls("cmake")[-1]
        self.assertIn("--preset sim --target ch01_safe_softmax", built)
        runs = self.tree.calls("ch01_safe_softmax")[1:]  # the first lists the variants
        for run in runs:
            self.assertIn(" --variant row_per_block --rows 7 --seed 1 --json ", run)
        # Of a grid of 4 blocks, neither the first nor the last.
        self.assertEqual(self.tree.calls("recorder"), ["recorder 0,0,0 1 - -", "recorder 1,0,0 - 0 -"])
        self.assertIn("page:  build/watch/01_row_per_block.html (", said)
        self.assertIn(": block 0,0,0 of 4 x 1 x 1, 4 warps, 204 events", said)
        self.assertNotIn("left out", said)
        self.assertIn("   ./learn watch 01 --view 1   Warps wait\n", said)
        self.assertIn("-- watch: build/sim/bin/ch01_safe_softmax --variant", said)
        self.assertIn("01 row_per_block", self.page("01_row_per_block.html"))

    def test_the_first_block_instead_of_one_that_has_nothing_to_do(self):
        self.record(synthetic.idle(self.root))
        said = self.made(self.learn("1"))
        self.assertEqual(self.tree.calls("recorder")[1:], ["recorder 1,0,0 - 0 -", "recorder 0,0,0 - 0 -"])
        self.assertIn("note:  block 1,0,0 has nothing to do on this input: this is block 0,0,0;", said)
        said = self.made(self.learn("1", "--block", "2,0,0"))
        self.assertEqual(self.tree.calls("recorder")[-1], "recorder 2,0,0 - 0 -")
        self.assertNotIn("nothing to do", said)

    def test_a_variant_blocks_options_and_another_file(self):
        words = ("--variant", "row_per_thread", "--rows", "3", "--out", "x.html")
        words += ("--block", "3,0,0", "--block", " 0, 0,0")
        target = self.root / "x.html"
        done = subprocess.run(
            self.tree.command("watch", "01", *words),
            env=self.tree.environment(),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertIn("page:  x.html", self.made(done))
        self.assertTrue(target.read_text().startswith("<!DOCTYPE html>"))
        run = self.tree.calls("ch01_safe_softmax")[-1]
        self.assertIn(" --variant row_per_thread --rows 3 --json ", run)
        self.assertEqual(self.tree.calls("recorder")[-1], "recorder 3,0,0;0,0,0 - 0 -")

    def test_what_was_left_out_is_said(self):
        made = synthetic.transpose(self.root)
        made.header["sections"][0]["left_out"] = 1234567
        self.record(made)
        said = self.made(self.learn("01"))
        self.assertIn("events; the 1,234,567 after them are left out", said.replace("\n   ", " "))

    def test_a_kernel_with_a_defect_has_a_page(self):
        race = fixtures.variant("row_per_block", 3, defects=[fixtures.RACE])
        self.tree.set_results(result(race))
        self.record(synthetic.race(self.root))
        said = self.made(self.learn("01", FAKE_EXIT_01="1"))
        self.assertIn("note:  row_per_block: has a race\n", said)
        self.page("01_row_per_block.html")

    def test_the_block_that_wrote_an_element(self):
        made = synthetic.transpose(self.root)
        for launch in (1, 2):
            made.start(f"kernel_{launch}", 1)
            made.end()
        self.record(made)
        line = "gpusim: y[2,5] was last written by block 3,0,0 of launch 2, thread 1,0,0, at /a/kernel.cuh:9"
        self.made(self.learn("01", "--at", "y[2,5]", FAKE_RECORDER=line))
        calls = ["recorder 0,0,0 1 - y[2,5]", "recorder 0,0,0 1 - -"]
        self.assertEqual(self.tree.calls("recorder"), [*calls, "recorder 3,0,0 - 2 -"])
        self.made(self.learn("01"))
        self.assertEqual(self.tree.calls("recorder")[-1], "recorder 1,0,0 - - -")

    def test_an_element_that_no_block_writes(self):
        said = self.made(self.learn("01", "--at", "x[0,0]"))
        self.assertIn("note:  no block writes x[0,0]\n", said)

    def test_a_prepared_view(self):
        said = self.made(self.learn("01", "--view", "1"))
        self.assertIn("page:  build/watch/01_view_1.html (", said)
        self.assertIn("see:   They wait at `__syncthreads()`.\n", said)
        run = self.tree.calls("ch01_safe_softmax")[-1]
        self.assertIn(" --variant row_per_block --rows 9 --json ", run)
        page = self.page("01_view_1.html")
        self.assertIn("01 row_per_block: Warps wait", page)
        self.assertIn("They wait at __syncthreads().", page)
        self.assertIn('"v":"timeline"', page)

    def test_a_browser_opens_only_for_people(self):
        opener = self.root / "bin" / "xdg-open"
        opener.write_text(f'#!/bin/sh\necho "$1" > {self.root}/opened\n')
        opener.chmod(0o755)
        opened = self.root / "opened"

        def run(*words: str, **variables: str) -> None:
            main, terminal = pty.openpty()
            done = subprocess.Popen(
                self.tree.command("watch", "01", *words),
                env=self.tree.environment(DISPLAY=":0", **variables),
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
            )
            os.close(terminal)
            try:
                while os.read(main, 1 << 16):
                    pass
            except OSError:  # the end
                pass
            os.close(main)
            self.assertEqual(done.wait(60), 0)

        self.made(self.learn("01", DISPLAY=":0"))  # no terminal
        run("--no-open")
        run(CI="true")
        self.assertFalse(opened.exists())
        run()
        for _ in range(200):
            if opened.exists() and opened.read_text():
                break
            subprocess.run(["sleep", "0.02"], check=True)
        page = self.root / "build" / "watch" / "01_row_per_block.html"
        self.assertEqual(opened.read_text(), f"{page}\n")

    # --- what makes no sense

    def test_what_the_program_does_not_have(self):
        for words, text in {
            (
                "--variant",
                "fast",
            ): "--variant fast: must be one of those of chapter 01: row_per_thread, row_per_block",
            ("--block", "4,0,0"): "--block 4,0,0: is outside of the grid: must be 0,0,0 to "
            "3,0,0 (transpose(const float*, float*), 4 x 1 x 1 blocks)",
            ("--at", "z[1]"): "--at 'z[1]': there is no tensor z: must be one of x, y",
            ("--exercise",): "chapter 01 has no exercises yet",
        }.items():
            with self.subTest(words):
                self.assert_one_line(self.learn("01", *words), 2, text)

    def test_options_that_the_program_refuses(self):
        done = self.learn("01", FAKE_EXIT_01="2")
        self.assert_one_line(done, 2, "--q q.npy: must be float16")

    def test_a_program_that_is_ended(self):
        text = (
            "row_per_block stopped the program: it used an address where there is no memory "
            "(SIGSEGV). Nothing is recorded: ./learn debug shows where"
        )
        self.assert_one_line(self.learn("01", FAKE_EXIT_01="-11"), 1, text)

    def test_a_variant_that_the_device_cannot_run(self):
        skipped = fixtures.skipped("row_per_block", "needs compute capability 9.0")
        self.tree.set_results(result(skipped))
        text = "row_per_block cannot run here: needs compute capability 9.0"
        self.assert_one_line(self.learn("01"), 2, text)

    def test_a_variant_without_a_kernel(self):
        (self.root / "recording").unlink()
        said = "gpusim: no block was recorded: nothing was launched"
        text = "row_per_block: no block was recorded: nothing was launched"
        self.assert_one_line(self.learn("01", FAKE_RECORDER=said), 1, text)
        old = "build/sim/bin/ch01_safe_softmax is older than the recorder: build it again"
        self.assert_one_line(self.learn("01"), 3, old)

    def test_a_page_that_cannot_be_written_leaves_the_old_one(self):
        self.made(self.learn("01"))
        before = self.page("01_row_per_block.html")
        (self.root / "recording").write_text("nonsense")
        done = self.learn("01")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "learn: row_per_block: not a recording of the simulator\n")
        self.assertEqual(self.page("01_row_per_block.html"), before)
        files = (self.root / "build" / "watch").iterdir()
        self.assertEqual([file.name for file in files], ["01_row_per_block.html"])


class RefusalTest(unittest.TestCase):
    """What is refused before anything is built."""

    def refused(self, *words: str) -> str:
        args = cli.parse(["watch", *words])
        with self.assertRaises(LearnError) as caught:
            watch.main(console.Console(io.StringIO()), args)
        self.assertEqual(caught.exception.status, 2)
        return str(caught.exception)

    def test_options(self):
        block = "must be three numbers, x,y,z, as in --block 0,0,0"
        at = "must be a tensor and an index, as in --at 'o[0,1,17,5]'"
        own = "--view 1 has a variant, a block and options of its own: leave out"
        file = "must be a file in a folder that exists"
        for words, text in {
            ("--block", "1,2"): f"--block 1,2: {block}",
            ("--block", "1,2,x"): f"--block 1,2,x: {block}",
            ("--block", "1,-2,0"): f"--block 1,-2,0: {block}",
            ("--at", "y"): f"--at y: {at}",
            ("--at", "y[a]"): f"--at y[a]: {at}",
            (
                "--at",
                "y[1,1]",
                "--block",
                "0,0,0",
            ): "--at chooses the block that writes the element: leave out --block",
            ("--view", "9"): "there is no view 9 of chapter 01: must be 1 to 3",
            ("--view", "0"): "there is no view 0 of chapter 01: must be 1 to 3",
            ("--view", "1", "--block", "0,0,0"): f"{own} --block",
            ("--view", "1", "--answer", "1"): f"{own} --answer",
            ("--view", "1", "--rows", "5"): f"{own} --rows 5",
            ("--input", "1"): "--input needs --exercise or --answer",
            ("--input", "1", "--rows", "5"): "--input 1 is an input: leave out --rows 5",
            ("--out", "/"): f"--out /: {file}",
            ("--out", "no/x.html"): f"--out no/x.html: {file}",
        }.items():
            with self.subTest(words):
                self.assertEqual(self.refused("01", *words), text)
        chapters = ", ".join(chapter.number for chapter in project.chapters())
        text = f"there is no chapter 77: the chapters are {chapters}"
        self.assertEqual(self.refused("77"), text)

    def test_places_in_a_tensor(self):
        def byte(word: str) -> int:
            return watching.place_of(word).element(TENSORS).byte

        self.assertEqual(byte("y[0,0]"), 0)
        self.assertEqual(byte(" Y [ 31 , 31 ] "), 4092)
        for word in ("y[32,0]", "y[1]", "y[0,0,0]"):
            with self.assertRaises(LearnError) as caught:
                byte(word)
            self.assertEqual(
                str(caught.exception), f"--at '{word}': y has the shape 32 x 32: its last element is y[31,31]"
            )

    def test_a_wrong_watch_toml(self):
        folder = tempfile.TemporaryDirectory(prefix="test-watch-")
        self.addCleanup(folder.cleanup)
        chapter = project.Chapter(Path(folder.name))
        self.assertEqual(views.of(chapter), views.Sheet())
        file = chapter.path / "watch.toml"
        for old, new, text in (
            ('on = "wait"', 'on = "walt"', "view 1: `on` must be one of conflicts, "),
            ('show = "timeline"', 'show = "time"', "view 1: `show` must be one of "),
            ('see = "', 'say = "', "view 1: `say` is unknown: the keys are title, "),
            ('on = "wait"', "nth = 1", "view 1: `on` is missing"),
            ('options = "--rows 7', 'option = "--rows 7', "`option` is unknown: "),
            ("[[view]]", "another = 3\n[[view]]", "`another` must be a string"),
            ("[[view]]", "[[view", "Expected "),
        ):
            with self.subTest(new):
                file.write_text(WATCH_TOML.replace(old, new))
                with self.assertRaises(LearnError) as caught:
                    views.of(chapter)
                self.assertIn(f"{file}: {text}", str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))


class SearchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-watch-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def read(self, made: synthetic.Synthetic) -> recording.Recording:
        return recording.read(made.write(self.folder / "x.rec"))

    def found(self, recorded: recording.Recording, on: str, **more: object):
        """The kind, the warp and the line of the first event that matches."""
        index = moments.Search(on, **more).first(recorded)
        if index is None:
            return None
        site = recorded.header["sites"][recorded.column("site")[index]]
        line = int(site["lines"][0].rpartition(":")[2])
        return recorded.column("kind")[index], recorded.column("warp")[index], line

    def test_accesses(self):
        recorded = self.read(synthetic.transpose(self.folder))
        self.assertEqual(self.found(recorded, "read"), (1, 0, 6))
        self.assertEqual(self.found(recorded, "write", of="y"), (1, 0, 10))
        self.assertEqual(self.found(recorded, "conflicts"), (1, 0, 10))
        self.assertEqual(self.found(recorded, "conflicts", warp=2), (1, 2, 10))
        self.assertEqual(self.found(recorded, "waste"), (1, 0, 13))
        self.assertEqual(self.found(recorded, "wait"), (3, 0, 8))
        self.assertEqual(self.found(recorded, "wait", nth=3), (3, 2, 8))
        self.assertEqual(self.found(recorded, "read", line="sTile[lane]"), (1, 0, 10))
        for search in ({"of": "z"}, {"line": "no such"}, {"nth": 999}, {"warp": 9}):
            self.assertIsNone(self.found(recorded, "read", **search))
        self.assertIsNone(self.found(recorded, "defect"))

    def test_barriers_copies_and_defects(self):
        recorded = self.read(synthetic.hopper(self.folder))
        index = moments.Search("wait", of="s.ring.full", warp=2).first(recorded)
        barrier = recorded.header["barriers"][recorded.column("array")[index]]
        self.assertEqual(barrier["name"], "s.ring.full[0]")
        index = moments.Search("copy", of="K").first(recorded)
        self.assertEqual(recorded.column("kind")[index], moments.COPY)
        self.assertIsNone(moments.Search("copy", of="V").first(recorded))
        recorded = self.read(synthetic.race(self.folder))
        self.assertIsNotNone(moments.Search("defect").first(recorded))

    def test_the_last_write_of_an_element(self):
        made = synthetic.Synthetic("twice", 2)
        x = made.array("global", "x", 512)
        other = made.array("shared", "x", 512)
        offsets = [4 * lane for lane in range(32)]
        made.access(0, x, offsets, 4, flags=synthetic.WRITE)
        second = made.access(1, x, offsets, 4, flags=synthetic.ATOMIC)
        made.access(1, x, offsets[:3], 4, flags=synthetic.WRITE, lanes=7)
        made.access(1, x, offsets, 4)
        made.access(1, other, offsets, 4, flags=synthetic.WRITE)
        box = {"kind": "store", "tensor": x, "runs": [[256, 16, 2, 32, 0, 16]]}
        made.header["copies"].append(box)
        stored = made.event(synthetic.COPY, 0, array=0)
        made.header["copies"].append(box | {"kind": "load"})
        made.event(synthetic.COPY, 0, array=1)
        recorded = self.read(made)

        def last(byte: int) -> int | None:
            return moments.Element("x", byte).last_write(recorded)

        self.assertEqual([last(byte) for byte in (12, 124)], [second, second])
        self.assertEqual([last(b) for b in (256, 271, 288, 303)], [stored] * 4)
        self.assertEqual([last(b) for b in (252, 272, 287, 304)], [None] * 4)


class ChaptersTest(unittest.TestCase):
    def test_titles_say_whose_kernels_they_are(self):
        chapter = project.chapters()[0]
        for exercise, answer, title in (
            (False, None, "01 row_per_warp"),
            (True, None, "01 row_per_warp, exercises"),
            (False, 2, "01 row_per_warp, answer to exercise 2"),
        ):
            args = argparse.Namespace(exercise=exercise, answer=answer)
            self.assertEqual(watch.title_of(args, chapter, "row_per_warp"), title)

    def test_every_chapter_has_two_to_five_views(self):
        for chapter in project.chapters():
            found = views.of(chapter).views
            self.assertIn(len(found), range(2, 6), chapter.name)
            self.assertEqual(len({view.title for view in found}), len(found))
            with self.assertRaises(LearnError):
                views.select(chapter, len(found) + 1)


if __name__ == "__main__":
    unittest.main()
