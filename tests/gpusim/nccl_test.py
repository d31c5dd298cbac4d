"""The simulator's NCCL: data arrives, bytes are counted, and what would hang on GPUs is said in a line.

nccl_test.py PROGRAM    (nccl_ranks.cpp)
"""

import os
import subprocess
import sys
import unittest

PROGRAM = ""


def run(ranks: int, case: str) -> list[str]:
    """What the ranks print, in their order."""
    command = ["mpirun", "--quiet", "--oversubscribe", "-n", str(ranks), PROGRAM, case]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return sorted(done.stdout.splitlines())


class Nccl(unittest.TestCase):
    def test_ring(self):
        for ranks in (1, 2, 3, 5):
            for rank, line in enumerate(run(ranks, "ring")):
                self.assertIn(f"received {(rank - 1) % ranks} ..", line)
                if ranks > 2:
                    self.assertIn(f"to rank {(rank + 1) % ranks}: 64, from it: 0", line)
                    self.assertIn(f"to rank {(rank - 1) % ranks}: 0, from it: 64", line)

    def test_turns_without_groups(self):
        for rank, line in enumerate(run(4, "even_odd")):
            self.assertIn(f"received {(rank - 1) % 4} ..", line)

    def test_gather(self):
        for rank, line in enumerate(run(3, "gather")):
            self.assertIn("received 0 .. 2", line)
            self.assertEqual(line.count(": 64, from it: 64"), 2, line)
            self.assertNotIn(f"to rank {rank}:", line)

    def test_what_a_rank_sends_to_itself_is_no_link(self):
        for line in run(2, "to_itself"):
            self.assertNotIn("to rank", line)

    def test_all_send_first(self):
        lines = run(3, "all_send_first")
        reason = (
            "invalid usage: deadlock: rank 0 sends 64 bytes to rank 1, rank 1 sends 64 bytes to rank 2, "
            "rank 2 sends 64 bytes to rank 0: nobody receives, because each waits until its send is over"
        )
        for rank, line in enumerate(lines):
            self.assertEqual(line, f"rank {rank}: {reason}")

    def test_all_receive_first(self):
        for line in run(2, "all_receive_first"):
            self.assertIn(
                "deadlock: rank 0 receives 64 bytes from rank 1, rank 1 receives 64 bytes from rank 0", line
            )

    def test_nobody_sends(self):
        lines = run(2, "nobody_sends")
        self.assertIn("rank 0 receives 64 bytes from rank 1, which has left the communicator", lines[0])

    def test_sizes(self):
        lines = run(2, "sizes")
        for line in lines:
            self.assertIn("sizes differ: rank 0 sends 64 bytes to rank 1, which receives 32", line)

    def test_kernels_beside_transfers(self):
        for case, beside in {
            "kernels_beside": 2,
            "kernels_after": 0,
            "kernels_on_its_stream": 0,
            "kernels_on_the_stream_of_sends": 0,  # all streams of a group wait for all of its calls
        }.items():
            for line in run(2, case):
                self.assertIn("received ", line)
                said = f"; {beside} of 2 kernels beside transfers"
                self.assertTrue(line.endswith(said), f"{case}: {line}")

    def test_no_such_rank(self):
        self.assertIn("rank 0 names peer 2: must be less than 2", run(2, "no_such_rank")[0])

    def test_gather_and_send(self):
        for line in run(2, "gather_and_send"):
            self.assertIn("deadlock: rank 0 gathers with rank 1, rank 1 sends 64 bytes to rank 0", line)

    def test_unwritten(self):
        for line in run(2, "unwritten"):
            self.assertIn(
                "uninitialized_read: Uninitialized __global__ memory read of size 64 bytes by ncclSend", line
            )
            self.assertIn('"fresh"', line)

    def test_registered_memory(self):
        for rank, line in enumerate(run(2, "registered")):
            self.assertIn(f"received {(rank - 1) % 2} ..", line)

    def test_memory_that_is_registered_wrongly(self):
        for case, reason in {
            "registered_twice": "some of this memory is registered already",
            "registered_nothing": "needs a communicator, and memory",
            "freed_too_early": "the memory is still registered: ncclCommDeregister() first",
            "deregistered_twice": "no handle of ncclCommRegister(), or not any more",
        }.items():
            for line in run(2, case):
                self.assertIn(reason, line)

    def test_outside(self):
        for line in run(2, "outside"):
            self.assertIn("bytes to send are not all in device memory", line)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
