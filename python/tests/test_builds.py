"""Programs and libraries that are missing, or are something else: python -m unittest tests.test_builds, in
python/.
"""

from __future__ import annotations

import _ctypes
import os
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from fa_tutorial import builds, chapter_library, selection, simulator, use, variants
from fa_tutorial import scaled_dot_product_attention as attention

LIST = "05_loop_swapped_v2: FlashAttention v2\n  register_tiled  prefetches"


def forget() -> None:
    """Programs are asked again."""
    for cached in (simulator.variants, simulator.refusal, selection.variants_of, chapter_library.load):
        cached.cache_clear()


class Builds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        environment = {"FA_TUTORIAL_BUILD": folder.name}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        forget()
        self.addCleanup(forget)
        self.q = torch.zeros(1, 1, 1, 32)

    def program(self, script: str, chapter: str = "05_loop_swapped_v2") -> None:
        path = builds.program(chapter)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def fails(self, error: type, words: str, function, *args) -> None:
        with self.assertRaises(error) as raised:
            function(*args)
        text = str(raised.exception)
        self.assertRegex(text, words)
        self.assertNotIn("\n", text)

    def attend(self):
        return attention(self.q, self.q, self.q)

    def test_nothing_is_built(self):
        how = r"there is no .*ch05_loop_swapped_v2: \(cd .* --target ch05_loop_swapped_v2\) builds it"
        self.fails(FileNotFoundError, how, self.attend)
        self.fails(FileNotFoundError, "./learn run", variants)
        self.fails(FileNotFoundError, "ch07_multi_stage", use, "07/final")
        self.q.requires_grad_()
        self.fails(FileNotFoundError, "there is no", self.attend)

    def test_programs_that_are_none(self):
        self.program("exit 0")
        self.fails(RuntimeError, "does not list the variants", use, "05/sliced_k")
        builds.program("05_loop_swapped_v2").write_bytes(b"\x7fELF")
        self.fails(RuntimeError, r"cannot be run \(Exec format error\)", self.attend)
        builds.program("05_loop_swapped_v2").chmod(0o644)
        self.fails(RuntimeError, r"cannot be run \(Permission denied\)", self.attend)

    def test_programs_that_fail(self):
        self.program("kill -9 $$")
        self.fails(RuntimeError, "ended by signal 9", self.attend)
        self.program("echo race; exit 1")
        words = "a defect in 05/register_tiled: ./learn run 05 shows it"
        self.fails(RuntimeError, words, self.attend)
        self.program("echo 'error: not enough memory: choose smaller sizes' >&2; exit 2")
        self.fails(ValueError, "05/register_tiled cannot run this: not", self.attend)
        self.program("exit 0")
        self.fails(RuntimeError, "wrote no o.npy and lse.npy", self.attend)

    def test_variants_that_a_program_lacks(self):
        self.program(f"printf '%s' '{LIST}'")
        self.assertEqual(variants(), ["05/register_tiled"])
        words = "05 has no variant sliced_k: it has register_tiled"
        self.fails(ValueError, words, use, "05/sliced_k")

    def library(self, content: bytes | None) -> None:
        path = builds.library("07_multi_stage")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            shutil.copy(_ctypes.__file__, path)  # any library
        else:
            path.write_bytes(content)

    def test_libraries(self):
        load, chapter = chapter_library.ChapterLibrary, "07_multi_stage"
        words = r"there is no .*libch07_multi_stage.so: .*--target ch07_multi_stage_library\)"
        self.fails(FileNotFoundError, words, load, chapter)
        self.library(b"no library")
        self.fails(RuntimeError, "cannot be loaded", load, chapter)
        self.library(None)
        self.fails(RuntimeError, "was built from other sources", load, chapter)

    def test_library_for_another_cuda(self):
        self.library(b"")
        library = mock.Mock()
        library.fa_interface.return_value = chapter_library.INTERFACE
        library.fa_cuda_version.return_value = 12040
        with (
            mock.patch.object(chapter_library.ctypes, "CDLL", return_value=library),
            mock.patch.object(torch.version, "cuda", "13.2"),
        ):
            words = "built with CUDA 12 and PyTorch with CUDA 13.2: with an nvcc 13"
            load = chapter_library.ChapterLibrary
            self.fails(RuntimeError, words, load, "07_multi_stage")
            library.fa_cuda_version.return_value = 13010
            library.fa_variants.return_value = b"a\nb\n"
            self.assertEqual(load("07_multi_stage").variants(), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
