"""tools/docs/lessons.py on small trees: what it writes, reports as out of date, and refuses."""

import contextlib
import io
import json
import tempfile
import textwrap
import unittest
from pathlib import Path

from tools.docs import drawings, lessons, measured

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """\
/// @file
#pragma once
#define TWO_LINES(x) \\
  { x
namespace fa {

constexpr int kThreads = 128;  ///< of a block

/// A pair. It's { not a brace.
struct Pair {
  float m;
  float l() const { return 0; }
};

/// Doubles.
///
/// Twice.
template <int kN = 2>
__device__ __forceinline__ float twice(float x) {
  // EXERCISE 1: Make `2 * x` of x_1.
  return kN * x;  // "}" is no end
  // END 1
}

__global__ void __launch_bounds__(kThreads)
    kernel(float* y, int n) {
  for (int i = 0; i < n; ++i) {
    y[i] = twice(y[i]);
  }
  __syncthreads();  // first
  // __syncthreads();
  y[0] = '}';
  __syncthreads();  // second
  // EXERCISE 2: Nothing.
  __syncwarp();
  // END 2
}

const Pair kPairs[] = {
    {1, 2},
};

template <int kN>
struct __align__(16) Quad {
  float x[4];
};

void same(int) {}
void same(float) {}

}  // namespace fa
"""

SHEET = """\
inputs = [""]

[[exercise]]
number = 1
minutes = 5
hints = ["Add.", "x + x"]
stub = "return x;"

[[exercise]]
number = 2
minutes = 5
hints = ["<none>"]
stub = "return;"
"""

TABLE = "variant  error/limit\nmine  4.4e-7/3.2e-6"


