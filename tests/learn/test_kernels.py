"""Tests of what may be replaced in a source without its other code: tools/learn/kernels.py. Needs g++,
binutils.
"""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from tools.learn import exercises, kernels, project

FILE = """\
#include <cstdio>
// A comment.
template <class T>
__device__ __forceinline__ T twice(T x) { return {2 * x}; }
__host__ __device__ int rows() { return 1; }
__device__ constexpr int cols() { return 2; }
__device__ auto any() { return 3; }
__device__ int table[] = {4};
struct Tile {
  static constexpr int kRows = 5;
  __device__ int at(char c) const { return c == '}' ? 6 : 7; }
};
__global__ void kernel(float* y) {
  for (int i = 0; i < 8; ++i) { y[i] = 9; }  // }
#define TEN 10
}
int on_cpu() { return 11; }
"""


def same(text: str, other: str) -> bool:
    return kernels.without_bodies(text) == kernels.without_bodies(other)


class WithoutBodiesTest(unittest.TestCase):
    def test_bodies_that_only_a_gpu_executes_do_not_matter(self):
        for old, new in (
            ("2 * x", "x + x"),
            ("? 6 : 7", "? 0 : '{'"),
            ("y[i] = 9", 'if (y) { printf("}"); }'),
            ("// A comment.", "/* another { */"),
            ("  for", "\n  for"),
        ):
            with self.subTest(new):
                self.assertIn(old, FILE)
                self.assertTrue(same(FILE, FILE.replace(old, new)))

    def test_all_else_does(self):
        for old, new in (
            ("cstdio", "cmath"),
            ("return 1;", "return 0;"),
            ("return 2;", "return 0;"),
            ("return 3;", "return 0;"),
            ("{4}", "{4, 4}"),
            ("kRows = 5", "kRows = 0"),
            ("TEN 10", "TEN 0"),
            ("return 11;", "return 0;"),
            ("float* y", "double* y"),
            ("void kernel", "void other"),
            ("y[i] = 9;", "} y[0] = 9;"),  # ends the kernel
            ("y[i] = 9; }", "y[i] = 9;"),  # does not end it
        ):
            with self.subTest(new):
                self.assertIn(old, FILE)
                self.assertFalse(same(FILE, FILE.replace(old, new)))

    def test_most_answers_change_nothing_else(self):
        wrong = alike = 0
        for exercise in map(exercises.Exercise, project.chapters()):
            solved = {r.number: r.solution for r in exercise.regions}
            right = exercise.copy_with(solved)
            for mutant in exercise.mutants() if exercise.exists else []:
                own = exercise.copy_with(solved | {mutant.exercise: mutant.solution})
                wrong += 1
                alike += all(same(right[name], own[name]) for name in right)
        self.assertGreater(alike, 0.8 * wrong)


SOURCE = """\
#include "kernel.cuh"
int main() { return call(&fa::kernel<3>) + call(&fa::plain); }
"""
KERNEL = """\
#define __global__ __attribute__((abi_tag("kernel")))
namespace fa {
template <int n>
__global__ void kernel(int* to) { *to = n; }
__global__ void plain(int* to) { *to = 4; }
}
inline int call(void (*f)(int*)) { int result = 0; f(&result); return result; }
"""


class AroundTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-kernels-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, name: str, source: str, kernel: str) -> Path:
        (self.folder / "kernel.cuh").write_text(kernel)
        path = self.folder / f"{name}.cpp"
        path.write_text(source)
        compiled = path.with_suffix(".o")
        subprocess.run(["g++", "-std=c++20", "-c", path, "-o", compiled], check=True)
        return compiled

    def status(self, *objects: Path) -> int:
        program = self.folder / "program"
        subprocess.run(["g++", *objects, "-o", program], check=True)
        return subprocess.run([program], check=False).returncode

    def around(self, source: str) -> kernels.Around | None:
        whole = self.compile("whole", source, KERNEL)
        return kernels.around(source, whole, self.folder / "around.o")

    def test_kernels_of_another_version(self):
        around = self.around(SOURCE)
        changed = KERNEL.replace("= n;", "= 10 * n;").replace("= 4;", "= 5;")
        only = self.compile("only", around.source, changed)
        self.assertTrue(around.are_in(only))
        self.assertEqual(self.status(only, around.object), 35)

    def test_a_kernel_that_is_missing_is_noticed(self):
        around = self.around(SOURCE)
        lacks = self.compile("lacks", '#include "kernel.cuh"\n', KERNEL)
        self.assertFalse(around.are_in(lacks))

    def test_sources_that_are_always_compiled_as_a_whole(self):
        self.assertIsNone(self.around(f"#define ONE 1\n{SOURCE}"))
        local = KERNEL.replace("__global__ void plain", "static __global__ void plain")
        whole = self.compile("whole", SOURCE, local)
        self.assertIsNone(kernels.around(SOURCE, whole, self.folder / "x.o"))
        lambda_type = SOURCE.replace("int main", "auto f = [] {};\nint main")
        other = KERNEL.replace("int n", "class F, int n")
        lambda_type = lambda_type.replace("kernel<3>", "kernel<decltype(f), 3>")
        whole = self.compile("whole", lambda_type, other)
        self.assertIsNone(kernels.around(lambda_type, whole, self.folder / "x.o"))


if __name__ == "__main__":
    unittest.main()
