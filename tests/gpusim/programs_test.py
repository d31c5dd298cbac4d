"""CUDA programs as people write them run unchanged, and what cannot be run is refused in a few words.

programs_test.py TOOLCHAIN

TOOLCHAIN is the file of the build that tells the command how to compile.
"""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "common" / "gpusim"

ADD_ONE = "__global__ void add_one(int* x) { x[threadIdx.x] += 1; }"
MAIN = """
int main() {{
  int* device;
  cudaMalloc(&device, 128);
  cudaMemset(device, 0, 128);
  {launch}
  int host[32];
  cudaMemcpy(host, device, 128, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 3; ++i) printf("%d ", host[i]);
  return 0;
}}
"""


class Programs(unittest.TestCase):
    toolchain: str

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="gpusim-programs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def sim(self, source: str, *options: str, name: str = "program.cu") -> subprocess.CompletedProcess:
        """Runs a program, with its folder as the current one."""
        (self.folder / name).write_text(textwrap.dedent(source), encoding="utf-8")
        return self.command(name, *options)

    def command(self, *words: str) -> subprocess.CompletedProcess:
        env = {**os.environ, "PYTHONPATH": str(PACKAGE), "GPUSIM_TOOLCHAIN": self.toolchain}
        return subprocess.run(
            [sys.executable, "-m", "gpusim", "run", *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def runs(self, source: str, *options: str) -> str:
        """What a program prints that has no defect."""
        done = self.sim(source, *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.split("\n")[0].strip()

    def launched(self, kernels: str, launch: str) -> str:
        return self.runs(kernels + MAIN.format(launch=launch))

    def refused(self, source: str, *options: str, status: int = 2) -> str:
        done = self.sim(source, *options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr

    # --- launches

    def test_every_way_to_spell_a_launch(self) -> None:
        kernels = (
            ADD_ONE
            + """
        #define RUN(kernel, ...) kernel<<<1, 32>>>(__VA_ARGS__)
        #define GRID <<<1, 32>>>
        typedef void (*Kernel)(int*);
        extern "C" __global__ void in_c(int* x) { x[threadIdx.x] += 1; }
        extern "C" { __global__ void in_block_of_c(int* x) { x[threadIdx.x] += 1; } }
        namespace { namespace deep { __global__ void hidden(int* x) { x[threadIdx.x] += 1; } } }
        struct Runner { template <class K> void run(K kernel, int* x) { kernel<<<1, 32>>>(x); } };
        """
        )
        launch = """
        add_one<<<1, 32>>>(device);
        add_one << <1, 32, 0, 0>> >(device);
        add_one<<<dim3(1),
                  dim3(32, 1)>>>(
            device);
        RUN(add_one, device);
        add_one GRID (device);
        Kernel table[] = {in_c, in_block_of_c};
        for (Kernel k : table) k<<<1, 32>>>(device);
        table[0]<<<1, 32>>>(device);
        (*table[1])<<<1, (device ? 32 : 1)>>>(device);
        if (device) deep::hidden<<<1, 32>>>(device); else ::deep::hidden<<<1, 1>>>(device);
        Runner().run(add_one, device);
        const char* text = "add_one<<<1, 32>>>(device)";
        if (text[7] != '<' || (1 <<3) != 8) return 1;
        """
        self.assertEqual(self.launched(kernels, launch), "11 11 11")

    def test_templates_overloads_and_default_arguments(self) -> None:
        kernels = """
        template <class T> __global__ void add(T* x, T by = 1) { x[threadIdx.x] += by; }
        template <> __global__ void add<int>(int* x, int by) { x[threadIdx.x] += 10 * by; }
        template <int N, typename T, typename = void>
        __global__ void add_n(T* x, const int) { x[threadIdx.x] += N; }
        template <class... Ts> __global__ void add_all(int* x, Ts... ts) { x[threadIdx.x] += (ts + ... + 0); }
        __global__ void over(int* x) { x[threadIdx.x] += 1000; }
        __global__ void over(float*) {}
        template <class F> __global__ void apply(F f) { f(threadIdx.x); }
        """
        launch = """
        add<<<1, 32>>>(device);
        add<int><<<1, 32>>>(device, 2);
        add_n<3><<<1, 32>>>(device, 0);
        add_all<<<1, 32>>>(device, 50, 50l);
        over<<<1, 32>>>(device);
        over<<<1, 32>>>((float*)nullptr);
        apply<<<1, 32>>>([=] __device__(int i) { device[i] += 10000; });
        """
        self.assertEqual(self.launched(kernels, launch), "11133 11133 11133")

    def test_arguments_are_evaluated_once_and_copied(self) -> None:
        kernels = (
            ADD_ONE
            + """
        struct Many { int values[200]; };
        __global__ void last_of(int* x, Many many) { x[threadIdx.x] += many.values[199]; }
        """
        )
        launch = """
        int calls = 0;
        auto pointer = [&] { ++calls; add_one<<<1, 32>>>(device); return device; };
        add_one<<<1, 32>>>(pointer());
        Many many = {};
        many.values[199] = 5;
        last_of<<<1, 32>>>(device, many);
        if (calls != 1) return 1;
        """
        self.assertEqual(self.launched(kernels, launch), "7 7 7")

    def test_launch_functions_of_the_runtime(self) -> None:
        launch = """
        void* arguments[] = {&device};
        cudaLaunchKernel(add_one, dim3(1), dim3(32), arguments);
        cudaLaunchKernel((const void*)add_one, 1, 32, arguments, 0, 0);
        cudaLaunchKernel((void*)add_one, dim3(1), dim3(32), arguments, 0, nullptr);
        """
        self.assertEqual(self.launched(ADD_ONE, launch), "3 3 3")

    def test_a_bad_configuration_is_an_error_of_the_launch(self) -> None:
        launch = (
            "add_one<<<1, 2048>>>(device); if (cudaGetLastError() != cudaErrorInvalidConfiguration) return 1;"
        )
        self.assertEqual(self.launched(ADD_ONE, launch), "0 0 0")

    # --- the language

    def test_dynamic_shared_arrays_of_any_type_and_name(self) -> None:
        kernels = """
        extern __shared__ float4 outside[];
        namespace a { namespace b { extern __shared__ double nested[]; } }
        template <class T> __global__ void typed(int* x) {
          extern __shared__ __align__(16) unsigned char bytes[];
          T* values = reinterpret_cast<T*>(bytes);
          values[threadIdx.x] = T(threadIdx.x);
          __syncthreads();
          x[threadIdx.x] += int(values[31 - threadIdx.x]);
        }
        template <class T> __global__ void dependent(int* x) {
          extern __shared__ T own[];
          own[threadIdx.x] = T(1);
          x[threadIdx.x] += int(own[threadIdx.x]);
        }
        __global__ void others(int* x) {
          outside[threadIdx.x] = make_float4(1, 2, 3, 4);
          a::b::nested[2 * threadIdx.x] = 0;
          x[threadIdx.x] += outside[threadIdx.x].z == 3;
        }
        """
        launch = """
        typed<float><<<1, 32, 128>>>(device);
        typed<double><<<1, 32, 256>>>(device);
        dependent<short><<<1, 32, 64>>>(device);
        others<<<1, 32, 512>>>(device);
        """
        self.assertEqual(self.launched(kernels, launch), "64 62 60")

    def test_one_byte_more_than_the_launch_has_is_reported(self) -> None:
        kernel = "__global__ void k() { extern __shared__ int s[]; s[threadIdx.x] = 1; }"
        source = f"{kernel}\nint main() {{ k<<<1, 32, 124>>>(); }}"
        done = self.sim(source)
        self.assertEqual(done.returncode, 1)
        self.assertIn(
            "Invalid __shared__ write of size 4 bytes at program.cu:1 by thread (31,0,0)", done.stdout
        )

    def test_architecture_is_defined_in_device_code_only(self) -> None:
        source = """
        #include <stdexcept>
        #include <vector>
        #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600
        __device__ double atomicAdd(double* x, double by) { return *x + by; }
        #endif
        #ifdef __CUDA_ARCH__
        __device__ int only_device() { return __CUDA_ARCH__; }
        #endif
        struct Value {
          int number;
          __host__ __device__ Value() {
        #ifdef __CUDA_ARCH__
            number = only_device();
        #else
            number = std::vector<int>(7).size();
        #endif
          }
        };
        __host__ __device__ int fails_on_host() {
        #ifndef __CUDA_ARCH__
          throw std::runtime_error("host");
        #else
          return 1;
        #endif
        }
        __global__ void k(int* x) {
        #if __CUDA_ARCH__ >= 800
          x[0] = Value().number + fails_on_host();
        #else
          x[0] = 1;
        #endif
        }
        int main() {
          int *x, host;
          cudaMalloc(&x, 4);
          k<<<1, 1>>>(x);
          cudaMemcpy(&host, x, 4, cudaMemcpyDeviceToHost);
          printf("%d %d line %d", host, Value().number, __LINE__);
        #ifdef __CUDA_ARCH__
          return 1;
        #endif
        }
        """
        self.assertEqual(self.runs(source), "901 7 line 39")
        self.assertEqual(self.runs(source, "--device", "a100"), "801 7 line 39")
        self.assertEqual(self.runs(source, "-arch=sm_75"), "1 7 line 39")

    def test_cpp17_by_default_and_cpp20_if_asked(self) -> None:
        source = 'int main() { printf("%ld", __cplusplus); }'
        self.assertEqual(self.runs(source), "201703")
        self.assertEqual(self.runs(source, "-std=c++14"), "201703")
        self.assertEqual(self.runs(source, "-std=c++20"), "202002")

    def test_options_of_nvcc(self) -> None:
        (self.folder / "folder").mkdir()
        (self.folder / "folder" / "number.h").write_text("#define NUMBER 4\n", encoding="utf-8")
        options = (
            "-O3 -g -G -lineinfo -arch sm_86 -gencode arch=compute_80,code=sm_80 -Xcompiler -Wall -Xptxas -v"
        )
        options += " --use_fast_math -rdc=true -lcudart -lm -o program -Ifolder -D SIX=6 -w --extended-lambda"
        source = (
            '#include "number.h"\n'
            'int main(int n, char** words) { printf("%d%d%s", NUMBER, SIX, words[n - 1]); }'
        )
        self.assertEqual(self.runs(source, *options.split(), "--", "x", "last"), "46last")

    def test_several_sources(self) -> None:
        (self.folder / "kernels.cu").write_text(
            ADD_ONE + "\nvoid launch(int* x) { add_one<<<1, 32>>>(x); }", encoding="utf-8"
        )
        (self.folder / "twice.cpp").write_text("int twice(int x) { return 2 * x; }", encoding="utf-8")
        source = "__global__ void add_one(int* x);\nvoid launch(int*);\nint twice(int);\n"
        source += MAIN.format(launch="launch(device); add_one<<<twice(1) - 1, 32>>>(device);")
        (self.folder / "main.cu").write_text(source, encoding="utf-8")
        done = self.command("main.cu", "kernels.cu", "twice.cpp")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("2 2 2 "), done.stdout)

    # --- what it says

    def test_lines_are_those_of_the_users_files(self) -> None:
        (self.folder / "kernel.cuh").write_text(
            "template <class T>\n__global__ void k(T* x) {\n  x[threadIdx.x] = 1;\n}\n", encoding="utf-8"
        )
        source = '#include "kernel.cuh"\nint main() { int* x; cudaMalloc(&x, 64); k<<<1,\n 32>>>(x); }'
        done = self.sim(source)
        self.assertEqual(done.returncode, 1)
        self.assertIn(
            "Invalid __global__ write of size 4 bytes at kernel.cuh:3 by thread (16,0,0)", done.stdout
        )
        self.assertIn('after the end of "x" (64 bytes)', done.stdout)

    def test_table_and_json(self) -> None:
        source = ADD_ONE + MAIN.format(launch="for (int i = 0; i < 3; ++i) add_one<<<1, 32>>>(device);")
        done = self.sim(source, "--json", "report.json")
        self.assertIn("add_one: 3 launches, grid 1, block 32\n", done.stdout)
        (kernel,) = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))["kernels"]
        counters = kernel["tensors"]["device"]
        self.assertEqual((counters["read_bytes"], counters["write_sectors"]), (3 * 128, 3 * 4))

    def test_status_is_the_programs_own(self) -> None:
        self.assertEqual(self.sim("int main() { return 5; }").returncode, 5)

    def test_a_defect_is_status_1_also_if_the_program_aborts(self) -> None:
        source = ADD_ONE + "\nint main() { int* x; cudaMalloc(&x, 4); add_one<<<1, 1>>>(x); abort(); }"
        done = self.sim(source)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Uninitialized __global__ memory read", done.stdout)

    def test_fast_only_runs(self) -> None:
        source = ADD_ONE + "\nint main() { int* x; cudaMalloc(&x, 128); add_one<<<1, 32>>>(x); }"
        self.assertEqual(self.sim(source).returncode, 1)  # nothing has written what it reads
        self.assertEqual(self.sim(source, "--fast").returncode, 0)

    # --- what cannot be run

    def test_files(self) -> None:
        self.assertIn("nothing.cu: no such file", self.command("nothing.cu").stderr)
        self.assertIn("is no CUDA source", self.sim("text", name="notes.txt").stderr)
        self.assertEqual(self.command("nothing.cu").returncode, 2)

    def test_errors_of_the_compiler(self) -> None:
        error = self.refused(
            "__global__ void k(int* x) {}\nint main() {\n  int y;\n  k<<<1, 1>>>(&y, missing);\n}"
        )
        self.assertIn("program.cu:4", error)
        self.assertIn("‘missing’ was not declared", error)
        self.assertNotIn("/shim/", error)
        self.assertNotIn("abi:", error)

    def test_functions_of_the_host(self) -> None:
        source = (
            "#include <algorithm>\n__global__ void k(int* x) { x[0] = std::max(x[0], 1); }\n"
            "int main() { k<<<1, 1>>>(0); }"
        )
        self.assertIn("program.cu:2: error: a kernel cannot call std::max()", self.refused(source))
        self.sim(source, "--expt-relaxed-constexpr")
        self.assertNotIn("cannot call", self.sim(source, "--expt-relaxed-constexpr").stderr)

    def test_missing_features_have_a_name(self) -> None:
        error = self.refused("#include <cusparse.h>\nint main() {}")
        self.assertIn("program.cu:1", error)
        self.assertIn("gpusim does not simulate cuSPARSE", error)
        nested = ADD_ONE + "\n__global__ void k(int* x) {\n  add_one<<<1, 1>>>(x);\n}\nint main() {}"
        self.assertIn(
            "program.cu:3: error: gpusim does not simulate dynamic parallelism", self.refused(nested)
        )

    def test_crash_of_the_host(self) -> None:
        self.assertIn("(SIGSEGV)", self.refused("int main() { int* volatile x = nullptr; *x = 1; }"))

    def test_a_kernel_that_never_ends(self) -> None:
        source = """\
        __global__ void k(int* x) {
          if (threadIdx.x == 0)
            for (unsigned i = 1; i != 0; i = i * 3 + (i & 2)) if (i == 2) break;
          __syncthreads();
        }
        int main() { k<<<1, 32>>>(nullptr); cudaDeviceSynchronize(); }
        """
        done = self.sim(source, "--timeout", "0.5")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("made no progress for 0.5 s", done.stderr)
        self.assertIn("program.cu:3", done.stdout)

    def test_races_are_looked_for_in_the_first_of_many_launches(self) -> None:
        program = """
        __global__ void look(const int* in, int* out, bool races) {
          int sum = 0;
          for (int i = 0; i < 4200; ++i) sum += in[0];
          if (threadIdx.x == 0 && !races) out[blockIdx.x] = sum;
          if (threadIdx.x == 0 && races) out[0] = sum;
        }
        int main() {
          int *in, *out;
          cudaMalloc(&in, 4);
          cudaMalloc(&out, 256);
          cudaMemset(in, 0, 4);
          for (int i = 0; i < 10; ++i) look<<<64, 256>>>(in, out, i == 9);
          cudaDeviceSynchronize();
        }
        """
        some = self.sim(program)
        self.assertEqual(some.returncode, 0, some.stdout + some.stderr)
        self.assertIn("races were looked for in the first 8 of these launches: --check-all", some.stdout)
        self.assertRegex(some.stdout, f"\\n  in +{10 * 64 * 8 * 4200 * 4:,} ")  # counted in all
        every = self.sim(program, "--check-all")
        self.assertEqual(every.returncode, 1, every.stdout + every.stderr)
        self.assertNotIn("races were looked for", every.stdout)

    def test_a_kernel_that_takes_long_is_named(self) -> None:
        sys.path.insert(0, str(PACKAGE))
        from gpusim import tables

        kernel = {"name": "step", "launches": 1, "grid": [4096, 2, 1], "seconds": 19}
        self.assertIsNone(tables.hint({"kernels": [kernel]}))
        kernel["seconds"] = 21
        note = tables.hint({"kernels": [{**kernel, "name": "init", "seconds": 20}, kernel]})
        self.assertIn("step took 21 s: give it fewer blocks than 4,096 x 2", note)
        kernel["launches"] = 1000
        note = tables.hint({"kernels": [kernel]})
        self.assertIn("step took 21 s in 1,000 launches: launch it less often, give it fewer blocks", note)


if __name__ == "__main__":
    Programs.toolchain = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