class InATree(unittest.TestCase):
    """A test with its own tree of files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.build = self.root / "build" / "sim"
        self.lesson = self.root / "chapters" / "01_x" / "README.md"
        self.write("chapters/01_x/kernel.cuh", KERNEL)
        self.write("chapters/01_x/exercises.toml", SHEET)
        self.write("chapters/01_x/chapter.cu", '#include "kernel.cuh"\n')

    def write(self, name: str, text: str, executable: bool = False) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(0o755)
        return path

    def program(self, text: str) -> None:
        """Makes build/sim/bin/ch01_x, which prints a text and writes it to the file of --json."""
        last = 'for last; do :; done; echo x >> "$0.runs"'
        self.write("build/sim/bin/ch01_x", f"#!/bin/sh\n{last}; tee $last <<'END'\n{text}\nEND\n", True)

    def run_main(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = lessons.main(list(arguments), self.root)
        return status, out.getvalue(), err.getvalue()

    def fill(self, argument: str) -> str:
        """The block of this kind and argument, filled; it must then be up to date."""
        self.lesson.write_text(f"# Title\n\n<!-- {argument} -->\n<!-- end -->\n")
        status, out, err = self.run_main()
        self.assertEqual((status, err), (0, ""))
        self.assertIn("chapters/01_x/README.md:3: ", out)
        filled = self.lesson.read_text()
        self.assertEqual(self.run_main("--check"), (0, "", ""))
        self.assertEqual(self.lesson.read_text(), filled)
        start = f"# Title\n\n<!-- {argument} -->\n"
        self.assertTrue(filled.startswith(start), filled)
        self.assertTrue(filled.endswith("\n<!-- end -->\n"), filled)
        return filled[len(start) : -len("\n<!-- end -->\n")]

    def refuse(self, argument: str, *words: str) -> None:
        """The block cannot be made: one line that names lesson and line, and nothing is written."""
        before = f"# Title\n\n<!-- {argument} -->\nold\n<!-- end -->\n"
        self.lesson.write_text(before)
        for options in ([], ["--check"]):
            status, out, err = self.run_main(*options)
            self.assertEqual((status, out), (2, ""))
            self.assertEqual(err.count("\n"), 1, err)
            self.assertTrue(err.startswith("chapters/01_x/README.md:3: "), err)
            for word in words:
                self.assertIn(word, err)
        self.assertEqual(self.lesson.read_text(), before)


class Code(InATree):
    def test_a_function_without_its_comment_and_solution(self):
        self.assertEqual(
            self.fill("code: kernel.cuh twice"),
            textwrap.dedent("""\
                ```cpp
                template <int kN = 2>
                __device__ __forceinline__ float twice(float x) {
                  // EXERCISE 1: Make `2 * x` of x_1.
                }
                ```"""),
        )

    def test_with_comment(self):
        text = self.fill("code: kernel.cuh twice with comment")
        self.assertIn("```cpp\n/// Doubles.\n///\n/// Twice.\ntemplate", text)

    def test_a_kernel_with_launch_bounds(self):
        text = self.fill("code: kernel.cuh kernel")
        self.assertTrue(text.startswith("```cpp\n__global__ void __launch_bounds__"), text)
        self.assertTrue(text.endswith("// second\n  // EXERCISE 2: Nothing.\n}\n```"), text)

    def test_types_arrays_and_constants(self):
        self.assertIn("float l() const", self.fill("code: kernel.cuh Pair"))
        self.assertIn("    {1, 2},\n};\n```", self.fill("code: kernel.cuh kPairs"))
        self.assertIn("= 128;  ///< of a block", self.fill("code: kernel.cuh kThreads"))

    def test_some_lines_of_a_function(self):
        text = self.fill('code: kernel.cuh kernel from "for (" to "}"')
        self.assertEqual(text, "```cpp\nfor (int i = 0; i < n; ++i) {\n  y[i] = twice(y[i]);\n}\n```")

    def test_a_loop_is_quoted_to_its_end(self):
        text = self.fill('code: kernel.cuh kernel from "for (" to "twice"')
        self.assertTrue(text.endswith("  y[i] = twice(y[i]);\n}\n```"), text)

    def test_a_whole_file(self):
        text = self.fill("program: kernel.cuh")
        self.assertTrue(text.startswith("```cpp\n/// @file\n#pragma once"), text)
        self.assertTrue(text.endswith("}  // namespace fa\n```"), text)
        self.assertIn("// EXERCISE 1", text)
        self.assertNotIn("return kN", text)
        self.refuse("program: gone.cu", "there is no gone.cu")

    def test_a_path_from_the_root(self):
        self.write("common/device/math.cuh", "inline int one() { return 1; }\n")
        self.assertIn("return 1", self.fill("code: common/device/math.cuh one"))

    def test_what_it_refuses(self):
        self.refuse("code: kernel.cuh thrice", "kernel.cuh", "no definitions of thrice")
        self.refuse("code: kernel.cuh same", "2 definitions of same")
        self.refuse("code: nothing.cuh twice", "there is no nothing.cuh")
        self.refuse('code: kernel.cuh kernel from "while"', 'no line with "while"')
        self.refuse('code: kernel.cuh kernel from "y[0]" to "for"', 'line with "for"')
        self.refuse("code: kernel.cuh", "must be FILE NAME")

    def test_code_in_python(self):
        source = "@jit\ndef one():\n    a = {}\n    b = 2\n    return b\n\nclass Two:\n    pass\n"
        (self.lesson.parent / "twin.py").write_text(source)
        self.assertEqual(
            self.fill("code: twin.py one"), "```python\ndef one():\n    a = {}\n    b = 2\n    return b\n```"
        )
        self.assertEqual(
            self.fill('code: twin.py one from "b =" to "return"'), "```python\nb = 2\nreturn b\n```"
        )
        self.assertIn("pass", self.fill("code: twin.py Two"))
        self.refuse("code: twin.py three", "twin.py", "no definitions of three")

    def test_a_change_is_found_and_named(self):
        self.fill("code: kernel.cuh twice")
        self.write("chapters/01_x/kernel.cuh", KERNEL.replace("kN = 2", "kN = 3"))
        before = self.lesson.read_text()
        status, out, _ = self.run_main("--check")
        self.assertEqual(status, 1)
        first = "chapters/01_x/README.md:3: code: kernel.cuh twice: out of date"
        self.assertEqual(out.splitlines()[0], first)
        self.assertEqual(self.lesson.read_text(), before)

    def test_the_kernels_of_this_repository(self):
        for folder in ROOT.glob("chapters/*/"):
            names = [
                item.name for header in folder.glob("*.cuh") for item in lessons.items_of(header.read_text())
            ]
            self.assertNotIn("", names)
            self.assertGreater(len(names), 5)

    def test_a_template_of_templates(self):
        source = "template <class T, template <class, class> class Ring>\n__global__ void f(T x) {\n}\n"
        self.assertEqual([item.name for item in lessons.items_of(source)], ["f"])

    def test_a_struct_with_an_alignment(self):
        text = self.fill("code: kernel.cuh Quad")
        self.assertIn("struct __align__(16) Quad {", text)


class Exercises(InATree):
    def test_tasks_and_folded_hints(self):
        text = self.fill("exercises: kernel.cuh")
        task = "**Exercise 1**, `twice`, about 5 minutes. Make `2 * x` of x\\_1."
        self.assertTrue(text.startswith(task), text)
        hints = "<details><summary>Hints</summary>\n\n1. Add.\n2. x + x\n\n</details>"
        self.assertIn(f"\n\n{hints}\n\n**Exercise 2**, `kernel`, about 5 minutes. Nothing.\n\n", text)
        self.assertTrue(text.endswith("\n\n1. \\<none\\>\n\n</details>"), text)

    def test_each_file_of_several_has_a_block_of_its_own(self):
        more = "int g(int x) {\n  // EXERCISE 3: More.\n  return x;\n  // END 3\n}\n"
        third = "[[exercise]]\nnumber = 3\nminutes = 5\nhints = ['!']\nstub = 'return 0;'\n"
        self.write("chapters/01_x/more.cuh", more)
        self.write("chapters/01_x/exercises.toml", f'files = ["kernel.cuh", "more.cuh"]\n{SHEET}{third}')
        text = self.fill("exercises: more.cuh")
        self.assertTrue(text.startswith("**Exercise 3**, `g`, about 5 minutes. More.\n\n"), text)
        text = self.fill("exercises: kernel.cuh")
        self.assertIn("**Exercise 2**", text)
        self.assertNotIn("**Exercise 3**", text)

    def test_what_it_refuses(self):
        self.refuse("exercises: gone.cuh", "there is no gone.cuh")
        self.write("chapters/01_x/none.cuh", "int f() { return 1; }\n")
        self.refuse("exercises: none.cuh", "none.cuh is not in `files` of chapters/01")
        lone = "int f();\n// EXERCISE 1: so\n1\n// END 1\n"
        self.write("chapters/02_y/kernel.cuh", lone)
        self.refuse("exercises: chapters/02_y/kernel.cuh", "chapters/02_y/exercises.toml: No such file")
        one = SHEET[: SHEET.rindex("[[exercise]]")]
        self.write("chapters/02_y/exercises.toml", one)
        self.refuse("exercises: chapters/02_y/kernel.cuh", ":2: EXERCISE 1 is in no function")
        self.write("chapters/02_y/kernel.cuh", "int f() {\n  // END 3\n}\n")
        self.refuse("exercises: chapters/02_y/kernel.cuh", "kernel.cuh:2: END 3 comes before its")
        twice = "  // EXERCISE 1: so\n"
        self.write("chapters/01_x/kernel.cuh", f"int f() {{\n{twice}{twice}}}\n")
        self.refuse("exercises: kernel.cuh", "kernel.cuh:3", "EXERCISE 1 occurs twice")


class Solutions(InATree):
    def test_the_lines_of_a_solution(self):
        text = self.fill("solution: kernel.cuh 1")
        self.assertEqual(text, '```cpp\nreturn kN * x;  // "}" is no end\n```')

    def test_some_lines_of_a_solution(self):
        lines = "  int a = 1;\n  int b = 2;\n  int c = 3;\n"
        kernel = KERNEL.replace("  __syncwarp();\n", lines)
        self.write("chapters/01_x/kernel.cuh", kernel)
        text = self.fill('solution: kernel.cuh 2 from "b =" to "c ="')
        self.assertEqual(text, "```cpp\nint b = 2;\nint c = 3;\n```")

    def test_what_it_refuses(self):
        self.refuse("solution: kernel.cuh 3", "kernel.cuh has no exercise 3")
        self.refuse("solution: kernel.cuh", "must be FILE N")
        self.refuse("solution: gone.cuh 1", "there is no gone.cuh")
        self.refuse('solution: kernel.cuh 1 from "x;;"', 'no line with "x;;"')

    def test_the_open_part_of_a_lesson_gives_no_solution_away(self):
        line = "  y[i] = kScale * first(x, 3);"
        kernel = KERNEL.replace("  __syncwarp();", f"{line}  // so\n  return x;")
        self.write("chapters/01_x/kernel.cuh", kernel)
        fold = f"<details>\n```\n{line}\n```\n</details>\n"
        self.lesson.write_text(f"# x\n\n{fold}\nreturn x;\n")
        self.assertEqual(self.run_main("--check"), (0, "", ""))
        prints = "prints the solution of exercise 2 outside of a fold"
        for text in (line, "`y[i]=kScale * first(x, 3);` does it", f"> {line} // !"):
            self.lesson.write_text(f"# x\n\n{fold}\n{text}\n")
            for options in ([], ["--check"]):
                status, out, err = self.run_main(*options)
                self.assertEqual((status, out), (1, ""))
                self.assertEqual(err, f"chapters/01_x/README.md:9: {prints}\n")
        self.write("chapters/01_x/kernel.cuh", kernel + f"void f() {{\n{line}\n}}\n")
        self.assertEqual(self.run_main("--check"), (0, "", ""))  # it is no secret

    def test_nor_does_another_page_of_it(self):
        line = "  y[i] = kScale * first(x, 3);"
        self.write("chapters/01_x/kernel.cuh", KERNEL.replace("  __syncwarp();", line))
        self.write("chapters/01_x/later.md", f"# y\n\n```\n{line}\n```\n")
        status, _, err = self.run_main("--check")
        self.assertEqual(status, 1)
        self.assertIn("chapters/01_x/later.md:4: prints the solution of exercise 2", err)

    def test_a_barrier_alone_gives_nothing_away(self):
        self.lesson.write_text("# x\n\n__syncwarp();\n")
        self.assertEqual(self.run_main("--check"), (0, "", ""))


class OpenExercises(InATree):
    OPEN = """
