"""A part of many cases."""

import os
import unittest
from unittest import mock

from . import parts

CASES = list(range(7))


class PartsTest(unittest.TestCase):
    def chosen(self, part: str) -> list[int]:
        with mock.patch.dict(os.environ, FA_CASES=part):
            return parts.chosen(CASES, "FA_CASES")

    def test_all_unless_a_part_is_asked_for(self):
        self.assertEqual(parts.chosen(CASES, "FA_CASES"), CASES)

    def test_parts_have_each_case_once(self):
        for count in (1, 2, 3, 9):
            found = [case for k in range(count) for case in self.chosen(f"{k + 1}/{count}")]
            self.assertEqual(sorted(found), CASES)

    def test_a_part_that_does_not_exist(self):
        for part in ("", "0/3", "4/3", "1", "a/b", "1/2/3", "-1/3"):
            with self.subTest(part), self.assertRaises(SystemExit) as exits:
                self.chosen(part)
            self.assertEqual(exits.exception.code, f"FA_CASES is '{part}': must be K/N, with K from 1 to N")


if __name__ == "__main__":
    unittest.main()
