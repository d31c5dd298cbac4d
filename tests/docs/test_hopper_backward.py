"""The drawings of chapter 10 show what its kernels do."""

import re
import unittest
from pathlib import Path

from tools.docs import hopper
from tools.docs import hopper_backward as drawn

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "10_hopper_backward"


def source(file: str) -> str:
    return (CHAPTER / file).read_text()


def body(file: str, name: str) -> str:
    """The text of a function."""
    text = source(file)
    text = text[re.search(rf"\b{name}\(", text).start() :]
    return text[: re.search(r"\n(  )?\}\n", text).end()]


class Operands(unittest.TestCase):
    def test_sizes_are_those_of_the_kernel(self):
        queries = {d: sizes.queries for d, sizes in drawn.SIZES.items()}
        self.assertEqual(queries, drawn.sizes_in_source())
        self.assertIn("int Bc = 128;", source("backward.cuh"))
        self.assertIn("kDqCols = Br * kCols / 64 / kConsumers;", source("backward.cuh"))

    def test_a_consumer_multiplies_as_often_as_it_says(self):
        steps = {
            "issue_scores": "Tile::kHeadDim / 16",
            "issue_key_gradient": "Tile::Br / 16",
            "issue_dq": "Tile::Bc / 16",
        }
        for name, count in steps.items():
            self.assertIn(f"step < {count}", body("products.cuh", name))
        for sizes in drawn.SIZES.values():
            counts = [product.instructions for product in drawn.products(sizes)]
            expected = [sizes.head_dim] * 2 + [sizes.queries] * 2 + [sizes.keys]
            self.assertEqual(counts, [count // 16 for count in expected])

    def test_all_products_have_as_many_operations(self):
        for sizes in drawn.SIZES.values():
            for product in drawn.products(sizes):
                operations = product.instructions * 2 * 64 * product.columns * 16
                cycles = operations / drawn.OPERATIONS_PER_CYCLE
                self.assertEqual(cycles, sizes.cycles)

    def test_the_lesson_has_the_same_numbers(self):
        lesson = re.sub(r"\s+", " ", source("README.md"))
        sizes = drawn.SIZES[128]
        can_pass = 5 * sizes.cycles * drawn.BYTES_PER_CYCLE
        read = sum(p.a_bytes + p.b_bytes for p in drawn.products(sizes))
        for words in (
            f"it can transfer {can_pass // 1024} KiB",
            f"of the products take {read // 1024} of them",
        ):
            self.assertTrue(words in lesson, words)

    def test_the_answer_has_the_same_numbers(self):
        lesson = re.sub(r"\s+", " ", source("README.md"))
        sizes = drawn.SIZES[64]  # the drawing has those of 128
        reads = {p.name: p.a_bytes + p.b_bytes for p in drawn.products(sizes)}
        read = sum(reads.values())
        more = [count for _, count in drawn.stored(sizes)]
        extra = drawn.detour(sizes)
        parts = " + ".join(str(count // 1024) for count in (read, *more, extra))
        total = read + sum(more) + extra
        cycles = total // drawn.BYTES_PER_CYCLE
        self.assertEqual((reads["S"], reads["dV"]), (reads["dP"], reads["dK"]))
        for words in (
            (
                f"S and dP read {reads['S'] // 1024} KiB each, dV and dK {reads['dV'] // 1024} each, and dQ "
                f"{reads['dQ'] // 1024}."
            ),
            f"${parts} = {total // 1024}$ KiB",
            f"{cycles} cycles. The products take {5 * sizes.cycles}.",
            f"it is {(total - extra) // 1024} KiB, {(total - extra) // 128} cycles",
        ):
            self.assertTrue(words in lesson, words)

    def test_accumulators_of_the_lessons_table(self):
        lesson = source("README.md")
        names = {"dV, fp32": "dV", "dK, fp32": "dK", "a part of dQ, fp32": "dQ"}
        names |= {"$S^T$, later $P^T$, fp32": "S", "$dP^T$, later $dS^T$, fp32": "dP"}
        for row, product in names.items():
            counts = []
            for d in (128, 64):
                listed = {p.name: p for p in drawn.products(drawn.SIZES[d])}
                counts.append(listed[product].accumulators)
            words = f"| {row} | {counts[0]} | {counts[1]} |"
            self.assertTrue(words in lesson, words)


class Path_of_ds(unittest.TestCase):
    def test_stores_are_those_of_the_kernel(self):
        for name, formulas in {
            "store_ds": (
                "store_pair<Tile::Bc>(ds, warp_key + 8 * (i % 2), 2 * step + i / 2, rdS[step][i]);",
            ),
            "store_pair": (
                "T* row = tile + n / 8 * kRows * 64 + (first_row + lane / 4) * 64;",
                "row + 8 * (n % 8 ^ lane / 4) + lane % 4 * 2) = pair;",
            ),
        }.items():
            text = re.sub(r"\s+", " ", body("gradients.cuh", name))
            for formula in formulas:
                self.assertIn(formula, text)
        keys = 128
        for warp_key in range(0, keys, 16):
            for step in range(8):
                for lane in range(32):
                    for i in range(4):
                        n = 2 * step + i // 2
                        key = warp_key + 8 * (i % 2) + lane // 4
                        place = n // 8 * keys * 64 + key * 64
                        place += 8 * (n % 8 ^ lane // 4) + lane % 4 * 2
                        own, query = drawn.element_of(lane, i, 0)
                        self.assertEqual(key, warp_key + own)
                        there = hopper.offset_of(key, 16 * step + query, keys)
                        self.assertEqual(place, there)

    def test_every_element_has_one_place(self):
        found = {
            drawn.element_of(lane, register, half)
            for lane in range(32)
            for register in range(4)
            for half in range(2)
        }
        self.assertEqual(len(found), 16 * 16)


class Halves_of_dq(unittest.TestCase):
    def test_halves_are_those_of_the_kernel(self):
        text = re.sub(r"\s+", " ", body("dq_sums.cuh", "rows_of_dq"))
        for formula in (
            "constexpr int kParts = Tile::Br / 64;",
            "const int part = warp / 4;",
            "{part % kParts * 64 + warp % 4 * 16 + r, part / kParts * Tile::kDqCols + 8 * n}",
        ):
            self.assertIn(formula, text)

    def test_every_element_of_dq_belongs_to_one_warp(self):
        for sizes in drawn.SIZES.values():
            elements = [
                (row + r, col + c)
                for row, col, cols in (drawn.half_of_dq(sizes, warp) for warp in range(8))
                for r in range(16)
                for c in range(cols)
            ]
            self.assertEqual(len(elements), sizes.queries * sizes.head_dim)
            self.assertEqual(len(set(elements)), len(elements))


class Consumers(unittest.TestCase):
    def order(self, name: str) -> list[str]:
        """What a step of a kernel does, with its functions written out."""
        text = body("kernel.cuh", f"{name}_gradients")
        text = text[text.index("for (QueryWalk") :]
        text = re.sub(r"decoupled_step\(.*?;", lambda _: body("kernel.cuh", "decoupled_step"), text)
        text = re.sub(r"put_dq\(.*?;", lambda _: body("consumer.cuh", "put_dq"), text)
        text = re.sub(r"consumer\.p_and_ds\(\w+\);", lambda _: body("consumer.cuh", "p_and_ds"), text)
        calls = (
            r"issue_scores<Tile>\((?:consumer\.)?(rdP)|(probabilities)|"
            r"issue_key_gradient<Tile>\((?:consumer\.)?(rd[VK])|"
            r"(score_gradients)|(wait_full\(s\.ds_ring)|(issue_dq)|(add_to_sums)|(issue_next_scores)"
        )
        found = [next(filter(None, each)) for each in re.findall(calls, text)]
        return found[: found.index("issue_next_scores") + 1]

    def drawn_order(self, name: str) -> list[str]:
        """The same of the drawing, in its second step."""
        jobs = [job for job in drawn.schedules(4)[name] if job.consumer == 0]
        names = [job.name for job in jobs]
        return names[names.index("dP 1") : names.index("S 2") + 1]

    def test_the_order_is_the_kernels(self):
        step = ["rdP", "probabilities", "rdV", "score_gradients", "wait_full(s.ds_ring"]
        step += ["issue_dq", "rdK", "add_to_sums", "issue_next_scores"]
        for name, multiplied in (("overlapped", 1), ("decoupled", 0)):
            self.assertEqual(self.order(name), step)
            expected = ["dP 1", "P 1", "dV 1", "dS 1", f"dQ {multiplied}", "dK 1"]
            expected += [f"+{multiplied}", "S 2"]
            self.assertEqual(self.drawn_order(name), expected)

    def test_no_dq_before_both_have_stored(self):
        for name, jobs in drawn.schedules(4).items():
            stored = {(j.name, j.consumer): j.end for j in jobs}
            for job in jobs:
                if job.name.startswith("dQ"):
                    for consumer in range(2):
                        at = stored[f"dS {job.name[3:]}", consumer]
                        self.assertLessEqual(at, job.begin + 1e-9, name)

    def test_only_overlapped_waits(self):
        played = drawn.schedules(4)
        waits = {
            name: sum(len(drawn.waits_for_other(jobs, c)) for c in range(2)) for name, jobs in played.items()
        }
        self.assertGreater(waits["overlapped"], 0)
        self.assertEqual(waits["decoupled"], 0)

    def test_the_lesson_has_the_times_of_a_step(self):
        lesson = re.sub(r"\s+", " ", source("README.md"))
        times = {d: drawn.step_times(d) for d in drawn.SIZES}
        products = 5 * drawn.CONSUMERS * drawn.PRODUCT_TIME
        self.assertEqual(times[64]["decoupled"], products)
        self.assertEqual(times[128], {"overlapped": products, "decoupled": products})
        exponentials = drawn.exponential_time(drawn.SIZES[64])
        for words in (
            f"product takes {drawn.PRODUCT_TIME:g} units of {drawn.UNIT} cycles",
            f"exponentials of P {exponentials:g}",
            f"takes {times[64]['overlapped']:g} units in `overlapped` and {products:g} in `decoupled`",
            f"both take {products:g}",
        ):
            self.assertTrue(words in lesson, words)

    def test_decoupled_ends_first_though_it_multiplies_more(self):
        ends, busy = {}, {}
        for name, jobs in drawn.schedules(4).items():
            ends[name] = max(job.end for job in jobs)
            busy[name] = sum(job.unit == "products" for job in jobs)
        self.assertLess(ends["decoupled"], ends["overlapped"])
        self.assertEqual(busy["decoupled"], busy["overlapped"] + 2)


class Turns(unittest.TestCase):
    def test_a_block_adds_after_the_block_before(self):
        for backward in (False, True):
            first, second = drawn.turns_of_blocks(drawn.orders_of_two(backward))
            passed = {step.tile: step.end for step in first}
            for step in second:
                self.assertGreaterEqual(step.adds, max(step.stored, passed[step.tile]))

    def test_no_step_waits_if_blocks_begin_with_the_last_query_tile(self):
        stalls = {
            backward: sum(
                step.stored - step.begin - drawn.STEP_TIME
                for steps in drawn.turns_of_blocks(drawn.orders_of_two(backward))
                for step in steps
            )
            for backward in (False, True)
        }
        self.assertEqual(stalls[True], 0)
        self.assertGreater(stalls[False], 0)

    def test_the_order_is_the_kernels(self):
        self.assertIn("tile = end_tile - 1;", body("backward.cuh", "BackwardWalk"))
        text = re.sub(r"\s+", " ", source("turns.cuh"))
        self.assertIn("for (BackwardWalk<Tile> walk(a, keys); !walk.done(); walk.next()) {", text)
        self.assertIn("RingBarriers<1> dq_ring[Tile::kConsumers];", text)


class Drawings(unittest.TestCase):
    def test_every_drawing_is_made(self):
        for name, draw in drawn.DRAWINGS.items():
            self.assertIn("</svg>", draw(), name)


if __name__ == "__main__":
    unittest.main()
