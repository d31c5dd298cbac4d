"""The drawings of chapter 12 show what its kernels do.

python3 -m tests.docs.test_large_heads BUILD_DIR: its bin/ch12_large_heads says how many bytes it expects.
"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

from tools.docs import large_heads as drawn
from tools.docs import measured

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "12_large_heads"
STEPS = ("slices_of_d", "o_shared", "cluster")


def source(file: str) -> str:
    return " ".join((CHAPTER / file).read_text().split())


class Sizes(unittest.TestCase):
    def test_tiles_are_those_of_the_source(self):
        tiles, pairs = source("pair_tiles.cuh"), source("pairs.hpp")
        for line in (
            "Br = 64 * kQueryGroups;",
            "kSharers = kConsumers / kQueryGroups;",
            "kKeys = 64 * kSharers;",
            "Bc = kBlocks * kKeys;",
            "kBlockCols = kCols * kSharers;",
            "kPartCols = kBlocks * kBlockCols;",
            "kStep = 16;",
        ):
            self.assertIn(line, tiles)
        for line in (
            "PairTiles<T, 1, kCols, 1, 1>",
            "PairTiles<T, 1, SlicesOfD::kCols, 1, 2>",
            "kMostColsOfTwo = 640;",
            "if (head_dim_v <= 128) return f(std::type_identity<PairTiles<T, 2, 64>>());",
            "if (head_dim_v <= 256) return f(std::type_identity<PairTiles<T, 2, 128>>());",
            "if (head_dim_v <= 512) return f(std::type_identity<PairTiles<T, 2, 256>>());",
            "if (head_dim_v <= 512) return f(std::type_identity<PairTiles<T, 1, 128>>());",
        ):
            self.assertIn(line, pairs)

    def test_values_come_in_the_order_of_the_producer(self):
        self.assertIn(
            "const int row = tile * Tile::Bc + (rank * Tile::kKeys + key) % Tile::Bc;", source("pair.cuh")
        )
        tiles = drawn.tiles_of("cluster", 1024, 1024)
        self.assertEqual(drawn.order_of_values(tiles, 0), list(range(0, 256, 16)))
        second = [*range(128, 256, 16), *range(0, 128, 16)]
        self.assertEqual(drawn.order_of_values(tiles, 1), second)

    def test_every_score_has_an_owner(self):
        for step in STEPS:
            tiles = drawn.tiles_of(step, 1024, 1024)
            for key in range(0, 256, drawn.PANEL):
                owners = [
                    block for block in range(tiles.blocks) if drawn.scored_by(tiles, block, key) is not None
                ]
                self.assertEqual(len(owners), 1)


class Bytes(unittest.TestCase):
    def test_the_formula_is_the_chapters(self):
        for length, d, d_v in ((64, 1024, 1024), (200, 256, 520), (130, 72, 40)):
            options = f"--dtype bf16 --heads 1 --no-check --seq-q {length} --head-dim {d} --head-dim-v {d_v}"
            done = subprocess.run(
                [PROGRAM, "--variant", ",".join(STEPS), *options.split(), "--json", "-"],
                capture_output=True,
                text=True,
                check=True,
            )
            for variant in json.loads(done.stdout)["variants"]:
                counted = variant["traffic"]["counted"]
                total = counted["read_bytes"] + counted["write_bytes"]
                expected = drawn.requested(variant["name"], length, d, d_v)
                self.assertEqual(total, expected, (variant["name"], d, d_v))

    def test_where_standard_attention_moves_fewer_bytes(self):
        for d in drawn.WIDTHS:
            within_a_tile = [n for n in range(1, 65) if drawn.ratio(n, d) > 1]
            self.assertEqual(within_a_tile, list(range(1, min(65, (d + 3) // 4))), d)
        for d in (64, 128, 256):
            self.assertLess(drawn.ratio(8192, d), 1)
        for d in (512, 1024):
            self.assertGreater(drawn.ratio(8192, d), 1)


class Table(unittest.TestCase):
    def test_a_case_is_a_row_and_a_kernel_a_column(self):
        case = {"batch": 1, "heads": 4, "seq_q": 8192, "seq_k": 8192}
        case |= {"head_dim": 576, "head_dim_v": 512, "causal": True, "right": True, "group": "widths"}
        rows = [
            {"kernel": "cuDNN", "median_ms": 3.0, "tflops": 200.0},
            {"kernel": "12 final", "median_ms": 2.0, "tflops": 300.0},
            {"kernel": "12 cluster", "median_ms": 2.5, "tflops": 240.0},
        ]
        data = {"device": "NVIDIA H100", "timings": [case | row for row in rows]}
        lines = measured.large(data, "widths").splitlines()
        self.assertEqual(lines[0], "NVIDIA H100:")
        self.assertIn("| 12 `final` | 12 `cluster` | cuDNN |", lines[2])
        self.assertIn("[1,4,8192,576/512] causal | 300 | 240 | 200 (1.50)", lines[4])
        with self.assertRaises(measured.NoSuchMeasurement):
            measured.large(data, "fp32")

    def test_a_variant_stands_beside_the_one_that_it_changes(self):
        case = {"group": "bf16", "causal": False, "head_dim": 512}
        data = {
            "device": "NVIDIA H100",
            "timings": [
                case | {"kernel": "12 o_shared", "tflops": 400.0},
                case | {"kernel": "12 cluster", "tflops": 600.0},
                case | {"kernel": "12 cluster", "tflops": 900.0, "causal": True},
            ],
        }
        lines = measured.large_variants(data).splitlines()
        named = {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}
        self.assertEqual(list(named), [f"`{name}`" for name, _, _ in measured.LARGE_VARIANTS])
        self.assertIn("| `o_shared` | two blocks", named["`cluster`"])
        self.assertIn("| 400 to 600 (1.50) | - |", named["`cluster`"])
        self.assertIn("| 400 | - |", named["`o_shared`"])
        self.assertIn("| - | - |", named["`final`"])


if __name__ == "__main__":
    PROGRAM = Path(sys.argv[1]) / "bin" / "ch12_large_heads"
    unittest.main(argv=sys.argv[:1])
