"""A small copy of the tree, and stand-ins for the programs of a distribution, CMake and the chapters.

All stand-ins are one script that checks the name it was called by. It appends its command line
to calls.txt and obeys the environment variables FAKE_*.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import fixtures

SOURCE = Path(__file__).resolve().parents[2]

# Imports only os and sys, which are loaded anyway, because a test starts many of these.
STAND_IN = r"""
import os, sys

name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
tree = os.path.realpath(sys.argv[0])
while not os.path.isfile(f"{tree}/learn"):
    tree = os.path.dirname(tree)
fake = {key[5:]: value for key, value in os.environ.items() if key.startswith("FAKE_")}


def write(path, text, mode="w"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode) as file:
        file.write(text)


def copy(source, target):
    with open(source) as file:
        write(target, file.read())


write(f"{tree}/calls.txt", " ".join([name, *words]) + "\n", "a")
if name == "sudo":
    if words[0] == "-n":
        sys.exit(int(fake.get("SUDO", 0)))
    os.execvp(words[0], words)
elif name == "env":
    while "=" in words[0]:
        key, _, value = words.pop(0).partition("=")
        os.environ[key] = value
    os.execvp(words[0], words)
elif name == "dpkg-query":
    missing = fake.get("MISSING", "").split()
    if os.path.exists(f"{tree}/installed"):
        missing = []
    for package in words[2:]:
        if package not in missing:
            print(package, "install ok installed")
    sys.exit(1 if missing else 0)
elif name == "apt-get":
    print("Reading package lists...")
    if "install" in words:
        if os.environ.get("DEBIAN_FRONTEND") != "noninteractive":
            sys.exit("this would ask")
        if fake.get("APT"):
            sys.exit("E: Unable to locate package libcli11-dev")
        write(f"{tree}/installed", "")
elif name == "c++":
    print(fake.get("COMPILER", "g++ (Debian 12.2.0-14) 12.2.0"))
elif name == "cmake" and words == ["--version"]:
    print("cmake version", fake.get("CMAKE", "3.25.1"))
elif name == "cmake" and "--build" in words:
    if "SLEEP" in fake:
        import time

        write(f"{tree}/asleep", str(os.getpid()))
        time.sleep(30)
    for step in range(1, 41):
        print(f"[{step}/40] Building CXX object {step}.o", flush=True)
    if "BUILD" in fake:
        print("FAILED: chapters/01_safe_softmax/chapter.cu.o")
        print("/usr/bin/c++ -a -very -long -command")
        print("kernel.cuh:7:3: error: expected ';'")
        print("ninja: build stopped: subcommand failed.")
        sys.exit(1)
    for file in os.listdir(f"{tree}/json"):
        preset = words[words.index("--preset") + 1]
        program = f"{tree}/build/{preset}/bin/ch{file.removesuffix('.json')}"
        copy(f"{tree}/bin/chapter", program)
        os.chmod(program, 0o755)
elif name == "cmake":
    print("-- Configuring done")
    if "CONFIGURE" in fake:
        print("CMake Error: no such thing")
        sys.exit(1)
elif name == "ctest":
    if "--show-only=json-v1" in words:
        names = {"test_ch01_safe_softmax.Safe": "chapter01", "test_ch02_online_softmax.Online": "chapter02", "A GPU": "gpusim"}
        names |= {"test_ch02_online_softmax.SLOW_Online": "chapter02.slow"}
        tests = [{"name": n, "properties": [{"name": "LABELS", "value": [label]}]} for n, label in names.items()]
        import json

        print(json.dumps({"tests": [] if "CTEST_NONE" in fake else tests}))
        sys.exit(0)
    failed = "CTEST" in fake
    print("    Start 1: test_ch01_safe_softmax.Safe")
    print("1/3 Test #1: test_ch01_safe_softmax.Safe ......   Passed    0.03 sec")
    print("    Start 2: test_ch02_online_softmax.Online")
    print("2/3 Test #2: test_ch02_online_softmax.Online ....", "***Failed  0.1 sec" if failed else "  Passed  0.1 sec")
    print("kernel_test.cpp:12: Failure" if failed else "")
    print("3/3 Test #3: A GPU .............***Skipped   0.01 sec")
    print("\n50% tests passed, 1 tests failed out of 3\n\nThe following tests FAILED:")
    result = "Failed" if failed else "Passed"
    write(
        f"{tree}/build/sim/Testing/Temporary/LastTest.log",
        f'1/3 Testing: test_ch01_safe_softmax.Safe\nCommand: "x"\nTest Passed.\n'
        f'2/3 Testing: test_ch02_online_softmax.Online\nCommand: "x"\nTest {result}.\n',
    )
    sys.exit(8 if failed else 0)
elif name == "python" and words[0] == "-c":
    sys.exit(int(fake.get("MODULES", 0)))
elif name == "python":
    import json

    print("a warning of somebody's")
    for path in words[3:]:  # -m tools.notebooks.execute PAGES NOTEBOOK...
        notebook = os.path.basename(path)[:-6]
        if notebook[:2] == fake.get("DIES_AT"):
            sys.exit("the kernel could not be started")
        print(json.dumps({"notebook": notebook, "cell": 2, "of": 9, "id": "two"}))
        end = {"notebook": notebook, "seconds": 1.5, "html": f"{words[2]}/{notebook}.html"}
        if notebook[:2] == fake.get("FAILS_AT"):
            end |= {"cell": 2, "id": "two", "error": "AssertionError: assert x == 4"}
        print(json.dumps(end))
    sys.exit("FAILS_AT" in fake)
elif name.startswith("ch") and words == ["--list"]:
    print("a title\n  row_per_thread  a thread per row\n  row_per_block   a block per row")
