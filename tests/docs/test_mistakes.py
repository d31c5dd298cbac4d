"""The mistakes of chapters 09 and 10: each is found in the kernels, and what was kept of the last run fits them."""

import json
import unittest

from tools.docs import hopper_backward_mistakes, mistakes


def placed(subject: mistakes.Subject) -> list[list[mistakes.Placed]]:
    plants = [plant for mistake in subject.mistakes for plant in mistake.plants]
    texts = subject.texts()
    return [
        mistakes.places(number, plant, subject, texts)
        for number, plant in enumerate(plants, 1)
    ]


class Places(unittest.TestCase):
    def test_each_text_is_in_its_region_once(self):
        for subject in mistakes.SUBJECTS.values():
            for plants in placed(subject):
                for plant in plants:
                    self.assertLess(plant.begin, plant.end)
        with self.assertRaisesRegex(SystemExit, "must have once, not 0 times"):
            mistakes.place(1, ("a.cuh", ""), "no such text", "", {"a.cuh": "text"})

    def test_no_program_has_mistakes_that_overlap(self):
        for subject in mistakes.SUBJECTS.values():
            plants = placed(subject)
            batches = mistakes.batches_of(plants)
            self.assertEqual(sum(map(len, batches)), sum(map(len, plants)))
            for batch in batches:
                for one in batch:
                    self.assertFalse(
                        any(mistakes.overlap(one, other) for other in batch)
                    )

    def test_a_program_contains_both_texts(self):
        def text_with(subject, region, before, after, file):
            texts = subject.texts()
            plant = mistakes.place(7, subject.regions[region], before, after, texts)
            return mistakes.planted_files([plant], subject, texts)[file]

        text = text_with(mistakes.HOPPER, "products", "step % 4 * 32", "step % 4 * 16", "products.cuh")  # fmt: skip
        self.assertIn("(planted::is(7) ? (step % 4 * 16) : (step % 4 * 32))", text)
        text = text_with(mistakes.HOPPER, "produce", "producer.end();", ";", "kernel.cuh")  # fmt: skip
        self.assertIn("if (planted::is(7)) { ; } else { producer.end(); }", text)
        text = text_with(mistakes.HOPPER_BACKWARD, "rings", "parity ^= 1;", ";", "09_hopper/shared_tiles.cuh")  # fmt: skip
        self.assertIn("if (planted::is(7)) { ; } else { parity ^= 1; }", text)

    def test_a_program_contains_all_headers_of_the_other_chapter(self):
        subject = mistakes.HOPPER_BACKWARD
        files = mistakes.planted_files([], subject, subject.texts())
        self.assertIn("09_hopper/copies.cuh", files)


class BothChapters(unittest.TestCase):
    def test_what_is_planted_in_chapter_09_is_planted_in_chapter_10(self):
        here = {mistake.name for mistake in mistakes.HOPPER_BACKWARD.mistakes}
        instead = hopper_backward_mistakes.INSTEAD
        nowhere = set(hopper_backward_mistakes.NOWHERE)
        for mistake in mistakes.HOPPER.mistakes:
            ways = (mistake.name in here, mistake.name in instead, mistake.name in nowhere)  # fmt: skip
            self.assertEqual(sum(ways), 1, mistake.name)
        for names in instead.values():
            self.assertLessEqual(set(names), here)
        before = {mistake.name for mistake in mistakes.HOPPER.mistakes}
        self.assertLessEqual(set(instead) | nowhere, before)


class Results(unittest.TestCase):
    def rows(self, subject: mistakes.Subject) -> list[dict]:
        return json.loads(subject.results.read_text(encoding="utf-8"))

    def test_are_of_these_mistakes(self):
        for subject in mistakes.SUBJECTS.values():
            rows = self.rows(subject)
            kept = [(r["mistake"], r["plant"], r["place"], r["variant"]) for r in rows]
            planted = [
                (mistake.name, number, plant.region, variant)
                for mistake in subject.mistakes
                for number, plant in enumerate(mistake.plants)
                for variant in plant.variants
            ]
            self.assertEqual(sorted(kept), sorted(planted))

    def test_each_mistake_is_caught(self):
        for subject in mistakes.SUBJECTS.values():
            for row in self.rows(subject):
                self.assertTrue(mistakes.is_as_expected(row), row)

    def test_what_is_expected_is_what_the_mistakes_say(self):
        for subject in mistakes.SUBJECTS.values():
            expected = {
                (mistake.name, number): mistakes.expected_of(mistake, plant)
                for mistake in subject.mistakes
                for number, plant in enumerate(mistake.plants)
            }
            for row in self.rows(subject):
                self.assertEqual(
                    row["expected"], expected[row["mistake"], row["plant"]]
                )

    def test_what_counts_as_caught(self):
        row = self.rows(mistakes.HOPPER)[0]
        self.assertFalse(mistakes.is_as_expected(row | {"kinds": ["nothing"]}))
        self.assertFalse(mistakes.is_as_expected(row | {"kinds": ["numbers"]}))
        harmless = row | {"expected": "the barrier is there twice"}
        self.assertFalse(mistakes.is_as_expected(harmless))
        self.assertTrue(mistakes.is_as_expected(harmless | {"kinds": ["nothing"]}))


if __name__ == "__main__":
    unittest.main()
