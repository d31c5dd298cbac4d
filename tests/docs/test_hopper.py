"""The drawings of chapter 09 show what its kernels do."""

import re
import unittest
from itertools import pairwise
from pathlib import Path

from tools.docs import hopper

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "09_hopper"


def source(file: str) -> str:
    return (CHAPTER / file).read_text()


def body(file: str, name: str) -> str:
    """The text of a file from the definition of a function on."""
    text = source(file)
    return text[re.search(rf"\b{name}\(", text).start() :]


class Atom(unittest.TestCase):
    def test_offsets_are_those_of_the_kernel(self):
        formula = re.search(r"offset\(int row, int col\) \{\s*return (.+);", source("tma.cuh"))[1]  # fmt: skip  # noqa: E501
        formula = formula.replace("/", "//")
        for rows in (64, 80, 128):
            offsets = set()
            for row in range(rows):
                for col in range(128):
                    names = {"row": row, "col": col, "kRows": rows}
                    expected = eval(formula, names)
                    self.assertEqual(hopper.offset_of(row, col, rows), expected)
                    offsets.add(expected)
            self.assertEqual(offsets, set(range(rows * 128)))

    def test_the_store_of_o_uses_the_same_places(self):
        self.assertIn("chunk = n % 8 ^ lane / 4;", source("consumer.cuh"))
        for row in range(16):
            self.assertEqual(hopper.place_of(3, row), 3 ^ row % 8)

    def test_fields_and_distances(self):
        text = body("products.cuh", "descriptor")
        for _, first, _ in hopper.FIELDS[1:]:
            self.assertIn(f"<< {first}", text)
        self.assertIn("8 * 128 / 16", text)
        self.assertEqual(hopper.ATOM_BYTES, 8 * 128)
        # From step to step: 32 bytes along the rows, 16 rows across them.
        self.assertIn(f"step % 4 * {2 * hopper.STEP_COLS};", source("products.cuh"))
        step = f"step * {hopper.STEP_ROWS} * {hopper.ROW_BYTES}"
        self.assertIn(step, source("products.cuh"))

    def test_what_it_says(self):
        drawing = hopper.atom()
        for words in ("+16384", "byte 17408", "32 bytes further on", "2048 bytes"):
            self.assertIn(words, drawing)


class Accumulator(unittest.TestCase):
    def test_elements_are_where_the_program_stores_them(self):
        text = source("first.cu")
        row = re.search(r"const int query = (.+);", text)[1].replace("/", "//")
        col = re.search(r"const int key = tile \* kTile \+ (.+);", text)[1].replace("/", "//")
        places = set()
        for warp in range(4):
            for lane in range(32):
                for i in range(32):
                    place = hopper.element_of(warp, lane, i)
                    names = {"warp": warp, "lane": lane, "i": i}
                    self.assertEqual(place, (eval(row, names), eval(col, names)))
                    places.add(place)
        self.assertEqual(places, {(row, col) for row in range(64) for col in range(64)})


