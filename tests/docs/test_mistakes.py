"""The mistakes of chapter 09: each is found in the kernels, and what was kept of the last run fits them."""

import json
import unittest

from tools.docs import mistakes
from tools.docs.hopper_mistakes import MISTAKES
from tools.learn import project


class Places(unittest.TestCase):
    def setUp(self):
        (chapter,) = project.select(["09"])
        files = (*chapter.path.glob("*.cuh"), chapter.path / "chapter.cu")
        self.texts = {path.name: path.read_text(encoding="utf-8") for path in files}
        plants = [plant for mistake in MISTAKES for plant in mistake.plants]
        self.placed = [
            mistakes.places(number, plant, self.texts)
            for number, plant in enumerate(plants, 1)
        ]

    def test_each_text_is_in_its_region_once(self):
        for placed in self.placed:
            for plant in placed:
                self.assertLess(plant.begin, plant.end)
        with self.assertRaisesRegex(SystemExit, "must have once, not 0 times"):
            mistakes.place(1, "maps", "no such text", "", self.texts)

    def test_no_program_has_mistakes_that_overlap(self):
        batches = mistakes.batches_of(self.placed)
        self.assertEqual(sum(map(len, batches)), sum(map(len, self.placed)))
        for batch in batches:
            for one in batch:
                self.assertFalse(any(mistakes.overlap(one, other) for other in batch))

    def test_a_program_contains_both_texts(self):
        plant = mistakes.place(7, "products", "step % 4 * 32", "step % 4 * 16", self.texts)  # fmt: skip
        text = mistakes.planted_files([plant], self.texts)["products.cuh"]
        self.assertIn("(planted::is(7) ? (step % 4 * 16) : (step % 4 * 32))", text)
        plant = mistakes.place(8, "produce", "producer.end();", ";", self.texts)
        text = mistakes.planted_files([plant], self.texts)["kernel.cuh"]
        self.assertIn("if (planted::is(8)) { ; } else { producer.end(); }", text)


class Results(unittest.TestCase):
    def setUp(self):
        self.rows = json.loads(mistakes.RESULTS.read_text(encoding="utf-8"))

    def test_are_of_these_mistakes(self):
        kept = [(r["mistake"], r["plant"], r["variant"]) for r in self.rows]
        planted = [
            (mistake.name, number, variant)
            for mistake in MISTAKES
            for number, plant in enumerate(mistake.plants)
            for variant in plant.variants
        ]
        self.assertEqual(sorted(kept), sorted(planted))

    def test_each_mistake_is_caught(self):
        for row in self.rows:
            self.assertTrue(mistakes.is_as_expected(row), row)

    def test_what_counts_as_caught(self):
        row = self.rows[0]
        self.assertFalse(mistakes.is_as_expected(row | {"kinds": ["nothing"]}))
        self.assertFalse(mistakes.is_as_expected(row | {"kinds": ["numbers"]}))
        harmless = row | {"expected": "the barrier is there twice"}
        self.assertFalse(mistakes.is_as_expected(harmless))
        self.assertTrue(mistakes.is_as_expected(harmless | {"kinds": ["nothing"]}))


if __name__ == "__main__":
    unittest.main()
