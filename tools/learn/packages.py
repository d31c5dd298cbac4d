"""The distribution's packages that the tutorial needs, and their installation."""

from __future__ import annotations

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass

from . import phases
from .console import Console, LearnError


@dataclass(frozen=True)
class Package:
    """A package by its name in Debian and Ubuntu, and what to look for on other systems."""

    name: str
    purpose: str
    program: str = ""
    header: str = ""
    module: str = ""
    optional: bool = False


PACKAGES = (
    Package("g++", "C++ compiler, 12 or newer", program="g++"),
    Package("cmake", "build system, 3.25 or newer", program="cmake"),
    Package("ninja-build", "runs the build", program="ninja"),
    Package("binutils", "addr2line: source lines in the simulator's reports", program="addr2line"),
    Package("libboost-context-dev", "fibers of the simulator", header="boost/context/fiber.hpp"),
    Package("libdw-dev", "debug information: what kernels call", header="elfutils/libdwfl.h"),
    Package("libfmt-dev", "text output", header="fmt/format.h"),
    Package("libcli11-dev", "command lines of the chapters", header="CLI/CLI.hpp"),
    Package("nlohmann-json3-dev", "JSON output", header="nlohmann/json.hpp"),
    Package("libeigen3-dev", "float64 reference", header="eigen3/Eigen/Core"),
    Package("libgtest-dev", "GoogleTest: the tests", header="gtest/gtest.h"),
    Package("python3-matplotlib", "plots of report.html", module="matplotlib", optional=True),
    Package("openmpi-bin", "mpirun: starts chapter 13", program="mpirun", optional=True),
    Package("libopenmpi-dev", "MPI: chapter 13", header="mpi.h", optional=True),
)

# The packages that a build for the GPU needs.
GPU_PACKAGES = tuple(
    package
    for package in PACKAGES
    if not package.optional and package.name not in ("libboost-context-dev", "libdw-dev")
)

# The package that ./learn debug needs in addition.
GDB = Package("gdb", "debugger", program="gdb")

# The packages that ./learn notebooks needs in addition.
NOTEBOOK_PACKAGES = (
    Package("python3-numpy", "arrays", module="numpy"),
    Package("python3-matplotlib", "plots", module="matplotlib"),
    Package("python3-nbformat", "reads notebooks", module="nbformat"),
    Package("python3-nbclient", "runs notebooks", module="nbclient"),
    Package("python3-ipykernel", "runs their Python code", module="ipykernel"),
    Package("python3-nbconvert", "turns them into pages", module="nbconvert"),
)

APT_UPDATE = ["apt-get", "-y", "update"]
APT_INSTALL = [
    *("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y"),
    *("-o", "DPkg::Lock::Timeout=300"),  # a fresh machine may be updating itself
    *("install", "--no-install-recommends"),
]


def _missing_from_dpkg(wanted: tuple[Package, ...]) -> list[Package]:
    query = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${Status}\n", *(p.name for p in wanted)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # one line for each package that dpkg does not know
        text=True,
        check=False,
    )
    installed = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" ok installed")}
    return [package for package in wanted if package.name not in installed]


def _headers_found(wanted: list[Package]) -> set[str]:
    """The headers of these packages that the C++ compiler finds."""
    headers = [package.header for package in wanted if package.header]
    source = "".join(f"#if __has_include(<{h}>)\n{h}\n#endif\n" for h in headers)
    try:
        compiler = os.environ.get("CXX") or "g++"
        command = [*shlex.split(compiler), "-E", "-P", "-x", "c++", "-"]
        found = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    except OSError:
        return set()
    return set(found.stdout.split())


def _missing_by_probing(wanted: list[Package]) -> list[Package]:
    headers = _headers_found(wanted)
    return [
        p
        for p in wanted
        if (p.program and not shutil.which(p.program))
        or (p.header and p.header not in headers)
        or (p.module and not importlib.util.find_spec(p.module))
    ]


@functools.cache
def missing(wanted: tuple[Package, ...] = PACKAGES) -> list[Package]:
    """The packages that neither dpkg (if there is one) nor a search finds: cmake, for one, may come from
    pip.
    """
    if not shutil.which("dpkg-query"):
        return _missing_by_probing(list(wanted))
    lacking = _missing_from_dpkg(wanted)
    elsewhere = [p for p in lacking if p.program or p.header]
    sought = _missing_by_probing(elsewhere) if elsewhere else []
    return [p for p in lacking if p in sought or p not in elsewhere]


def _privilege() -> list[str] | None:
    """The prefix of a command that needs root; None if there is no way to become root."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        return None
    without_asking = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    if without_asking.returncode == 0:
        return ["sudo"]
    if sys.stdin.isatty() and subprocess.run(["sudo", "-v"], check=False).returncode == 0:
        return ["sudo"]  # a person typed the password
    return None


def can_install() -> bool:
    """Whether ensure() can install packages, instead of only naming what is missing."""
    return shutil.which("apt-get") is not None and _privilege() is not None


def install_command(names: list[str], prefix: list[str]) -> str:
    """Both steps of the installation as one line to copy."""
    steps = ([*prefix, *APT_UPDATE], [*prefix, *APT_INSTALL, *names])
    return " && ".join(shlex.join(step) for step in steps)


def ensure(console: Console, wanted: tuple[Package, ...] = PACKAGES) -> None:
    """Installs the missing packages, if any, and prints the command first."""
    packages = missing(wanted)
    if not packages:
        return
    names = [package.name for package in packages]
    needed = [package.name for package in packages if not package.optional]
    console.say("Not installed:")
    for package in packages:
        console.say(f"   {package.name:22}{package.purpose}")

    if not shutil.which("apt-get"):
        reason = (
            "there is no apt-get here: install these with this system's package manager, then run this again"
        )
    elif (prefix := _privilege()) is None:
        # The command for someone who has root, here or through the machine's owner.
        console.say(install_command(names, ["sudo"] if shutil.which("sudo") else []))
        reason = "installing needs root or sudo: run the command above as root, then run this again"
    else:
        reason = _install(console, names, prefix)
        if reason and needed and needed != names:  # one that can be left out may be why
            reason = _install(console, needed, prefix)
        missing.cache_clear()
        if reason is None:
            return
    if needed:
        raise LearnError(reason, 3)
    for package in packages:
        console.say(f"Going on without {package.name}, {package.purpose}")


def _install(console: Console, names: list[str], prefix: list[str]) -> str | None:
    """Installs packages and shows the progress. Returns the reason if it fails."""
    reader = phases.Phase.activity
    # If the package lists cannot be updated, the old ones may still know the packages.
    phases.execute(console, "package lists", [*prefix, *APT_UPDATE], reader, may_ask=True)
    status, phase = phases.execute(console, "packages", [*prefix, *APT_INSTALL, *names], reader, may_ask=True)
    if status == 0:
        return None
    for line in phase.output[-15:]:
        console.say(line)
    unknown = [line.split()[-1] for line in phase.output if "Unable to locate" in line]
    if unknown:
        what = f"apt-get does not know {', '.join(unknown)}"
        return f"{what}: this needs Debian 12, Ubuntu 24.04 (with universe) or newer"
    return "apt-get could not install the packages: see its last lines above"
