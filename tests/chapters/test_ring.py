"""Chapter 13 as several processes: results, bytes, and how all end if something is wrong with one of them.

test_ring.py PROGRAM [CLASS]    (build/sim/bin/ch13_ring)
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = ""
SECONDS = 10.0  # after which nothing may run any more

# With the numbers of ranks, and those of them for which heads can be traded for tokens.
PROBLEMS = {
    "--seq-q 37 --heads 4 --causal --dtype bf16": ((1, 2, 3, 4), (1, 2, 4)),
    "--seq-q 50 --heads 4 --kv-heads 2 --batch 2 --backward --dtype fp16": ((1, 2, 4), (1, 2)),
    "--seq-q 5 --heads 3 --causal --backward --head-dim 40": ((1, 3, 4), (1, 3)),
}


def command(ranks: int, options: str) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--quiet", "--oversubscribe", "-n", str(ranks), PROGRAM, *options.split()]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "GPUSIM_THREADS": "1", **more}


def run(ranks: int, options: str, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(ranks, options),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**more),
    )


class Results(unittest.TestCase):
    def test_the_first_program_of_the_lesson(self):
        program = str(Path(PROGRAM).with_name("first_ring"))
        for ranks in (1, 4):
            words = [program if word == PROGRAM else word for word in command(ranks, "")]
            done = subprocess.run(
                words, check=False, capture_output=True, text=True, timeout=60, env=environment()
            )
            said = f"{ranks} of {ranks} ranks have the keys of rank 0\n"
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, said, ""))

    def test_all_numbers_of_ranks(self):
        for options, (counts, traded) in PROBLEMS.items():
            errors: dict[str, float] = {}
            for ranks in counts:
                with self.subTest(options=options, ranks=ranks), tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "run.json"
                    done = run(ranks, f"{options} --variant all --json {path}")
                    self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                    variants = json.loads(path.read_text())["variants"]
                    self.assertEqual(len(variants), 5 if ranks in traded else 4)
                    for variant in variants:
                        self.check(variant, ranks, errors)

    def check(self, variant: dict, ranks: int, errors: dict[str, float]):
        traffic = variant["traffic"]
        self.assertEqual(traffic["predicted"]["tensors"], traffic["counted"]["tensors"])
        self.assertGreater(traffic["counted"]["read_bytes"], 0)
        self.assertEqual(variant["defects"], [])
        if ranks > 1:
            self.assertEqual(len(variant["links"]), ranks)
        for steps in variant.get("links", []):
            for step in steps:
                self.assertEqual(step["predicted_bytes"], step["counted_bytes"])
        for tensor, checked in variant["check"]["tensors"].items():
            if tensor == "lse":
                continue
            if ranks == 1:
                errors[tensor] = max(errors.get(tensor, 0), checked["rel_l2"])
            self.assertLessEqual(checked["rel_l2"], 2 * errors[tensor], f"{variant['name']}: {tensor}")

    def test_other_kernels(self):
        done = run(2, "--variant zigzag,all_to_all --seq-q 70 --causal --backward", GPUSIM_DEVICE="a100")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_without_changes(self):
        """Seven ranks: keys go back, and sums are added in between."""
        for without in ("head_start,steps", "parts,registered", "homeward", "steps,parts"):
            with self.subTest(without=without):
                options = f"--variant overlapped --seq-q 60 --causal --backward --without {without}"
                done = run(7, f"{options} --json -")
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                result = json.loads(done.stdout)
                self.assertEqual(result["problem"]["without"], without)
                traffic = result["variants"][0]["traffic"]
                self.assertEqual(traffic["predicted"]["tensors"], traffic["counted"]["tensors"])

    def test_plan(self):
        done = run(3, "--variant ring --seq-q 30 --plan 1 --no-check")
        for line in (
            "ring, forward, rank 1 of 3",
            "  step 0  send          k v to rank 2",
            "          receive       k_in.1 v_in.1 from rank 0",
            "          merge         o lse o_part lse_part -> o_sums lse",
        ):
            self.assertIn(f"{line}\n", done.stdout)

    def test_sampled_rows(self):
        done = run(3, "--variant zigzag --seq-q 200 --causal --sample 3")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


class Ends(unittest.TestCase):
    """In each case: a line, a status, and no process that goes on."""

    def ends(self, args: list[str], status: int, line: str, **more: str):
        begin = time.monotonic()
        done = subprocess.run(
            args, check=False, capture_output=True, text=True, timeout=60, env=environment(**more)
        )
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, rf"\A{line}\n\Z")
        self.assertEqual(done.stdout, "")

    def test_wrong_option(self):
        self.ends(command(3, "--seq-q x"), 2, "error: --seq-q 'x': must be a whole number")

    def test_two_lengths(self):
        line = "error: --seq-k 5: must be the same as --seq-q, 4: a sequence attends to itself"
        self.ends(command(2, "--seq-q 4 --seq-k 5"), 2, line)

    def test_device_that_is_too_old(self):
        line = "error: needs compute capability 8.0, this device has 7.5"
        self.ends(command(2, "--seq-q 40"), 2, line, GPUSIM_DEVICE="t4")

    def test_ranks_that_do_not_divide_the_heads(self):
        line = "error: --variant all_to_all cannot run this: --heads is 4: .* the number of ranks, 3"
        self.ends(command(3, "--variant all_to_all --heads 4"), 2, line)

    def test_a_refusal_keeps_its_reason(self):
        done = run(3, "--variant all_to_all --heads 4 --json -")
        self.assertEqual(done.returncode, 2)
        refused = json.loads(done.stdout)["refused"]
        self.assertEqual((refused["reason"], refused["variant"]), ("variant", "all_to_all"))
        done = run(2, "--seq-q 40 --json -", GPUSIM_DEVICE="t4")
        self.assertEqual(json.loads(done.stdout)["refused"]["reason"], "device")

    def test_unknown_change(self):
        line = "error: --without 'x': must be of head_start, steps, parts, registered, homeward"
        self.ends(command(2, "--without steps,x"), 2, line)

    def test_option_of_another_variant(self):
        for option in ("--without steps", "--head-start 5"):
            line = f"error: {option}: only overlapped takes this option: choose --variant overlapped"
            self.ends(command(2, f"--variant ring,zigzag {option}"), 2, line)
        done = run(2, "--variant ring,overlapped --seq-q 40 --without steps")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_other_arguments(self):
        args = command(1, "--seq-q 40")
        args += [":", "-n", "1", PROGRAM, "--seq-q", "41"]
        self.ends(args, 2, "error: rank 1 has other arguments than rank 0: give all ranks the same ones")

    def test_one_gpu_for_two_ranks(self):
        line = "error: ranks 0 and 1 of .* would share a GPU: it has 1 for 3 ranks"
        self.ends(command(3, "--seq-q 40"), 3, line, GPUSIM_PCI_BUS_ID="0000:01:00.0")

    def test_too_many_ranks(self):
        self.ends(command(17, "--variant ring --seq-q 40"), 2, "error: .*17 ranks: .* at most 16")

    def test_file_that_cannot_be_written(self):
        line = "error: --json /nowhere/x.json: cannot be written: there is no folder /nowhere"
        self.ends(command(2, "--json /nowhere/x.json"), 2, line)

    def test_rank_that_dies(self):
        options = "--variant zigzag --seq-q 4000 --heads 4 --causal --no-check --backward"
        for victim in (0, 1):
            process = subprocess.Popen(
                command(3, options),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(),
            )
            ranks = self.ranks_of(process.pid)
            time.sleep(1.5)  # they compute
            begin = time.monotonic()
            os.kill(ranks[victim], signal.SIGKILL)
            out, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, SECONDS)
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual(err, "error: a rank has died or was ended: all others end, too\n")
            self.assertEqual(out, "")
            time.sleep(1)
            for rank in ranks:
                self.assertFalse(Path(f"/proc/{rank}/exe").exists(), "a rank goes on")

    @staticmethod
    def ranks_of(mpirun: int) -> list[int]:
        """The three processes of the program, in their order."""
        for _ in range(100):
            time.sleep(0.1)
            children = Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
            ranks = [
                int(c) for c in children if os.path.basename(os.readlink(f"/proc/{c}/exe")) == "ch13_ring"
            ]
            if len(ranks) == 3:
                return sorted(ranks)
        raise AssertionError("mpirun has not started three ranks")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