elif name.startswith("ch"):
    status = int(fake.get("EXIT_" + name[2:4], 0))
    if status in (2, 3):
        print("error: --q q.npy: must be float16", file=sys.stderr)
        sys.exit(status)
    if status == 1:
        print("a problem\n\na table\n\nwhat is wrong\n")
        print("========= Race reported between Write access and Read access\n")
        print(f"gdb: ./learn debug {name[2:4]} --q {tree}/data/q.npy")
    if status < 0:
        os.kill(os.getpid(), -status)
    preset = sys.argv[0].split("/")[-3]  # build/PRESET/bin/chNN_name
    json = f"{tree}/json/{name[2:]}"
    special = f"{json}.{preset}.json"
    if "GPUSIM_RECORD" in os.environ:
        parts = ("BLOCKS", "EVENTS", "LAUNCH", "WRITER")
        chosen = [os.environ.get(f"GPUSIM_RECORD_{part}", "-") for part in parts]
        write(f"{tree}/calls.txt", " ".join(["recorder", *chosen]) + "\n", "a")
        print(fake.get("RECORDER", ""))
        if os.path.exists(f"{tree}/recording"):
            with open(f"{tree}/recording", "rb") as file, open(os.environ["GPUSIM_RECORD"], "wb") as made:
                made.write(file.read())
    copy(special if os.path.exists(special) else f"{json}.json", words[words.index("--json") + 1])
    sys.exit(status)
"""  # noqa: E501
NAMES = ["sudo", "env", "dpkg-query", "apt-get", "c++", "cmake", "ctest", "ninja", "addr2line", "chapter"]


class Tree:
    """A temporary copy of the files of `learn`, with two chapters and all stand-ins."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="test-learn-")
        self.root = Path(self._folder.name).resolve()
        self.bin = self.root / "bin"
        shutil.copy(SOURCE / "learn", self.root)
        (self.root / "tools").mkdir()
        shutil.copy(SOURCE / "tools" / "__init__.py", self.root / "tools")
        (self.root / "tests").mkdir()
        for name in ("__init__.py", "levels.py", "unchanged.py"):
            shutil.copy(SOURCE / "tests" / name, self.root / "tests")
        # With the bytecode that Python compiled before.
        for package in ("tools/docs", "tools/learn", "tools/report", "tools/watch", "common/gpusim/gpusim"):
            shutil.copytree(SOURCE / package, self.root / package)
        for folder in ("bin", "data", "json"):
            (self.root / folder).mkdir()
        for tensor in ("q", "k", "v", "do"):
            (self.root / "data" / f"{tensor}.npy").touch()
        presets = [{"name": "base", "hidden": True}, {"name": "sim"}, {"name": "cuda"}]
        self._write("CMakePresets.json", json.dumps({"configurePresets": presets}))
        self._write("chapters/01_safe_softmax/README.md", "# 01 Safe softmax\n")
        self._write("chapters/02_online_softmax/README.md", "")
        self._write("chapters/02_online_softmax/kernel.cuh", "")
        self.set_results(fixtures.safe_softmax())
        self.set_results(fixtures.online_softmax())
        self._write("broken/matplotlib.py", "raise ImportError('nothing to draw with')")
        for name in NAMES:
            self._program(name, f"#!{sys.executable} -IS\n{STAND_IN}")
        self._program("python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')

    def close(self) -> None:
        self._folder.cleanup()

    def _write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _program(self, name: str, text: str) -> None:
        self._write(f"bin/{name}", text)
        (self.bin / name).chmod(0o755)

    def add_notebooks(self, **chapters: list[str]) -> None:
        """Notebooks that run these chapters, and an environment whose Python stands in for one that runs
        them.
        """
        for name, numbers in chapters.items():
            notebook = {"metadata": {"chapters": numbers}, "cells": []}
            self._write(f"notebooks/{name[1:]}.ipynb", json.dumps(notebook))
        text = f"#!{sys.executable} -IS\n{STAND_IN}"
        self._write("build/notebooks-venv/bin/python", text)
        (self.root / "build/notebooks-venv/bin/python").chmod(0o755)

    def set_results(self, run: dict, preset: str = "") -> None:
        """Sets the results that the stand-in of the chapter writes, with any preset or with this one."""
        suffix = f".{preset}.json" if preset else ".json"
        self._write(f"json/{run['chapter']}{suffix}", json.dumps(run))

    def without(self, *names: str) -> None:
        """Removes programs from the machine."""
        for name in names:
            (self.bin / name).unlink()

    def environment(self, **variables: str) -> dict[str, str]:
        """Without matplotlib, which takes a second to load, unless PYTHONPATH is given."""
        kept = {key: os.environ[key] for key in ("HOME", "TMPDIR") if key in os.environ}
        fixed = {"PATH": str(self.bin), "PYTHONPATH": str(self.root / "broken")}
        return {**kept, **fixed, "LC_ALL": "C.UTF-8", **variables}

    def command(self, *words: str) -> list[str]:
        """Without the shell that looks for a Python, and without `site`, to save time."""
        return [sys.executable, "-S", str(self.root / "learn"), *words]

    def learn(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        """Runs ./learn without a terminal."""
        return subprocess.run(
            self.command(*words),
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def tests_that_ran(self) -> list[int]:
        """The numbers of the tests that ctest was told to run."""
        text = (self.root / "build" / "sim" / "tests.txt").read_text()
        return [int(number) for number in text.split(",")[3:]]

    def calls(self, name: str) -> list[str]:
        """The command lines with which a stand-in was called."""
        path = self.root / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[0] == name]