class Rings(unittest.TestCase):
    def test_places_move_as_in_the_kernel(self):
        text = re.sub(r"\s+", " ", source("shared_tiles.cuh"))
        moves = "if (++stage == kStages) { stage = 0; parity ^= 1; }"
        self.assertIn(moves, text)
        self.assertIn("mbarrier_wait(&ring.full[stage], full_parity());", text)
        self.assertIn("int full_parity() const { return parity; }", text)
        self.assertIn("mbarrier_wait(&ring.empty[stage], empty_parity());", text)
        self.assertIn("int empty_parity() const { return parity ^ 1; }", text)
        for stages in (1, 2, 3):
            place = hopper.Place(stages)
            for tile in range(10):
                self.assertEqual(place.stage, tile % stages)
                self.assertEqual(place.parity, tile // stages % 2)
                place.advance()

    def test_every_wait_ends_with_the_phase_that_it_names(self):
        for stages in (1, 2, 3):
            turns = hopper.turns_of_ring(stages, 9, 1.5, 1.4)
            for turn in turns:
                mine = [t for t in turns if t.stage == turn.stage]
                number = turn.tile // stages
                full = hopper.phases([t.landed for t in mine], 99)[number]
                self.assertEqual((full[0], full[2]), (turn.full, turn.landed))
                if number == 0:
                    self.assertEqual(turn.empty, 1)  # complete from the beginning
                    continue
                empty = hopper.phases([t.left for t in mine], 99)[number - 1]
                self.assertEqual(empty[0], turn.empty)
                self.assertGreaterEqual(turn.start, empty[2])


class Timeline(unittest.TestCase):
    def order(self, file: str, name: str) -> list[str]:
        calls = r"(issue_qk|issue_pv|raise_maximum|turn\.take|turn\.pass|wgmma_wait<\d>)"
        text = body(file, name)
        return re.findall(calls, text[: text.index("\n}\n")])

    def test_the_order_is_the_kernels(self):
        self.assertEqual(
            self.order("kernel.cuh", "specialised_attention"),
            ["issue_qk", "wgmma_wait<0>", "raise_maximum", "issue_pv", "wgmma_wait<0>"],
        )
        step = ["issue_qk", "issue_pv", "wgmma_wait<1>", "raise_maximum", "wgmma_wait<0>"]
        self.assertEqual(self.order("kernel.cuh", "overlapped_step"), step)
        in_turn = ["turn.take", *step[:2], "turn.pass", *step[2:]]
        self.assertEqual(self.order("ping_pong.cuh", "step_in_turn"), in_turn)

    def test_each_job_comes_after_what_it_needs(self):
        for name, jobs in hopper.schedules(4).items():
            at = {(j.consumer, j.name): j for j in jobs}
            for consumer in range(2):
                for tile in range(4):
                    scores = at[consumer, f"QK {tile}"]
                    softmax = at[consumer, str(tile)]
                    values = at[consumer, f"PV {tile}"]
                    self.assertLessEqual(scores.end, softmax.begin, name)
                    self.assertLessEqual(softmax.end, values.begin, name)
                    if name == "specialised" and tile:
                        before = at[consumer, f"PV {tile - 1}"]
                        self.assertLessEqual(before.end, scores.begin)

    def test_turns_do_not_overlap(self):
        jobs = [j for j in hopper.schedules(4)["ping_pong"] if j.unit == "products"]
        jobs.sort(key=lambda job: job.begin)
        for one, next_one in pairwise(jobs):
            self.assertLessEqual(one.end, next_one.begin)

    def test_each_step_is_faster_and_none_is_faster_than_its_products(self):
        played = hopper.schedules(4)
        ends = [max(job.end for job in jobs) for jobs in played.values()]
        self.assertEqual(ends, sorted(ends, reverse=True))
        for jobs in played.values():
            busy = hopper.busy_time(jobs)
            self.assertAlmostEqual(busy, 4 * 2 * 2 * hopper.PRODUCT_TIME)


class Registers(unittest.TestCase):
    def test_budgets(self):
        budgets = {budget.head_dim: budget for budget in hopper.budgets()}
        self.assertEqual(set(budgets), {64, 128})
        self.assertIn("struct Specialised<256> : Specialised<128>", source("choices.cuh"))  # fmt: skip
        for budget in budgets.values():
            self.assertLessEqual(budget.after, budget.threads * budget.at_launch)
            comment = f"{budget.threads} threads with {budget.at_launch} registers each"
            self.assertIn(comment, source("choices.cuh"))
            for count in (budget.producer, budget.consumer):
                self.assertEqual(count % 8, 0)
                self.assertIn(count, range(24, 257))


class Drawings(unittest.TestCase):
    def test_every_drawing_is_made(self):
        for name, draw in hopper.DRAWINGS.items():
            self.assertIn("</svg>", draw(), name)


if __name__ == "__main__":
    unittest.main()
