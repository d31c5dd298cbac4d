"""What setup.py puts into a wheel, and the package that is installed from one: python -m unittest
tests.test_wheel, in python/. Scripts stand for nvcc and CMake.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch

PYTHON = Path(__file__).resolve().parents[1]
CMAKE = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
  --build)
    shift 3
    mkdir -p {lib}
    for target; do echo "$target" > "{lib}/lib${{target%_library}}.so"; done ;;
esac
"""


@unittest.skipUnless(importlib.util.find_spec("setuptools"), "there is no setuptools")
class Wheel(unittest.TestCase):
    """A copy of python/ in a checkout that has only the names of some chapters."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.checkout, self.bin, self.log = (self.folder / name for name in ("checkout", "bin", "log"))
        copy = self.checkout / "python"
        shutil.copytree(PYTHON / "fa_tutorial", copy / "fa_tutorial")
        for name in ("setup.py", "pyproject.toml"):
            shutil.copy(PYTHON / name, copy / name)
        for name in ("01_safe_softmax", "05_loop_swapped_v2", "13_ring", "14_decoding"):
            self.write(f"checkout/chapters/{name}/CMakeLists.txt", "")
        self.write("checkout/common/harness/library.hpp", "// the interface\n")
        lib = self.checkout / "build" / "wheel" / "cuda" / "lib"
        self.program("cmake", CMAKE.format(log=self.log, lib=lib))
        self.program("nvcc", "#!/bin/sh\n")
        self.program("ninja", "#!/bin/sh\n")
        self.program("c++", "#!/bin/sh\nexit 1\n")
        (self.bin / "mkdir").symlink_to(shutil.which("mkdir"))
        path, compiler = str(self.bin), str(self.bin / "c++")
        self.environment = {"PATH": path, "CUDA_HOME": str(self.folder), "CXX": compiler}

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def program(self, name: str, text: str) -> None:
        self.write(f"bin/{name}", text).chmod(0o755)

    def python(self, *words: str, cwd: Path | None = None, **environment: str):
        inherited = {
            k: v for k, v in os.environ.items() if k not in ("CUDACXX", "CUDAARCHS", "FA_TUTORIAL_BUILD")
        }
        return subprocess.run(
            [sys.executable, *words],
            cwd=cwd or self.folder,
            env=inherited | environment,
            check=False,
            capture_output=True,
            text=True,
        )

    def build(self, **environment: str):
        """What a wheel would hold, in self.folder / "site"."""
        words = ("setup.py", "-q", "build", "--build-lib", str(self.folder / "site"))
        return self.python(*words, cwd=self.checkout / "python", **(self.environment | environment))

    def test_a_wheel_has_the_libraries_that_operators_run(self):
        stale = self.write("site/fa_tutorial/lib/libch99_removed.so", "")
        done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        files = {path.name for path in (self.folder / "site" / "fa_tutorial" / "lib").iterdir()}
        expected = {"libch05_loop_swapped_v2.so", "libch14_decoding.so", "library.hpp"}
        self.assertEqual(files, expected)
        self.assertRegex(done.stdout, "(?m)^without the operators in C\\+\\+: ")
        self.assertFalse(stale.exists())
        configured, built = self.log.read_text().splitlines()
        for words in (
            "-DFA_PORTABLE=ON",
            "-DCMAKE_CUDA_ARCHITECTURES=75-real;80-real;90 ",
            f"={self.bin}/nvcc",
        ):
            self.assertIn(words, configured)
        self.assertTrue(built.endswith("--target ch05_loop_swapped_v2_library ch14_decoding_library"), built)
        self.build(CUDAARCHS="90a-real")
        self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=90a-real ", self.log.read_text())

    def test_the_package_needs_no_checkout(self):
        self.assertEqual(self.build().returncode, 0)
        shutil.rmtree(self.checkout)
        program = """
import torch
from fa_tutorial import builds, scaled_dot_product_attention as attention, use
print(builds.chapters(), builds.library("14_decoding").read_text(), builds.interface() / "library.hpp")
x = torch.zeros(1, 1, 1, 32)
for call in (lambda: attention(x, x, x), lambda: use("05/register_tiled")):
    try:
        call()
    except (FileNotFoundError, RuntimeError) as problem:
        print(problem)
"""
        done = self.python("-c", program, PYTHONPATH=str(self.folder / "site"))
        self.assertEqual(done.returncode, 0, done.stderr)
        first, _, on_cpu, library = done.stdout.splitlines()
        self.assertEqual(first, "['05_loop_swapped_v2', '14_decoding'] ch14_decoding_library")
        self.assertIn("tensors on the CPU need the simulator, which a wheel does not have", on_cpu)
        self.assertRegex(library, "libch05_loop_swapped_v2.so cannot be loaded")
        words = "pip wheel ./python in a checkout builds another one" if torch.version.cuda else "for CPUs"
        self.assertIn(words, library)
        build = self.write("other/cuda/lib/libch14_decoding.so", "another").parents[2]
        program = "from fa_tutorial import builds; print(builds.library('14_decoding').read_text())"
        site = str(self.folder / "site")
        done = self.python("-c", program, PYTHONPATH=site, FA_TUTORIAL_BUILD=str(build))
        self.assertEqual(done.stdout, "another\n")

    def refuses(self, words: str, **environment: str) -> None:
        done = self.build(**environment)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, f"(?m)^error: {words}")
        self.assertNotIn("Traceback", done.stderr)

    def test_what_is_missing(self):
        (self.bin / "nvcc").unlink()
        self.refuses("there is no nvcc, .* run pip install --editable ./python, .*simulator$")
        self.program("nvcc", "#!/bin/sh\n")
        self.program("cmake", "#!/bin/sh\necho broken; exit 1\n")
        self.refuses("the kernels could not be compiled")
        shutil.rmtree(self.checkout / "chapters")
        self.refuses("the kernels are not here")


if __name__ == "__main__":
    unittest.main()
