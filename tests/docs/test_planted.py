"""The mistakes of tools/docs/planted.toml fit the kernels, and they break every rule of the simulator.

That the simulator reports them is the subject of run_planted.py, which takes minutes.
"""

import dataclasses
import json
import re
import unittest

from tools.docs import planted

SIMULATOR = planted.ROOT / "common" / "gpusim"
RUNTIME = SIMULATOR / "runtime"
# The sources that say what is wrong with a kernel.
SOURCES = [RUNTIME / "defects.cpp", RUNTIME / "cluster.cpp", *sorted(RUNTIME.glob("block_*.cpp"))]
TOKEN = re.compile(r"""//[^\n]*|'(?:[^'\\\n]|\\.)'|"((?:[^"\\\n]|\\.)*)"|(;)""")
PLACE = re.compile(r"\{\d[^}]*\}|\n")  # stands for a source line

# Sentences that no kernel of a chapter can cause in one line, and words for other purposes.
NO_RULES = (
    "a row of the box has ",  # tiles of rows that are shorter than the swizzle
    "the base offset is ",  # no chapter's descriptor has one
    "another copy to the same bytes may be in flight",  # beside a store or a product
    # In the chapters, a block that ends so early has broken another rule before.
    "the block may end while the copy still reads its shared memory: none of its threads learns that ",
    "keep running at ",  # beside others that wait
    ": it has",  # before " reached LINE"
    "products are done",  # events of GPUSIM_TRACE
    "stores have read",
    # Of programs that no chapter is: tests/gpusim and tests/sim_programs break these rules.
    "Race reported between ",  # beside one that is silenced
    " access by the host at ",
    "Note: lanes of a warp store different values together at ",
    " is silenced there, or on the other line, by ",
    "an integer is divided by zero",
    "the thread has used up its stack: here it has ",
    "the thread has executed an invalid instruction",
    "the kernel makes no progress: this thread was still here after ",
    "the assertion `",
    "a barrier of the grid in a launch that is not cooperative: it needs ",
)


def sentences(text: str) -> list[list[str]]:
    """The words of each statement of a source that has string constants of three words or more."""
    found: list[list[str]] = []
    constants: list[str] = []
    end = 0  # of the constant before
    for token in TOKEN.finditer(text):
        if token[1] is not None:
            words = token[1].replace("\\n", "\n").replace('\\"', '"')
            if constants and not text[end : token.start()].strip():
                constants[-1] += words
            else:
                constants.append(words)
            end = token.end()
        elif token[2]:
            parts = [part for words in constants for part in PLACE.split(words)]
            if long := [part for part in parts if len(part.split()) >= 3]:
                found.append(long)
            constants = []
    return found


def broken_by(words: str, rules: list[list[str]]) -> list[int]:
    """The rules that these words are about: statements that print them, or the only one that prints more."""
    exact = [i for i, parts in enumerate(rules) if words in parts]
    longer = [i for i, parts in enumerate(rules) if any(words in p for p in parts)]
    return exact or (longer if len(longer) == 1 else [])


class Sources(unittest.TestCase):
    def test_statements_with_sentences(self):
        text = """// "no such thing"; a
            f('"', "one two three" "\\nfour five six"); g("one"); h(x, "{0} is not at {1:0|x}" + y);"""
        expected = [["one two three", "four five six"], [" is not at "]]
        self.assertEqual(sentences(text), expected)

    def test_which_rule_words_are_about(self):
        rules = [["one two three"], ["one two three four"], ["one two three", "x"]]
        self.assertEqual(broken_by("one two three", rules), [0, 2])
        self.assertEqual(broken_by("three four", rules), [1])
        self.assertEqual(broken_by("two three", rules), [])


class Mistakes(unittest.TestCase):
    def test_each_fits_its_file(self):
        for mistake in planted.MISTAKES.values():
            self.assertNotEqual(mistake.changed_text(), "")
            self.assertNotEqual(mistake.says, [], mistake.name)

    def test_what_fits_no_file_is_refused(self):
        first = next(iter(planted.MISTAKES.values()))
        with self.assertRaisesRegex(SystemExit, "must have once: no such text"):
            dataclasses.replace(first, before="no such text").changed_text()
        with self.assertRaisesRegex(SystemExit, "other lines"):
            dataclasses.replace(first, after="\n").changed_text()

    def test_each_rule_of_the_simulator_is_broken(self):
        rules = [parts for file in SOURCES for parts in sentences(file.read_text())]
        said = [words for m in planted.MISTAKES.values() for words in m.says]
        broken = {i for words in [*said, *NO_RULES] for i in broken_by(words, rules)}
        missing = [parts for i, parts in enumerate(rules) if i not in broken]
        self.assertEqual(missing, [], "planted.toml: no mistake says one of each list")

    def test_what_they_say_is_in_the_sources(self):
        files = [p for p in SIMULATOR.rglob("*") if p.suffix in (".cpp", ".hpp")]
        texts = re.sub(r'"\s*\n\s*"', "", "\n".join(p.read_text() for p in files))
        said = [words for m in planted.MISTAKES.values() for words in m.says]
        for words in [*said, *NO_RULES]:
            self.assertIn(words, texts)


class Results(unittest.TestCase):
    def test_are_of_the_mistakes_that_lessons_quote(self):
        rows = json.loads(planted.RESULTS.read_text(encoding="utf-8"))
        self.assertEqual([*rows], planted.quoted())
        for name, row in rows.items():
            again = f"python3 -m tools.docs.planted {name}"
            mistake = planted.MISTAKES[name]
            self.assertEqual(row["before"], mistake.before, again)
            self.assertEqual(row["after"], mistake.after, again)


if __name__ == "__main__":
    unittest.main()
