"""Every variant of every chapter on one device that the simulator emulates: it is right, or it says in one
line what the device lacks.

test_devices.py DEVICE FOLDER     the folder with the chapters' programs
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

DEVICE, PROGRAMS = "", Path()
ROOT = Path(__file__).resolve().parents[2]
SOFTMAX_ROWS = (300, 33001)  # columns: some rows fit on the chip only with shared memory
HEAD_DIMS = (32, 64, 128, 256)
LACKS = re.compile(
    r"a block needs \d+ bytes of shared memory, this device has \d+"
    r"|needs compute capability \d+\.\d(?: exactly)?, this device has \d+\.\d"
)
OWN_REASON = re.compile(
    r"--(head-dim|dtype) is \w+: (must be (one|a multiple) of|this variant takes) "
    r"|--block-mask is missing: this variant "
    r"|--cache is not given: must be --cache fp8"
)

# What must run on a device because the lessons promise it: chapter, head dimension.
PROMISED = {
    "t4": [("01", 0), ("02", 0), ("03", 64), ("04", 64), ("05", 64), ("05", 128), ("08", 64)],
    "a100": [
        *(("05", 128), ("06", 128), ("07", 128), ("07", 256), ("08", 128), ("08", 256), ("11", 128)),
        *(("14", 64), ("14", 128), ("14", 256)),
    ],
    "rtx3060": [
        *(("05", 128), ("06", 128), ("07", 128), ("07", 256), ("08", 128), ("11", 128)),
        *(("14", 64), ("14", 128), ("14", 256)),
    ],
}
PROMISED |= dict.fromkeys(("rtx4090", "rtx5090", "h100"), PROMISED["rtx3060"])
# Needs compute capability 9.0 exactly.
ONLY_H100 = [(n, head_dim) for n in ("09", "10", "12") for head_dim in (64, 128, 256)]
PROMISED["h100"] = PROMISED["h100"] + ONLY_H100 + [("08", 256)]


def run(program: str, *options: str, device: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(PROGRAMS / program), *options],
        env=os.environ | {"GPUSIM_DEVICE": device or DEVICE},
        capture_output=True,
        text=True,
        check=False,
    )


def problems(program: str) -> Iterator[list[str]]:
    """Small problems for a chapter, as options."""
    if program[2:4] in ("01", "02"):
        for cols in SOFTMAX_ROWS:
            yield ["--rows", "2", "--cols", str(cols)]
        return
    for dtype in ("fp32", "bf16") if program[2:4] == "08" else ("",):
        for head_dim in HEAD_DIMS:
            lengths = ["--heads", "1", "--seq-q", "40", "--seq-k", "70", "--causal"]
            if program[2:4] == "14":  # which takes few queries
                lengths = ["--heads", "4", "--kv-heads", "1", "--seq-q", "3", "--seq-k", "70"]
            yield [*(["--dtype", dtype] if dtype else []), *["--head-dim", str(head_dim), *lengths]]


def programs() -> list[str]:
    """Those of all chapters but 13, which runs on several devices: test_ring.py."""
    found = (path.name for path in PROGRAMS.glob("ch[0-9][0-9]_*"))
    return sorted(name for name in found if not name.endswith("_exercise") and name != "ch13_ring")


def lessons() -> list[str]:
    """The programs of these chapters by their lessons."""
    folders = (path.parent.name for path in ROOT.glob("chapters/[0-9]*/README.md"))
    return sorted(f"ch{folder}" for folder in folders if folder != "13_ring")


# Variants that a chapter's readers may skip: only the newest devices run them.
OPTIONAL = {"cluster"}


class DeviceTest(unittest.TestCase):
    def results(self, program: str, options: list[str]) -> list[dict]:
        """The variants that the program does not refuse for its own reasons."""
        done = run(program, "--variant", "all", *options, "--json", "-")
        if done.returncode == 2:  # one of them is not compiled for this head dimension
            self.assert_refused(done, OWN_REASON, as_data=True)
            listing = run(program, "--list").stdout.splitlines()[1:]
            runs = [run(program, "--variant", line.split()[0], *options, "--json", "-") for line in listing]
            for refused in (one for one in runs if one.returncode == 2):
                reason = re.compile(f"{OWN_REASON.pattern}|{LACKS.pattern}")
                self.assert_refused(refused, reason, as_data=True)
            runs = [one for one in runs if one.returncode != 2]
        else:
            runs = [done]
        variants = []
        for one in runs:
            self.assertEqual(one.returncode, 0, one.stdout + one.stderr)
            variants += json.loads(one.stdout)["variants"]
        return variants

    def assert_refused(
        self, done: subprocess.CompletedProcess, reason: re.Pattern, as_data: bool = False
    ) -> None:
        self.assertEqual(done.returncode, 2)
        if as_data:
            refused = json.loads(done.stdout)["refused"]
            said = f"--variant {refused['variant']} cannot run this: {refused['text']}"
            self.assertEqual(done.stderr, f"error: {said}\n")
            known = ("problem", "variant", "device")
            self.assertIn(refused["reason"], known)
        else:
            self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, f"^error: --variant \\w+ cannot run this: ({reason.pattern})")

    def test_every_variant_is_right_or_says_what_is_lacking(self) -> None:
        self.assertEqual(programs(), lessons())
        ran = set()
        for program in programs():
            for options in problems(program):
                with self.subTest(program=program, options=" ".join(options)):
                    variants = self.results(program, options)
                    for variant in variants:
                        if "skipped" in variant:
                            self.assertRegex(variant["skipped"]["reason"], f"^({LACKS.pattern})$")
                        else:
                            self.assertNotIn("failure", variant)
                            self.assertEqual(variant["defects"], [])
                    required = [v for v in variants if v["name"] not in OPTIONAL]
                    if required and "skipped" not in required[-1]:
                        head_dim = options[options.index("--head-dim") + 1] if "--head-dim" in options else 0
                        ran.add((program[2:4], int(head_dim)))
        for promise in PROMISED[DEVICE]:
            self.assertIn(promise, ran)
        if DEVICE != "h100":
            self.assertEqual([one for one in ONLY_H100 if one in ran], [])

    def test_a_skipped_variant_by_itself_is_refused_in_one_line(self) -> None:
        lacking = run("ch05_loop_swapped_v2", "--variant", "large_tiles", "--head-dim", "256")
        if DEVICE == "h100":
            self.assertEqual(lacking.returncode, 0, lacking.stderr)
        else:
            self.assert_refused(lacking, LACKS)

    def test_hopper_kernels_run_on_no_other_device(self) -> None:
        exactly = r"needs compute capability 9\.0 exactly, this device has \d+\.\d"
        for program, variant in (
            ("ch09_hopper", "final"),
            ("ch10_hopper_backward", "final"),
            ("ch11_masks", "hopper"),
            ("ch12_large_heads", "final"),
            ("ch14_decoding", "one_kernel"),
        ):
            options = ["--variant", variant, "--dtype", "bf16", "--head-dim", "64"]
            done = run(program, *options)
            if DEVICE == "h100":
                self.assertEqual(done.returncode, 0, done.stderr)
            else:
                self.assert_refused(done, re.compile(f"{exactly}$"))

    def test_reports_name_the_device(self) -> None:
        device = json.loads(run("ch01_safe_softmax", "--rows", "1", "--json", "-").stdout)["device"]
        self.assertRegex(device, "^simulator$" if DEVICE == "h100" else r"^simulator \(.+\)$")

    def test_an_unknown_device_is_refused_with_the_names(self) -> None:
        done = run("ch07_multi_stage", "--variant", "all", device=f"{DEVICE}x")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        names = "t4, a100, rtx3060, rtx4090, rtx5090 or h100"
        self.assertEqual(done.stderr, f"error: GPUSIM_DEVICE is {DEVICE}x: must be {names}\n")


if __name__ == "__main__":
    DEVICE, PROGRAMS = sys.argv[1], Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
