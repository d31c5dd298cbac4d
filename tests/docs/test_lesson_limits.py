"""The pages of every chapter: how much open text they have, and whether each variant has a measured speed.

    python3 -m tests.docs.test_lesson_limits [BUILD]     default build/sim, whose programs list their variants

Open text is what a reader sees on the way from top to bottom: not code, tables, drawings or folds.
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

from tools.docs import lessons
from tools.learn.project import Chapter

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.parent for path in ROOT.glob("chapters/[0-9][0-9]_*/README.md"))
MOST_WORDS = 6000
build = ROOT / "build" / "sim"

DIGIT = re.compile(r"\d")
COUNTS = {"counters", "copies", "sectors", "profile", "errors", "sanitizer", "hazards"}  # no speeds


def open_words(text: str) -> int:
    """The words of a page outside of code, tables, drawings, folds and comments."""
    lines = text.splitlines()
    code = lessons.lines_of_code(lines)
    kept = "\n".join("" if number in code else line for number, line in enumerate(lines))
    kept = re.sub(r"<!--.*?-->", "", kept, flags=re.DOTALL)
    count = depth = 0
    for line in kept.splitlines():
        depth += line.count("<details>")
        if depth == 0 and not line.lstrip().startswith(("|", "![")):
            count += len(line.split())
        depth -= line.count("</details>")
    return count


def variants_of(program: Path) -> set[str]:
    """The variants that a chapter's program lists."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ *(\w+) ", listed, re.MULTILINE))


def timed_in(text: str, chapter: str) -> set[str]:
    """The names, other kernels' among them, that have a speed or a time in a table of GPU measurements, as a
    row or as a column, with something to compare it with.
    """
    lines = text.splitlines()
    found: set[str] = set()
    for block in lessons.blocks_of(lines):
        words = block.arguments.split()
        measured = block.kind == "results" and not COUNTS & set(words[1:2])
        if not measured and not (block.kind == "onchip" and "beside" in words):
            continue
        table = [
            line.strip("| ").split("|") for line in lines[block.begin : block.end] if line.startswith("|")
        ]
        rows = table[:1] + table[2:]
        for lists in (rows, [list(column) for column in zip(*rows, strict=True)]):
            names = {kernel_of(first, chapter) for first, *cells in lists[1:] if DIGIT.search("".join(cells))}
            found |= names if len(names) > 1 else set()
    return found


def kernel_of(cell: str, chapter: str) -> str:
    """The variant that a cell names: "09 `tma`" in chapter 09, "in flight"; "" if it is another chapter's."""
    match = re.fullmatch(r"(?:(\d\d) )?`?([\w ]+)`?.*", cell.strip())
    if not match or (match[1] or chapter) != chapter:
        return ""
    return match[2].strip().replace(" ", "_")


class Functions(unittest.TestCase):
    PAGE = """\
# One two

Three `four` five.

```
no words
```

<details><summary>A fold</summary>

Nor these.

</details>

| nor | this |
|---|---|

<!-- results: a_h200.json steps p 64 cuDNN -->
| TFLOP/s | [1] |
| --- | ---: |
| 07 `final` | 3 (0.5) |
| 09 `tma` | 4 (0.6) |
| 09 `new` | - |
| cuDNN | 6 |
<!-- end -->

<!-- results: a_h200.json masks steps forward -->
| mask; ms | a b | c |
| --- | ---: | ---: |
| causal | 5 (1.00) | - |
<!-- end -->

<!-- results: a_h200.json copies 09_hopper 1 -->
| | x |
| --- | ---: |
| `d` | 5 |
| `e` | 5 |
<!-- end -->
"""

    def test_words_that_count(self):
        self.assertEqual(open_words(self.PAGE), 6)

    def test_which_variants_a_table_times(self):
        self.assertEqual(timed_in(self.PAGE, "09") - {""}, {"tma", "cuDNN"})
        page = self.PAGE.replace("| - |", "| 7 |")
        self.assertEqual(timed_in(page, "09") - {""}, {"tma", "new", "cuDNN", "a_b", "c"})
        self.assertEqual(timed_in(page, "07") - {""}, {"final", "cuDNN", "a_b", "c"})


class Pages(unittest.TestCase):
    def test_none_has_more_open_text_than_a_reader_takes_in(self):
        pages = [page for folder in CHAPTERS for page in sorted(folder.glob("*.md"))]
        words = {str(page.relative_to(ROOT)): open_words(page.read_text(encoding="utf-8")) for page in pages}
        long = {page: count for page, count in words.items() if count > MOST_WORDS}
        self.assertEqual(long, {}, f"at most {MOST_WORDS}")


class Variants(unittest.TestCase):
    def test_each_has_a_measured_speed_beside_that_of_another(self):
        missing = set()
        for folder in CHAPTERS:
            program = build / "bin" / f"ch{folder.name}"
            if not program.is_file() and Chapter(folder).has_ranks:
                continue  # left out where there is no MPI
            names = variants_of(program)
            self.assertGreater(len(names), 1, folder.name)
            pages = (page.read_text(encoding="utf-8") for page in folder.glob("*.md"))
            timed = set().union(*(timed_in(page, folder.name[:2]) for page in pages))
            missing |= {f"{folder.name[:2]} {name}" for name in names - timed}
        self.assertEqual(sorted(missing), [], "no table of a GPU's results has it")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        build = Path(sys.argv.pop(1))
    unittest.main()
