"""Installs fa_tutorial, which remembers the checkout it was installed from: the kernels are built there."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCheckout(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # the package is used where it is
            return
        checkout = str(Path(__file__).resolve().parent.parent)
        target = Path(self.build_lib) / "fa_tutorial" / "_checkout.py"
        target.write_text(f"ROOT = {checkout!r}\n", encoding="utf-8")


setup(cmdclass={"build_py": BuildWithCheckout})
