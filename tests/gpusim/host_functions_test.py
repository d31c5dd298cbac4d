"""Kernels that call what only the CPU has are refused, with the line of the call; all others compile.

host_functions_test.py CHECK COMPILER OPTION...

CHECK is the program that compiles sources with kernels, OPTION the options for these sources. What nvcc
refuses here was tried with nvcc 13.
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GPUSIM = Path(__file__).resolve().parents[2] / "common" / "gpusim"

INCLUDES = """\
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
"""
ONLY_THE_CPU = "() | it runs on the CPU only: "  # the last line of an error


class HostFunctions(unittest.TestCase):
    command: list[str]
    includes: Path

    @classmethod
    def setUpClass(cls) -> None:
        """Compiles INCLUDES once. For other options than the command's, the compiler reads the headers
        themselves.
        """
        folder = tempfile.TemporaryDirectory(prefix="gpusim-host-")
        cls.addClassCleanup(folder.cleanup)
        cls.includes = Path(folder.name) / "includes.hpp"
        cls.includes.write_text(INCLUDES, encoding="utf-8")
        _, *words = (word for word in cls.command if word != "--names")
        words += [*cls.headers(), "-x", "c++-header", str(cls.includes)]
        subprocess.run([*words, "-o", f"{cls.includes}.gch"], check=True)

    @staticmethod
    def headers() -> list[str]:
        return ["-std=c++20", f"-I{GPUSIM.parent}", "-isystem", str(GPUSIM / "shim")]

    def compile(self, source: str, *options: str, includes: bool = True) -> subprocess.CompletedProcess:
        """Compiles a source file with the name kernel.cu, whose first line is number 1."""
        with tempfile.TemporaryDirectory(prefix="gpusim-host-") as name:
            path = Path(name) / "kernel.cu"
            path.write_text(source, encoding="utf-8")
            before = ["-include", str(self.includes)] if includes else []
            words = [*self.command, *before, *self.headers()]
            words += [*options, "-x", "c++", "-c", str(path)]
            words += ["-o", str(path.with_suffix(".o"))]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            done.stderr = done.stderr.replace(f"{name}/", "")
            self.assertEqual(done.returncode != 0, bool(done.stderr), done.stderr)
            left = {file.name for file in Path(name).iterdir()}
        objects = set() if done.stderr else {"kernel.o"}
        self.assertEqual(left, {"kernel.cu"} | objects)
        return done

    def errors_of(self, source: str, *options: str) -> list[str]:
        """The errors, "first line | last line" each, without the source line; [] if the source is
        accepted.
        """
        lines = self.compile(source, *options).stderr.splitlines()
        errors: list[str] = []
        for line in lines:
            if line.startswith("      | "):
                errors[-1] += line[5:]
            elif not re.match(r" +\d+ \| ", line):
                errors.append(line)
        return sorted(errors)

    def errors_in_kernel(self, statement: str, before: str = "") -> list[str]:
        return self.errors_of(f"{before}__global__ void kernel(float* x, int n) {{\n{statement}\n}}\n")

    def test_functions_of_the_cpp_library(self) -> None:
        says = "kernel.cu:2: error: a kernel cannot call std::{}" + ONLY_THE_CPU
        other = "a kernel can call CUDA's functions, and those with __device__"
        for statement, *messages in (
            ("x[0] = std::max(x[1], x[2]);", "max", "use max() or fmaxf()"),
            ("x[0] = std::min(x[1], x[2]);", "min", "use min() or fminf()"),
            ("std::swap(x[0], x[1]);", "swap", other),
            ("std::array<float, 4> a{}; x[0] = a[n];", "array::operator[]", other),
            ("std::fill(x, x + n, 0.0f);", "fill", other),
            ("x[0] = std::accumulate(x, x + n, 0.0f);", "accumulate", other),
        ):
            with self.subTest(statement):
                name, advice = messages
                self.assertEqual(self.errors_in_kernel(statement), [says.format(name) + advice])

    def test_the_format_is_that_of_the_compiler(self) -> None:
        done = self.compile("__global__ void kernel(float* x) {\n  x[0] = std::max(x[1], x[2]);\n}\n")
        self.assertEqual(
            done.stderr,
            "kernel.cu:2: error: a kernel cannot call std::max()\n"
            "    2 |   x[0] = std::max(x[1], x[2]);\n"
            "      | it runs on the CPU only: use max() or fmaxf()\n",
        )

    def test_programs_for_a_debugger_are_not_checked(self) -> None:
        # There, __popc() calls std::popcount(), which is inlined everywhere else.
        kernel = "__global__ void kernel(int* x) { x[0] = __popc(x[1]); }\n"
        for options in ((), ("-O0",)):
            self.assertEqual(self.errors_of(kernel, *options), [])

    def test_classes_of_the_cpp_library(self) -> None:
        errors = self.errors_in_kernel("std::vector<float> v(n); x[0] = v[n - 1];")
        says = "error: a kernel cannot call std::vector::{}" + ONLY_THE_CPU
        for line, name in ((2, "vector"), (2, "operator[]"), (3, "~vector")):
            start = f"kernel.cu:{line}: {says.format(name)}"
            self.assertTrue(any(e.startswith(start) for e in errors), errors)

    def test_memory_on_the_heap(self) -> None:
        advice = "use shared memory, or an array whose size is a constant"
        errors = self.errors_in_kernel(
            "float* p = static_cast<float*>(malloc(n)); p[n / 2] = 1; x[0] = p[0];"
        )
        says = f"kernel.cu:2: error: a kernel cannot call malloc{ONLY_THE_CPU}"
        self.assertEqual(errors, [says + advice])
        errors = self.errors_in_kernel("float* p = new float; x[0] = *p; delete p;")
        says = "kernel.cu:2: error: a kernel cannot call operator new"
        self.assertIn(says + ONLY_THE_CPU + advice, errors)

    def test_functions_without_device(self) -> None:
        helper = "inline float helper(float y) { return y + 1.0f; }\n"
        errors = self.errors_in_kernel("x[0] = helper(x[1]);", helper)
        says = "error: a kernel cannot call helper" + ONLY_THE_CPU
        advice = "declare it __device__ if a kernel may call it"
        self.assertEqual(errors, [f"kernel.cu:3: {says}{advice}"])
        # In a function that the compiler does not inline, and in a lambda.
        recursive = (
            helper
            + "__device__ float sum(float* x, int n) {\n"
            + "  return n > 0 ? x[n] + sum(x, n - 1) : helper(x[0]);\n}\n"
        )
        errors = self.errors_in_kernel("x[0] = sum(x, n);", recursive)
        self.assertEqual(errors, [f"kernel.cu:3: {says}{advice}"])
        errors = self.errors_in_kernel(
            "const auto f = [&](int i) { return helper(x[i]); };\nx[0] = f(n);", helper
        )
        self.assertEqual(errors, [f"kernel.cu:3: {says}{advice}"])

    def test_templates_outside_of_namespaces(self) -> None:
        # g++ forgets their ABI tags, which say that they are functions of a GPU.
        templates = (
            "template <class T> __device__ T twice(T x) { return x + x; }\n"
            "template <class T> __device__ __noinline__ T sum(T* x, int n) {\n"
            "  return n > 0 ? x[n] + sum(x, n - 1) : twice(x[0]);\n}\n"
        )
        self.assertEqual(self.errors_in_kernel("x[0] = sum(x, n);", templates), [])
        kernel = (
            "template <class T> __global__ void kernel(T* x) {\n"
            "  x[0] = std::max(x[1], x[2]);\n}\n"
            "template __global__ void kernel<float>(float*);\n"
        )
        says = "kernel.cu:2: error: a kernel cannot call std::max" + ONLY_THE_CPU
        self.assertEqual(self.errors_of(kernel), [says + "use max() or fmaxf()"])

    def test_arrays_whose_size_is_no_constant(self) -> None:
        says = (
            "kernel.cu:{}: error: a kernel cannot have an array whose size is known only when it runs"
            " | nvcc needs a constant: a constexpr variable or a template parameter"
        )
        for statement in (
            "float acc[n];\nfor (int j = 0; j < n; ++j) acc[j] = 1; x[0] = acc[n - 1];",
            "float acc[n][3]; acc[0][n % 3] = 1; x[0] = acc[n - 1][0];",
            "auto m = reinterpret_cast<float (*)[n]>(x); m[1][0] = 1;",
            "const auto f = [&](int m) { float a[m]; a[m - 1] = 1; return a[0]; }; x[0] = f(n);",
        ):
            with self.subTest(statement):
                self.assertEqual(self.errors_in_kernel(statement), [says.format(2)])
        function = "int {} {{ int a[n]; a[n - 1] = 1; return a[0]; }}\n"
        for beginning in ("__device__ ", "template <class T> __device__ "):
            with self.subTest(beginning):
                call = "f<int>(n)" if "template" in beginning else "f(n)"
                source = beginning + function.format("f(int n)")
                errors = self.errors_in_kernel(f"x[0] = {call};", source)
                self.assertEqual(errors, [says.format(1)])
        self.assertEqual(self.errors_of(function.format("host(int n)")), [])
        sizes = "const int m = 4; float a[m], b[sizeof(int[m])]; a[n] = b[n] = 1; x[0] = a[1] + b[1];"
        self.assertEqual(self.errors_in_kernel(sizes), [])

    def test_functions_of_the_c_library(self) -> None:
        errors = self.errors_in_kernel("memmove(x, x + 1, n);")
        says = "kernel.cu:2: error: a kernel cannot call memmove" + ONLY_THE_CPU
        self.assertEqual(errors, [says + "a kernel can call CUDA's functions, and those with __device__"])

    def test_exceptions_and_static_variables(self) -> None:
        end = " | it runs on the CPU only: "
        errors = self.errors_in_kernel("if (n > 3) throw n;")
        says = "kernel.cu:2: error: a kernel cannot throw or catch exceptions"
        self.assertEqual(errors, [f"{says}{end}return, or trap with assert()"])
        errors = self.errors_in_kernel("static int first = n; x[0] = first;")
        says = "a kernel cannot initialize a static variable when it is first used"
        self.assertEqual(errors, [f"kernel.cu:2: error: {says}{end}use __shared__, or a constant"])

    def test_what_nvcc_accepts(self) -> None:
        for statement in (
            "x[0] = fmaxf(expf(x[1]), powf(x[2], 3.0f)) + max(n, 3);",
            "x[0] = std::exp(x[1]) + std::fabs(x[2]) + std::pow(x[3], 2) + std::abs(n);",
            "x[0] = std::move(x[1]);",
            "std::memcpy(x, x + n, n * sizeof(float)); memset(x, 0, n);",
            'if (n > 3) printf("%d", n);',
            "assert(n > 3);",
            "const auto f = [=](int i) { return x[i] + 1; }; x[0] = f(n);",
            "x[0] = __half2float(__hadd(__float2half(x[1]), __float2half(x[2])));",
            "x[0] = __shfl_xor_sync(~0u, x[1], 1) + atomicAdd(x + 2, 1.0f);",
            "constexpr float kMax = std::numeric_limits<float>::max(); x[0] = kMax;",
            "struct Big { float a[300]; } big; big.a[n] = 1; Big other = big; x[0] = other.a[1];",
        ):
            with self.subTest(statement):
                self.assertEqual(self.errors_in_kernel(statement), [])

    def test_the_runtime_is_included(self) -> None:
        source = "__global__ void kernel(float* x) { x[threadIdx.x] = min(x[0], 1.0f); }\n"
        self.assertEqual(self.compile(source, includes=False).stderr, "")

    def test_the_headers_of_cuda(self) -> None:
        """They exist, and go together with those of C and C++, whichever comes first."""
        names = (
            "builtin_types cooperative_groups cooperative_groups/reduce cooperative_groups/scan cuda "
            "cudaTypedefs"
            " cuda_bf16 cuda_fp16 cuda_pipeline cuda_profiler_api cuda_runtime cuda_runtime_api"
            " device_atomic_functions device_functions device_launch_parameters driver_types host_defines"
            " math_constants math_functions mma vector_functions vector_types"
        )
        of_cuda = [f"#include <{name}.h>\n" for name in names.split()]
        others = [f"#include <{name}>\n" for name in ("cmath", "math.h", "cstdlib")]
        kernel = "__global__ void k(float* x) { x[threadIdx.x] = CUDART_PI_F + abs(x[0]); }\n"
        for headers in (of_cuda + others, others + of_cuda[::-1]):
            source = "".join(headers) + kernel
            self.assertEqual(self.compile(source, includes=False).stderr, "")

    def test_what_the_compiler_writes(self) -> None:
        types = (
            "struct Part { __device__ Part(float* x) : x(x) {}\n"
            "  __device__ Part(const Part& o) : x(o.x + 1) {}\n"
            "  __device__ ~Part() { x[0] = 1; }  float* x; };\n"
            "struct Whole { Part part; float m[2] = {1.0f, 2.0f}; };\n"
            "struct Pair { float a; Pair() = default; float b[2] = {3.0f, 4.0f}; };\n"
        )
        statement = (
            "Whole one{Part(x)}; Whole two(one); x[1] = two.m[n] + two.part.x[1];Pair pair; x[2] = pair.b[n];"
        )
        self.assertEqual(self.errors_in_kernel(statement, types), [])

    def test_full_debug_information(self) -> None:
        # It has inlined calls of functions that it does not name: here the one that returns the address of
        # smem.
        for count in range(6):  # whatever the size of the debug information
            variables = "".join(f"const int x{n} = n + {n};\n" for n in range(count))
            source = (
                "extern __shared__ float4 smem[];\n"
                "__global__ void kernel(float* x, int n) {\n"
                "  float* s = reinterpret_cast<float*>(smem);\n"
                f"  s[threadIdx.x] = std::max(x[n], 1.0f);\n{variables}  x[n] = s[0];\n}}\n"
            )
            with self.subTest(count):
                says = "kernel.cu:4: error: a kernel cannot call std::max()"
                errors = self.errors_of(source, "-g2")
                self.assertEqual([e.split(" | ")[0] for e in errors], [says])

    def test_older_debug_information_and_none(self) -> None:
        source = "__global__ void kernel(float* x) {\n  x[1] = *new float;\n}\n"
        for option, place in (("-gdwarf-4", "kernel.cu:2"), ("-g0", "kernel.cu:0")):
            with self.subTest(option):
                [error] = self.errors_of(source, option)
                says = f"{place}: error: a kernel cannot call operator new()"
                self.assertEqual(error.split(" | ")[0], says)

    def test_host_code_may_call_anything(self) -> None:
        source = (
            "__global__ void kernel(float* x) { x[0] = 1; }\n"
            "__host__ __device__ inline float both(float y) { return y + 1; }\n"
            "float host(std::vector<float> v) { v.push_back(std::max(v[0], both(v[1]))); return v[2]; }\n"
        )
        self.assertEqual(self.errors_of(source), [])

    def test_errors_of_the_compiler_are_passed_on(self) -> None:
        errors = self.errors_in_kernel("x[0] = 1")
        self.assertTrue(any("kernel.cu:2:9: error: expected" in e for e in errors))

    def test_copies_to_several_blocks(self) -> None:
        source = (
            "#include <gpusim_hopper.h>\n"
            "__global__ void kernel(const CUtensorMap* map) {\n"
            "  __shared__ __align__(128) float tile[64];\n"
            "  __shared__ std::uint64_t full;\n"
            "  gpusim::ptx::tma_load{}(tile, map, &full, {}0, 0, 0);\n"
            "}\n"
        )
        self.assertEqual(self.errors_of(source.replace("{}", "")), [])
        copies = source.replace("{}", "_multicast", 1).replace("{}", "3, ")
        errors = [line for line in self.errors_of(copies) if "error:" in line]
        self.assertEqual(len(errors), 1)
        self.assertIn("kernel.cu:5:", errors[0])
        self.assertIn("multicast::cluster is not simulated: let each block", errors[0])


if __name__ == "__main__":
    HostFunctions.command = sys.argv[1:]
    unittest.main(argv=[__file__])
