"""check_spills.py finds the kernel that spills, and reports when there is nothing to read."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from . import check_spills

# As nvcc 13 prints it with -Xptxas -v.
REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN2fa4fastILi64EEEvPf' for 'sm_80'
ptxas info    : Function properties for _ZN2fa4fastILi64EEEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 424 bytes cmem[0]
ptxas info    : Compile time = 353.660 ms
ptxas info    : Compiling entry function '_ZN2fa4slowILi64EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN2fa4slowILi64EEEvPf
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
"""
# Its messages about wgmma come before all others, with one code for each reason.
SERIALIZED = """\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function '_ZN2fa4slowILi64EEEvPf'
"""  # noqa: E501
INJECTED = """\
ptxas info    : (C7519) warpgroup.arrive is injected in around line 1389 by compiler to allow use of registers in GMMA in function '_ZN2fa4slowILi64EEEvPf'
ptxas info    : (C7520) warpgroup.wait is injected in around line 7 by compiler to allow use of registers defined by GMMA in function '_ZN2fa4slowILi64EEEvPf'
"""  # noqa: E501
NO_SPILL = REPORT.replace("16 bytes stack", "0 bytes stack").replace(
    "12 bytes spill stores, 20", "0 bytes spill stores, 0"
)


class Spills(unittest.TestCase):
    def check(self, report: str | None, *arguments: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "chapters/09_x/CMakeFiles/ch09_x_kernels.dir"
            folder.mkdir(parents=True)
            if report is not None:
                (folder / "chapter.cu.o.ptxas").write_text(report)
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = check_spills.main(["--list", name, *arguments])
            return status, said.getvalue()

    def test_a_kernel_that_spills_is_named(self):
        status, said = self.check(REPORT, "09_x")
        self.assertEqual(status, 1)
        self.assertIn("fa::slow<64> for sm_90 spills: stack 16 bytes, stores 12, loads 20", said)
        self.assertNotIn("fast<64> for", said)
        self.assertIn("2 kernels, 1 spill", said)

    def test_sources_for_hopper_alone_are_read_too(self):
        with tempfile.TemporaryDirectory() as name:
            files = Path(name) / "chapters/11_x/CMakeFiles"
            for folder, report in (("kernels", NO_SPILL), ("hopper", REPORT)):
                (files / f"ch11_x_{folder}.dir").mkdir(parents=True)
                file = "chapter.cu.o.ptxas"
                (files / f"ch11_x_{folder}.dir" / file).write_text(report)
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = check_spills.main([name, "11_x"])
        self.assertEqual(status, 1)
        self.assertIn("4 kernels, 1 spill", said.getvalue())

    def test_what_is_tolerated_is_so_for_one_kernel_on_one_architecture(self):
        arch, name, size = check_spills.TOLERATED[-1]

        def spills(arch: str, name: str, size: int) -> bool:
            return check_spills.Kernel(name, arch, size, size, size, 255).spills

        self.assertFalse(spills(arch, f"fa::{name}, 1>", size))
        self.assertTrue(spills(arch, f"fa::{name}, 1>", size + 4))
        self.assertTrue(spills(arch, "fa::another<256>", size))
        self.assertTrue(spills("sm_87", f"fa::{name}, 1>", size))

    def test_kernels_are_chosen_by_their_names(self):
        status, said = self.check(REPORT, "09_x:fast")
        self.assertEqual(status, 0, said)
        self.assertIn("sm_80 128 registers  fa::fast<64>", said)

    def test_serialised_products_are_named_with_their_reason(self):
        status, said = self.check(SERIALIZED + NO_SPILL, "09_x")
        self.assertEqual(status, 1)
        [line] = [line for line in said.splitlines() if "C7510" in line]
        self.assertEqual(
            line,
            "fa::slow<64>: C7510: wgmma.mma_async instructions are serialized due to "
            "insufficient register resources for the wgmma pipeline",
        )
        self.assertIn("0 spill, ptxas slows down the products of 1", said)

    def test_injected_waits_are_named(self):
        status, said = self.check(INJECTED + NO_SPILL, "09_x:slow")
        self.assertEqual(status, 1)
        self.assertIn("C7519: warpgroup.arrive is injected in around line 1389", said)
        self.assertIn("C7520: warpgroup.wait is injected in around line 7", said)

    def test_messages_about_other_kernels_and_of_other_kinds_are_no_failure(self):
        self.assertEqual(self.check(SERIALIZED + NO_SPILL, "09_x:fast")[0], 0)
        other = "ptxas info    : (C7519) Something else in function '_Z1f'\n"
        self.assertEqual(self.check(other + NO_SPILL, "09_x")[0], 0)

    def test_no_report_and_no_kernel_are_errors(self):
        self.assertEqual(self.check(None, "09_x")[0], 2)
        self.assertEqual(self.check(REPORT, "09_x:other")[0], 2)
        self.assertEqual(self.check("", "09_x")[0], 2)


if __name__ == "__main__":
    unittest.main()