[[open]]
task = "Fewer_sectors."
minutes = 60
variant = "mine"
input = "--rows 4"
at_most = { sectors = 1000, mma = 3 }
hints = ["How?"]

[[open.answer]]
from = "return kN * x;"
to = "return x + x;"
"""

    def test_task_table_and_hints(self):
        self.write("chapters/01_x/exercises.toml", SHEET + self.OPEN)
        counted = {"read_sectors": 1500, "write_sectors": 7}
        result = {"traffic": {"counted": counted}, "ops": {"mma": 5}}
        self.program(json.dumps({"variants": [result]}))
        text = self.fill("open: build/sim/bin/ch01_x")
        self.assertTrue(text.startswith("**Open exercise**, about 60 minutes. Fewer\\_"))
        self.assertIn("`./learn check 01` runs `mine` with `--rows 4`", text)
        self.assertIn("| sectors | 1,507 | 1,000 |\n| mma instructions | 5 | 3 |", text)
        self.assertIn("<details><summary>Hints</summary>\n\n1. How?\n", text)

    def test_a_chapter_without_any(self):
        self.refuse("open: build/sim/bin/ch01_x", "has no open exercise")


class Output(InATree):
    def test_command_and_output(self):
        self.program(TABLE)
        command = "build/sim/bin/ch01_x --rows 2"
        text = self.fill(f"output: {command}")
        self.assertEqual(text, f"```text\n$ {command}\n{TABLE}\n```")

    def test_rounding_errors_may_differ_and_nothing_else(self):
        self.program(TABLE)
        self.fill("output: build/sim/bin/ch01_x")
        self.program(TABLE.replace("  4.4e-7/", "    4e-7/"))
        self.assertEqual(self.run_main("--check"), (0, "", ""))
        self.program(TABLE.replace("3.2e-6", "1e-6"))
        self.assertEqual(self.run_main("--check")[0], 1)

    def test_a_program_runs_once_until_it_or_a_file_that_it_reads_changes(self):
        runs = self.root / "build/sim/bin/ch01_x.runs"
        variant = {"name": "mine", "shared": {"bytes_per_block": 1024}}
        self.program(json.dumps({"variants": [variant]}))
        self.write("data/q.npy", "1")
        command = "build/sim/bin/ch01_x --q data/q.npy"
        for kind in ("output", "blocks", "output"):  # blocks: once more, on another device
            self.fill(f"{kind}: {command}")
        self.assertEqual(runs.read_text(), "x\nx\n")
        self.write("data/q.npy", "2")
        self.fill(f"output: {command}")
        self.assertEqual(runs.read_text(), "x\nx\nx\n")
        self.program(json.dumps({"variants": [variant, variant]}))
        self.fill(f"output: {command}")
        self.fill(f"output: {command} --more")
        self.assertEqual(runs.read_text(), "x\nx\nx\nx\nx\n")

    def test_another_build_folder(self):
        self.program("one")
        self.fill("output: build/sim/bin/ch01_x")
        (self.root / "build").rename(self.root / "other")
        self.assertEqual(self.run_main("--check")[0], 2)
        folder = str(self.root / "other" / "sim")
        self.assertEqual(self.run_main("--check", "--build", folder), (0, "", ""))

    def test_what_it_refuses(self):
        self.refuse("output: build/sim/bin/ch09_y", "cannot be run", "--target ch09_y")
        self.refuse("output: ls", "must begin with build/sim/bin/")
        self.refuse("output: build/sim/bin/ch01_x 'a", "quotation")
        fails = "#!/bin/sh\necho bad --rows >&2\nexit 2\n"
        self.write("build/sim/bin/ch01_x", fails, True)
        self.refuse("output: build/sim/bin/ch01_x", "exit status 2", "bad --rows")

    def test_counters(self):
        predicted = {"read_bytes": 2048, "write_bytes": 1024}
        sectors = {"read_sectors": 64, "write_sectors": 32}
        requests = {"read_requests": 8, "write_requests": 4}
        counted = predicted | sectors | requests
        variant = {"name": "mine", "traffic": {"predicted": predicted, "counted": counted}}
        self.program(json.dumps({"variants": [variant]}))
        text = self.fill("counters: build/sim/bin/ch01_x")
        self.assertIn("| `mine` | 3,072 | 3,072 | 12 | 96 | 8.00 |", text)
        self.program("no JSON")
        self.refuse("counters: build/sim/bin/ch01_x", "prints no JSON")
        del variant["traffic"]["counted"]
        self.program(json.dumps({"variants": [variant]}))
        self.refuse("counters: build/sim/bin/ch01_x", "does not count")

    def test_blocks_that_fit_a_multiprocessor(self):
        variant = {"name": "mine", "shared": {"bytes_per_block": 96 * 1024}}
        self.program(json.dumps({"variants": [variant]}))
        text = self.fill("blocks: build/sim/bin/ch01_x")
        self.assertIn("| `mine` | 98,304 | 1 | 2 |", text)
        text = self.fill("blocks: build/sim/bin/ch01_x and build/sim/bin/ch01_x --more")
        self.assertEqual(text.count("| `mine` | 98,304 | 1 | 2 |"), 2)
        self.program(json.dumps({"variants": [{"name": "mine"}]}))
        self.refuse("blocks: build/sim/bin/ch01_x", "does not count")

    def test_a_device_on_which_a_variant_does_not_run(self):
        reason = "needs compute capability 9.0 exactly, this device has 8.0"
        skipped = json.dumps({"variants": [{"name": "mine", "skipped": {"reason": reason}}]})
        right = json.dumps({"variants": [{"name": "mine", "shared": {"bytes_per_block": 96 * 1024}}]})
        choose = f"if test \"$GPUSIM_DEVICE\" = a100; then echo '{skipped}'; else echo '{right}'; fi"
        script = f'#!/bin/sh\nfor last; do :; done; {choose} > "$last"\n'
        self.write("build/sim/bin/ch01_x", script, True)
        text = self.fill("blocks: build/sim/bin/ch01_x")
        self.assertIn("| `mine` | 98,304 | none: needs compute capability 9.0 exactly | 2 |", text)

    def test_on_chip(self):
        shared = {"bytes_per_block": 1024}
        shared |= {"load_wavefronts": 80, "load_wavefronts_ideal": 10}
        shared |= {"store_wavefronts": 7, "store_wavefronts_ideal": 5}
        variant = {"name": "mine", "shared": shared, "ops": {"mma": 4096}}
        self.program(json.dumps({"variants": [variant]}))
        text = self.fill("onchip: build/sim/bin/ch01_x")
        self.assertIn("| `mine` | 1,024 | 80 | 10 | 7 | 5 | 72 | 4,096 |", text)
        variant["ops"]["wgmma"] = 64
        self.program(json.dumps({"variants": [variant]}))
        text = self.fill("onchip: build/sim/bin/ch01_x")
        self.assertIn("| mma | wgmma |", text)
        self.assertIn("| `mine` | 1,024 | 80 | 10 | 7 | 5 | 72 | 4,096 | 64 |", text)
        self.program(json.dumps({"variants": [{"name": "mine"}]}))
        self.refuse("onchip: build/sim/bin/ch01_x", "does not count")


class Learn(InATree):
    def test_what_it_refuses(self):
        self.refuse("learn: test", "must be learn: run [NN..]")
        self.refuse("learn: run 99", "99")


class Steps(InATree):
    def test_kernels_are_rows_with_the_speed_relative_to_a_peer(self):
        def timing(chapter, variant, seq, ms):
            shape = {"batch": 1, "heads": 2, "seq": seq, "head_dim": 64}
            shape |= {"plan": "p", "causal": False, "tflops": 100 / ms}
            return shape | {"chapter": chapter, "variant": variant, "median_ms": ms}

        timings = [
            timing("09_x", "mine", 8, 2.0),
            timing("09_x", "mine", 16, 0.5),
            timing(None, "cuDNN", 8, 1.0),
            timing(None, "cuDNN", 16, 4.0),
            timing("09_x", "mine", 8, 1.0) | {"head_dim": 128},
        ]
        data = {"device": "H", "timings": timings}
        self.write("docs/results/gpu.json", json.dumps(data))
        text = self.fill("results: gpu.json steps p 64 cuDNN")
        header = "| TFLOP/s (of cuDNN) | [1,2,8,64] | [1,2,16,64] | geometric mean |"
        self.assertIn(header, text)
        self.assertIn("| 09 `mine` | 50 (0.50) | 200 (8.00) | 2.00 |", text)
        self.assertIn("| cuDNN | 100 (1.00) | 25 (1.00) | 1.00 |", text)
        self.refuse("results: gpu.json steps p 128 cuDNN", "no timings of cuDNN")
        self.refuse("results: gpu.json steps q 64 cuDNN", "no timings of cuDNN")


class Planted(InATree):
    def test_reports_are_quoted(self):
        kept = {"one": {"report": ["===== a", "===== b", "===== c"]}}
        self.write("docs/results/mistakes_simulator.json", json.dumps(kept))
        text = self.fill("planted: one")
        self.assertEqual(text, "```text\n===== a\n===== b\n===== c\n```")
        text = self.fill("planted: one 2 to 3")
        self.assertEqual(text, "```text\n===== b\n===== c\n```")
        self.refuse("planted: one 2 to 4", "the report of one has 3 lines")
        self.refuse("planted: two", "has no two", "tools.docs.planted")
        self.refuse("planted: one, two", "must be NAME [FIRST to LAST]")

    def test_a_tree_without_reports(self):
        self.refuse("planted: one", "has no one")


class Race(InATree):
    """With a program that prints which barrier to skip, and for which variant."""

    def test_one_barrier_is_skipped(self):
        script = '#!/bin/sh\necho "===== $GPUSIM_SKIP_BARRIER $2"; echo other; exit 1\n'
        self.write("build/sim/bin/ch01_x", script, True)
        first, second = (
            KERNEL.splitlines().index(f"  __syncthreads();  // {which}") + 1 for which in ("first", "second")
        )
        text = self.fill("race: 01_x 2")
        self.assertEqual(text, f"```text\n===== 01_x/kernel.cuh:{second} all\n```")
        text = self.fill("race: 01_x 1 mine")
        self.assertEqual(text, f"```text\n===== 01_x/kernel.cuh:{first} mine\n```")

    def test_options_and_a_wait_of_a_cluster(self):
        script = '#!/bin/sh\necho "===== $GPUSIM_SKIP_BARRIER $1 $2 $3 $4 $5 $6"; exit 1\n'
        self.write("build/sim/bin/ch01_x", script, True)
        self.write("chapters/01_x/more.cuh", "a();\n  ptx::barrier_cluster_wait();\n")
        text = self.fill("race: 01_x/more.cuh 1 mine --rows 3 --cols 4")
        report = "===== 01_x/more.cuh:2 --variant mine --rows 3 --cols 4"
        self.assertEqual(text, f"```text\n{report}\n```")

    def test_what_it_refuses(self):
        self.refuse("race: 01_x 3", "01_x/kernel.cuh has 2 barriers", "no barrier 3")
        self.refuse("race: 01_x 0", "no barrier 0")
        self.refuse("race: 09_y 1", "no chapters/09_y/kernel.cuh")
        self.refuse("race: 01_x", "must be CHAPTER N [VARIANT [OPTIONS]]")
        self.write("build/sim/bin/ch01_x", "#!/bin/sh\necho '=====' \n", True)
        self.refuse("race: 01_x 1", "without barrier 1 reports nothing")


class Results(InATree):
    def setUp(self):
        super().setUp()
        timing = {"chapter": "01_x", "variant": "mine", "rows": 4, "cols": 8}
        timing |= {"gb_per_s": 1500.4, "share_of_copy": 0.5}
        peer = {"chapter": None, "variant": "theirs", "rows": 4, "cols": 8, "gb_per_s": 1200}
        other = timing | {"chapter": "02_z", "variant": "late"}
        run = {"chapter": "01_x", "variant": "mine", "rows": 4, "cols": 8}
        run |= {"read_sectors": 4000, "write_sectors": 20}
        run["measured"] = {"read_sectors": 4001, "write_sectors": 20}
        run["measured"] |= {"dram_read_bytes": 256, "dram_write_bytes": 64}
        data = {"device": "H", "timings": [timing, peer, other], "sectors": [run]}
        self.write("docs/results/gpu.json", json.dumps(data))

    def test_speed(self):
        text = self.fill("results: gpu.json speed")
        self.assertIn("| GB/s (of copy) | 4 x 8 |", text)
        self.assertIn("| 01 `mine` | 1500 (50%) |\n| 02 `late` | 1500 (50%) |\n", text)
        self.assertIn("| `theirs` | 1200 (40%) |\n| copy | 3001 |", text)

    def test_speed_of_a_chapter(self):
        text = self.fill("results: gpu.json speed 01_x")
        self.assertIn("| `mine` | 1500 (50%) |\n| `theirs` |", text)
        self.assertNotIn("late", text)

    def test_sectors(self):
        text = self.fill("results: gpu.json sectors 01_x 4x8")
        self.assertIn("| `mine` | 4,000 | 4,001 | 20 | 20 | 2.00 | 0.50 |", text)

    def test_what_is_not_measured_yet_is_said(self):
        text = self.fill("results: later.json speed")
        self.assertEqual(
            text, "*This has not been measured yet: the results will be in `docs/results/later.json`.*"
        )

    def test_what_it_refuses(self):
        self.refuse("results: gpu.json sectors 01_x 5x8", "no sectors of 01_x at 5x8")
        self.refuse("results: gpu.json colour", "must be FILE and one of speed")
        self.refuse("results: gpu.json speed 09_y", "no timings of 09_y")
        self.write("docs/results/gpu.json", "[]")
        self.refuse("results: gpu.json speed", "docs/results/gpu.json has a different format")


class AttentionResults(InATree):
    def setUp(self):
        super().setUp()
        shape = {"batch": 1, "heads": 2, "seq": 8, "head_dim": 64, "causal": False}
        mine = shape | {"plan": "p", "chapter": "05_x", "variant": "mine"}
        mine |= {"median_ms": 2.0, "tflops": 30.04}
        theirs = mine | {"chapter": None, "variant": "theirs", "median_ms": 3.0}
        late = mine | {"causal": True, "median_ms": 0.12345}
        run = {"chapter": "05_x", "variant": "mine", "heads": 2, "causal": True}
        run |= {"read_sectors": 4000, "write_sectors": 20, "mma": 0}
        run |= {"shared_load_wavefronts": 7, "shared_store_wavefronts": 3}
        run["measured"] = run | {"read_sectors": 4001}
        data = {"device": "H", "timings": [mine, theirs, late], "sectors": [run]}
        self.write("docs/results/gpu.json", json.dumps(data))

    def test_speed_beside_the_first_peer(self):
        text = self.fill("results: gpu.json tflops p")
        self.assertIn("H:\n\n| TFLOP/s (of theirs) | 05 `mine` | theirs |\n", text)
        self.assertIn("| [1,2,8,64] | 30.0 (1.50) | 30.0 |\n", text)
        self.assertIn("| [1,2,8,64] causal | 30.0 | - |", text)

    def test_times(self):
        text = self.fill("results: gpu.json ms p")
        self.assertIn("| [1,2,8,64] causal | 0.123 | - |", text)

    def test_choices(self):
        run = {"head_dim": 64, "seq": 8, "causal": True}
        run["relative_speed"] = {"final": 1.0, "bc_64": 0.975}
        other = run | {"causal": False, "relative_speed": {"final": 1.0}}
        self.write("docs/results/c.json", json.dumps({"device": "H", "runs": [run, other]}))
        text = self.fill("results: c.json choices")
        self.assertIn("| relative speed | $d$ = 64, 8 causal | $d$ = 64, 8 |", text)
        self.assertIn("| bc 64 | 0.97 | - |", text)

    def test_counters(self):
        text = self.fill("results: gpu.json counters 05_x 1")
        self.assertIn("H, `--heads 2 --causal`:", text)
        self.assertIn("| `mine` | 4,000 | 4,001 | 20 | 20 | 10 | 10 |", text)

    def test_copies(self):
        run = {"chapter": "09_y", "variant": "mine", "heads": 2, "mma": 0}
        run |= {"landed_sectors": 4000, "l2_read_sectors": 3500, "wgmma": 8}
        run |= {"l2_write_sectors": 20, "l2_atomic_sectors": 4}
        run["measured"] = run | {"l2_read_sectors": 2800}
        self.write("docs/results/c.json", json.dumps({"device": "H", "sectors": [run]}))
        text = self.fill("results: c.json copies 09_y 1")
        self.assertIn("H, `--heads 2`:", text)
        self.assertIn("| `mine` | 4,000 | 4,000 | 20 | 20 | 4 | 4 | 8 | 8 |", text)
        self.refuse("results: c.json copies 09_y 2", "no problem 2 of 09_y")
        text = self.fill("results: c.json agreement")
        shown = "| 4,000 = | 3,500 / 2,800 (-20.0%) | 20 = | 4 = | 8 = | - | - | - | - |"
        self.assertIn(f"| 09 `mine` {shown}", text)

    def test_what_it_refuses(self):
        self.refuse("results: gpu.json tflops q", "no timings of a chapter in the plan q")
        self.refuse("results: gpu.json ms p 09_y", "no timings of 09_y in the plan p")
        self.refuse("results: gpu.json counters 05_x 2", "no problem 2 of 05_x")
        self.refuse("results: gpu.json counters 09_y 1", "no problem 1 of 09_y")


class Summaries(InATree):
    def setUp(self):
        super().setUp()
        shape = {"dtype": "bf16", "batch": 1, "heads": 2, "head_dim": 64}
        shape |= {"causal": False, "backward": False, "plan": "d64"}
        ours = shape | {"chapter": "07_x", "variant": "final", "seq": 8}
        peer = shape | {"chapter": None, "variant": "FA2", "seq": 8, "median_ms": 4.0}
        timings = [ours | {"median_ms": 2.0}, peer]
        timings += [ours | {"seq": 16, "median_ms": 8.0}, peer | {"seq": 16}]
        run = {"chapter": "07_x", "variant": "final", "read_sectors": 100}
        run |= {"mma": 7, "bank_conflicts": 4}
        run["measured"] = {"read_sectors": 99, "mma": 7, "bank_conflicts": 3}
        data = {"device": "H", "timings": timings, "sectors": [run, run]}
        self.write("docs/results/gpu.json", json.dumps(data))

    def test_geometric_mean_and_worst_beside_a_peer(self):
        text = self.fill("results: gpu.json standing")
        self.assertIn("| 07 `final`, $d$ = 64 | FA2 | 1.00 | 0.50 at [1,2,16,64] | 2 |", text)

    def test_each_variant_beside_the_one_that_it_changes(self):
        data = self.read_results()
        one = data["timings"][0] | {"plan": "p", "chapter": "09_y", "variant": "one", "tflops": 2.0}
        timings = [one, one | {"seq": 16, "tflops": 8.0}, one | {"variant": "two", "tflops": 6.0}]
        self.write("docs/results/gpu.json", json.dumps({"device": "H", "timings": timings}))
        text = self.fill("results: gpu.json gains p 09_y 07/final")
        self.assertIn("| TFLOP/s | what it changes | $d$ = 64: before | after | gain |", text)
        self.assertIn("| 09 `one` | 07 `final` | - | 4 | - |\n| 09 `two` | 09 `one` | 4 | 6 | 1.50 |", text)
        timings.append(one | {"chapter": "07_x", "variant": "final", "tflops": 1.0})
        self.write("docs/results/gpu.json", json.dumps({"device": "H", "timings": timings}))
        self.assertIn("| 07 `final` | 1 | 4 | 4.00 |", self.fill("results: gpu.json gains p 09_y 07/final"))
        self.refuse("results: gpu.json gains q 09_y 07/final", "no timings of 09_y in the plan q")
        more = [timing | {"plan": "q", "head_dim": 128} for timing in timings]
        self.write("docs/results/gpu.json", json.dumps({"device": "H", "timings": timings + more}))
        text = self.fill("results: gpu.json gains p+q 09_y 07/final")
        self.assertIn("| 09 `two` | 09 `one` | 4 | 6 | 1.50 | 4 | 6 | 1.50 |", text)

    def test_variants_beside_those_that_they_change_in_another_order_and_from_two_plans(self):
        one = self.read_results()["timings"][0] | {
            "plan": "p",
            "chapter": "09_y",
            "variant": "one",
            "tflops": 2.0,
        }
        timings = [one, one | {"variant": "two", "tflops": 6.0}]
        timings += [timing | {"plan": "q", "head_dim": 128} for timing in timings]
        self.write("docs/results/gpu.json", json.dumps({"device": "H", "timings": timings}))
        text = self.fill("results: gpu.json gains p+q 09_y 08/x two,one")
        self.assertIn("| 09 `two` | 08 `x` | - | 6 | - | - | 6 | - |\n", text)
        self.assertIn("| 09 `one` | 09 `two` | 6 | 2 | 0.33 | 6 | 2 | 0.33 |", text)
        self.refuse("results: gpu.json gains p 09_y 08/x one,three", "no timings of 09 `three`")

    def test_a_mean_over_head_dimensions(self):
        data = self.read_results()
        for name, ms in (("final", 1.0), ("FA2", 8.0)):
            timing = next(t for t in data["timings"] if t["variant"] == name)
            data["timings"].append(timing | {"head_dim": 128, "seq": 8, "median_ms": ms})
        for timing in data["timings"]:
            timing["variant"] = timing["variant"].replace("FA2", "cuDNN")
        self.write("docs/results/gpu.json", json.dumps(data))
        text = self.fill("results: gpu.json overall 07_x final cuDNN")
        self.assertIn("| $d$ = 64 | 2 | 1.000 |\n| $d$ = 128 | 1 | 8.000 |\n| together | 3 | 2.000 |", text)
        self.refuse("results: gpu.json overall 07_x gone cuDNN", "no timings of both gone and cuDNN")

    def test_sustained_runs_have_tables_of_their_own(self):
        self.refuse("results: gpu.json standing sustained", "no sustained runs")
        data = self.read_results()
        rows = [
            {k: v for k, v in row.items() if k != "median_ms"} | {"mean_ms": ms, "tflops": 1 / ms}
            for row, ms in zip(data["timings"][:2], (1.0, 4.0), strict=True)
        ]
        self.write("docs/results/gpu.json", json.dumps(data | {"sustained": rows}))
        text = self.fill("results: gpu.json standing sustained")
        self.assertIn("| FA2 | 4.00 | 4.00 at [1,2,8,64] | 1 |", text)
        for words in ("d64 sustained", "d64 07_x sustained"):
            text = self.fill(f"results: gpu.json tflops {words}")
            self.assertIn("| 07 `final` | 1.0 (4.00) |", text)
        self.refuse("results: gpu.json tflops d64 08_y sustained", "no timings of 08_y")

    def test_both_passes(self):
        text = self.read_results()
        back = [t | {"backward": True, "plan": "b"} for t in text["timings"][:2]]
        back = [t | {"median_ms": 3 * t["median_ms"]} for t in back]
        back[0]["chapter"] = "08_x"
        text["timings"] += back
        newer = text["timings"][0] | {"chapter": "09_x", "median_ms": 0.1}
        text["timings"].append(newer)  # `final` is chapter 07's
        self.write("docs/results/gpu.json", json.dumps(text))
        text = self.fill("results: gpu.json passes 07/final 08/final FA2")
        self.assertIn("| [1,2,8,64] | 2.000 + 6.000 | 4.000 + 12.000 | 2.00 |", text)
        self.assertIn("| 07 `final`, 08 `final` | FA2 | speed |", text)
        words = "results: gpu.json passes 07/final 08/final"
        self.refuse(f"{words} else", "both passes of else")
        self.refuse(f"{words} FA2 sustained", "no sustained runs")

    def test_each_chapter_by_the_first_file_that_timed_its_kernel(self):
        timings = [[], []]
        for number, (folder, _, _, (variant, peer)) in enumerate(measured.CHAPTERS):
            problem = {"head_dim": 64, "causal": False, "seq": 8}
            problem |= {"batch": 1, "heads": 1}
            problem["dtype"] = "bf16" if peer == "flash (FA2)" else "fp32"
            if peer == "torch.softmax":
                problem = {"rows": 4, "cols": 8}
            ours = problem | {"chapter": folder, "variant": variant, "median_ms": 2.0}
            theirs = problem | {"chapter": None, "variant": peer, "median_ms": 3.0}
            if folder in measured.MAY_LACK_TIMES:
                continue
            timings[number == 3] += [ours, theirs]
            timings[1] += [ours, theirs | {"median_ms": 8.0}]
        for name, of_file in zip("ab", timings, strict=True):
            data = {"device": "H", "timings": of_file}
            self.write(f"docs/results/{name}.json", json.dumps(data))
        for folder, *_ in measured.CHAPTERS:
            self.write(f"chapters/01_x/chapters/{folder}/README.md", "")
        text = self.fill("results: a.json+b.json chapters")
        self.assertIn("| `on_chip` | 1.50 x torch.softmax |", text)
        self.assertIn("| `bc_max` | 4.00 x PyTorch |", text)
        self.assertIn("| `final` | 1.50 x FA2 |", text)
        self.assertIn("alternate | `final` | - |", text)  # not timed yet
        hopper = {"dtype": "bf16", "chapter": "09_hopper", "variant": "final"}
        hopper |= {"head_dim": 64, "causal": False, "seq": 8, "batch": 1, "heads": 1}
        cudnn = hopper | {"chapter": None, "variant": "cuDNN", "median_ms": 2.1}
        of_file = [hopper | {"median_ms": 2.0}, cudnn]
        data = {"device": "H", "timings": of_file}
        self.write("docs/results/h.json", json.dumps(data))
        text = self.fill("results: a.json+b.json+h.json chapters")
        self.assertIn("| `final` | 1.05 x cuDNN |", text)
        self.refuse("results: a.json chapters", "no timings of both bc_max and memory-efficient")

    def read_results(self) -> dict:
        path = self.root / "docs" / "results" / "gpu.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def test_agreement_is_of_sums(self):
        text = self.fill("results: gpu.json agreement")
        self.assertIn("| 07 `final` | 200 / 198 (-1.0%) | - | - | - | - | 8 / 6 (-25.0%) | 14 = |", text)

    def test_scaling(self):
        row = {"kernel": "k", "head_dim": 64, "seq": 512, "fits": True}
        row |= {"median_ms": 0.0125, "bytes": 2**20}
        fit = {"kernel": "k", "head_dim": 64, "time": 2.0, "memory": 1.0}
        rows = [row, {"kernel": "k", "head_dim": 64, "seq": 1024, "fits": False}]
        data = {"device": "H", "rows": rows, "fits": [fit]}
        self.write("docs/results/s.json", json.dumps(data))
        text = self.fill("results: s.json scaling")
        self.assertIn("| $d$ = 64, $N$ | k, ms | MiB |\n", text)
        self.assertIn("| 512 | 0.0125 | 1.0 |\n", text)
        self.assertIn("| 1,024 | does not fit | does not fit |\n", text)
        self.assertIn("| exponent | 2.00 | 1.00 |", text)
        rows.append(row | {"head_dim": 128, "kernel": "other"})
        data |= {"rows": rows, "fits": [fit, fit | {"head_dim": 128, "kernel": "other"}]}
        self.write("docs/results/s.json", json.dumps(data))
        text = self.fill("results: s.json scaling")
        self.assertIn("\n\n| $d$ = 128, $N$ | other, ms | MiB |\n", text)

    def test_profile(self):
        seen = {"landed_sectors": 100, "l2_write_sectors": 10, "time_ns": 1234567}
        seen |= {"dram_read_bytes": 2.5e6, "tensor_active_percent": 88.88}
        variant = {"name": "mine", "predicted_bytes": 3528, "measured": seen}
        data = {"device": "H", "options": ["--heads", "2"], "variants": [variant]}
        self.write("docs/results/s.json", json.dumps(data))
        text = self.fill("results: s.json profile")
        self.assertIn("H, `--heads 2`:", text)
        self.assertIn("| `mine` | 3,528 | 3,520 | 2.5 | 88.9 % | 1,235 |", text)

    def test_hazards(self):
        errors = {"memcheck": 0, "racecheck": 1234}
        kernel = {"kernel": "a", "right": False, "what": "reads `x` early"}
        late = kernel | {"right": True, "errors": errors | {"memcheck": None}}
        data = {"device": "H", "hazards": [kernel | {"errors": errors}, late]}
        self.write("docs/results/s.json", json.dumps(data))
        text = self.fill("results: s.json hazards")
        self.assertIn("| Reads `x` early | **wrong** | 0 | 1,234 |\n", text)
        self.assertIn("| Reads `x` early | right | did not end | 1,234 |", text)

    def test_sanitizer(self):
        runs = [
            {"program": program, "tool": tool, "errors": errors, unit: 12}
            for program, unit in (("soak_ch05_x", "problems"), ("test_ch07_y", "tests"))
            for tool, errors in (("memcheck", 0), ("racecheck", None))
        ]
        runs[0]["errors"] = 3
        data = {"device": "H", "runs": runs}
        self.write("docs/results/s.json", json.dumps(data))
        text = self.fill("results: s.json sanitizer")
        self.assertIn("| 07 | 12 tests | 0 | did not end |\n", text)
        self.assertTrue(text.endswith("| 05 | 12 problems | 3 | did not end |"), text)


WATCH = """\
options = "--rows 3"

[[view]]
title = "A *first* wait"
variant = "mine"
on = "wait"
show = "timeline"
see = "It waits at `twice_x()` for x_1."
"""


class Views(InATree):
    def test_of_a_chapter(self):
        self.write("docs/pages/watching.md", "# Watching\n")
        self.write("chapters/01_x/watch.toml", WATCH)
        text = self.fill("views: 01")
        self.assertIn("([how to read them](../../docs/pages/watching.md))", text)
        self.assertIn("`./learn watch 01 --exercise` your own kernels.\n\n", text)
        self.assertIn(
            "\n- [A \\*first\\* wait](../../docs/pages/watching.md#view-01_1): It waits at "
            "`twice_x()` for x\\_1.\n  `./learn watch 01 --view 1`",
            text,
        )

    def test_of_all_chapters(self):
        self.write("chapters/01_x/watch.toml", WATCH)
        text = self.fill("views: all")
        self.assertTrue(text.startswith("### 01 Title\n\n"), text)
        self.assertIn('- <a id="view-01_1"></a>[A \\*first\\* wait](#view-01_1): ', text)

    def test_what_it_refuses(self):
        self.refuse("views: 01", "there is no chapter 01 with a watch.toml")
        self.refuse("views: 1", "there is no chapter 1 with a watch.toml")
        self.write("chapters/01_x/watch.toml", WATCH.replace("show", "shows"))
        self.refuse("views: 01", "watch.toml: view 1: `shows` is unknown")
        self.refuse("views: all", "watch.toml: view 1: `shows` is unknown")


class Drawings(InATree):
    def test_the_file_is_written_and_checked(self):
        text = self.fill('drawing: on_chip "A row."')
        self.assertEqual(text, "![A row.](on_chip.svg)")
        path = self.lesson.parent / "on_chip.svg"
        self.assertEqual(path.read_text(), drawings.on_chip())
        path.write_text("<svg/>")
        self.assertEqual(self.run_main("--check")[0], 1)
        self.assertEqual(path.read_text(), "<svg/>")

    def test_what_it_refuses(self):
        self.refuse('drawing: horse "A horse."', "does not draw horse", "on_chip")
        self.refuse("drawing: on_chip", "must be NAME")

    def test_a_warp_needs_the_sectors_of_the_lesson(self):
        self.assertIn("the rows of warp 0: 32 sectors", drawings.mappings())
        self.assertEqual(drawings.mappings().count("A warp: 4 sectors"), 2)

    def test_the_lanes_of_the_butterfly_have_what_the_drawing_says(self):
        values, used = [3, 1, 4, 1, 5, 9, 2, 6], 0
        for mask, now in drawings.butterfly_steps(values):
            used |= mask
            for lane, value in enumerate(now):
                group = [v for i, v in enumerate(values) if i & ~used == lane & ~used]
                self.assertEqual(value, max(group), (mask, lane))
        self.assertEqual(used, 7)
        self.assertEqual(set(now), {9})

    def test_rows_of_seven_columns_begin_at_every_place_of_sixteen_bytes(self):
        drawing = drawings.lead()
        for lead in range(4):
            self.assertEqual(drawing.count(f">lead = {lead}<"), 1)

    def test_a_causal_mask_is_aligned_to_the_last_key(self):
        for seq_q, seq_k in ((4, 4), (3, 6), (6, 4)):
            for query in range(seq_q):
                seen = [j for j in range(seq_k) if j <= query + seq_k - seq_q]
                self.assertEqual(drawings.keys_seen(query, seq_q, seq_k), len(seen))
        drawing = drawings.causal()
        self.assertEqual(drawing.count("sees none"), 2)
        seen_pairs = 10 + 15 + 10  # the legend is one more box
        self.assertEqual(drawing.count(f'fill="{drawings.WARPS[2]}"'), seen_pairs + 1)

    def test_lanes_own_the_blocks_that_the_kernel_gives_them(self):
        kernel = (ROOT / "chapters/05_loop_swapped_v2/outer_products.cuh").read_text()
        for line in (
            "row_lane = lane / 2 % Tile::kRowLanes;",
            "col_lane = lane % 2 + lane / (2 * Tile::kRowLanes) * 2;",
            "return 4 * (lane + i / 4 * kLanes) + i % 4;",
        ):
            self.assertIn(line, kernel)
        of = {lane: drawings.rows_and_keys(lane) for lane in range(32)}
        for lane, (rows, keys) in of.items():
            row_lane, col_lane = lane // 2 % 4, lane % 2 + lane // 8 * 2
            self.assertEqual(drawings.lane_at(row_lane, col_lane), lane)
            self.assertEqual(rows, [4 * (row_lane + i // 4 * 4) + i % 4 for i in range(8)])
            self.assertEqual(keys, [4 * (col_lane + i // 4 * 8) + i % 4 for i in range(8)])
            self.assertEqual(of[lane ^ 1][0], rows)
            self.assertEqual(of[lane ^ 2][1], keys)

    def test_the_pipeline_is_that_of_the_kernel(self):
        kernel = (ROOT / "chapters/07_multi_stage/kernel.cuh").read_text()
        self.assertIn("cp_async_wait<kStages - 2>();", kernel)
        self.assertIn("free = (stage + kStages - 1) % kStages", kernel)
        for stages in (1, 2, 3, 4):
            for tiles in (1, 2, 5, 9):
                for latency in (0.5, 1.5, 4.0):
                    self.check_flights(drawings.staged(stages, tiles, latency), stages)

    def check_flights(self, flights, stages):
        """Nothing is used before it has landed, nor overwritten before it has been used."""
        landed = {name: (place, end) for name, place, _, end in flights.copies}
        used = {name: end for name, _, _, end in flights.work}
        for name, place, begin, _ in flights.work:
            self.assertEqual(landed[name][0], place)
            self.assertLessEqual(landed[name][1], begin)
        for name, place, begin, _ in flights.copies:
            for other, (other_place, _) in landed.items():
                if other_place == place and int(other) < int(name):
                    self.assertLessEqual(used[other], begin)
        for _, pending, unfinished in flights.waits:
            self.assertEqual(pending, max(stages - 2, 0))
            self.assertLessEqual(unfinished, pending)

    def test_the_ring_is_that_of_the_kernel(self):
        for stages in (2, 3, 4):
            for tiles in (1, 2, 5, 9):
                found = drawings.rounds(stages, tiles)
                self.assertEqual([now.tile for now in found], list(range(tiles)))
                self.check_rounds(found, stages, tiles)

    def check_rounds(self, found, stages, tiles):
        """Each wait covers the round's own tile and no other; a copy never goes where a tile is still to be
        used.
        """
        flights = drawings.staged(stages, tiles, 1.5)
        stage_of = {int(name): int(stage) for name, stage, _, _ in flights.copies}
        for now in found:
            waited_for = now.groups[: len(now.groups) - now.pending]
            self.assertEqual(now.pending, stages - 2)
            self.assertEqual(waited_for[-1], str(now.tile))
            self.assertEqual(now.held[stage_of[now.tile]], now.tile)
            held = [tile for tile in now.held if tile is not None]
            last = min(now.tile + stages, tiles)
            self.assertEqual(sorted(held), list(range(now.tile, last)))
            if now.starts is not None:
                self.assertEqual(now.held[stage_of[now.starts]], now.starts)

    def test_split_kv_uses_what_has_landed(self):
        flights = drawings.split(6, 1.0)
        landed = {name: end for name, _, _, end in flights.copies}
        for name, _, begin, _ in flights.work:
            self.assertLessEqual(landed[name], begin)


class Files(InATree):
    def test_marks_that_are_wrong(self):
        for text, word in (
            ("<!-- code: kernel.cuh twice -->\n", "has no <!-- end -->"),
            ("<!-- code: a b -->\n<!-- code: a b -->\n<!-- end -->\n", "has no"),
            ("<!-- picture: a -->\n<!-- end -->\n", "no block picture: must be one of"),
        ):
            self.lesson.write_text(text)
            status, _, err = self.run_main("--check")
            self.assertEqual(status, 2)
            self.assertTrue(err.startswith("chapters/01_x/README.md:1: "), err)
            self.assertIn(word, err)

    def test_marks_in_fenced_code_are_text(self):
        text = "```\n<!-- code: a b -->\n```\n\n<!-- a remark -->\n"
        self.lesson.write_text(text)
        self.assertEqual(self.run_main(), (0, "", ""))
        self.assertEqual(self.lesson.read_text(), text)

    def test_what_stands_around_blocks_is_kept(self):
        block = "<!-- code: kernel.cuh kThreads -->\nold\n<!-- end -->"
        self.lesson.write_text(f"one\n\n{block}\n\ntwo\n\n{block}\nthree\n")
        self.assertEqual(self.run_main()[0], 0)
        text = self.lesson.read_text()
        self.assertTrue(text.startswith("one\n\n<!--") and text.endswith("-->\nthree\n"))
        self.assertEqual(text.count("constexpr int kThreads"), 2)
        self.assertNotIn("old", text)

    def test_links_to_nowhere(self):
        self.write("data/README.md", "text")
        self.lesson.write_text(
            "[a](../../data/README.md#part) [b](https://example.org/x) [c](#here)\n"
            "`[d](gone.md)` ![e](gone.svg)\n\n```\n[f](gone.md)\n```\n"
            '<img src="gone.png"> [g](../02_y/README.md "title")\n'
        )
        status, _, err = self.run_main("--check")
        self.assertEqual(status, 1)
        self.assertEqual(
            err.splitlines(),
            [
                "chapters/01_x/README.md:2: there is no gone.svg",
                "chapters/01_x/README.md:7: there is no gone.png",
                "chapters/01_x/README.md:7: there is no ../02_y/README.md",
            ],
        )

    def test_files_of_the_build_are_not_read(self):
        self.write("build/sim/README.md", "[a](gone.md)")
        self.write(".git/README.md", "[a](gone.md)")
        self.assertEqual(self.run_main("--check"), (0, "", ""))

    def test_a_file_that_is_not_there(self):
        status, _, err = self.run_main("gone.md")
        self.assertEqual(status, 2)
        self.assertIn("there is no file", err)


if __name__ == "__main__":
    unittest.main()
