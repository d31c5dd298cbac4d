"""gpusim run FILE.cu: the command line."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import compiling, options, running, tables, toolchain
from .errors import SimError

Watch = Callable[[str, Path], None]  # of the recording and the first source


def say(report: dict, request: options.Request) -> None:
    """The tables, the defects, and hints."""
    out = sys.stderr if request.json == "-" else sys.stdout
    print(tables.tables(report) if report["kernels"] else "\nno kernel was launched", file=out)
    if request.fast:
        print("\nnothing was counted or checked at accesses to memory: --fast", file=out)
    if report["report"]:
        print(f"\n{report['report']}", end="", file=out)
    elif report["kernels"] and not request.fast:
        print("\nno defects", file=out)
    if line := tables.hint(report):
        print(f"\n{line}", file=out)
    out.flush()


def write_json(report: dict, status: int, name: str) -> None:
    text = json.dumps({**report, "status": status}, indent=1)
    if name == "-":
        print(text)
        return
    try:
        Path(name).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise SimError(f"--json {name}: {error.strerror}") from error


def run_program(
    request: options.Request, tools: toolchain.Toolchain, cache: Path, watch: Watch | None
) -> int:
    """Builds, runs, and says what happened. Returns the exit status."""
    built = compiling.build(request, tools, cache)
    sys.stdout.flush()
    record = None
    if request.watch:
        record = running.recording_of(built, request)
    outcome = running.run(built, request, record)
    report = outcome.report or {"kernels": [], "defects": [], "report": ""}
    say(report, request)
    if request.json:
        write_json(report, outcome.status, request.json)
    if record and watch:
        watch(record["GPUSIM_RECORD"], Path(request.sources[0]))
    if report.get("timed_out"):
        raise SimError(
            f"a kernel made no progress for {request.timeout:g} s: the report says where its threads are "
            "(--timeout SECONDS to wait longer)"
        )
    if report["defects"]:
        return 1
    if error := running.why_ended(outcome.status):
        raise error
    return outcome.status


def main(
    words: list[str],
    *,
    command: str = "gpusim run",
    tools: Callable[[], Path | None] = lambda: None,
    cache: Path | None = None,
    watch: Watch | None = None,
) -> int:
    """Runs the command.

    @param words  after the command's name
    @param tools  gives the path of toolchain.json; called once the words and the sources are right
    @param cache  for what is built; default: a folder that is removed at the end
    @param watch  makes a page of a recording
    """
    try:
        request = options.parse(words)
        if request.help or not request.sources:
            print(options.USAGE.format(command=command))
            return 0 if request.help else 2
        if request.watch and watch is None:
            raise SimError("--watch: the page is made by ./learn sim, of the course that gpusim comes from")
        if (request.kernel or request.block) and not request.watch:
            raise SimError("--kernel and --block choose what --watch shows: add --watch")
        if request.json and request.json != "-" and not Path(request.json).absolute().parent.is_dir():
            raise SimError(f"--json {request.json}: there is no such folder")
        compiling.check_sources(request.sources)
        with tempfile.TemporaryDirectory(prefix="gpusim-") if cache is None else _kept(cache) as folder:
            return run_program(request, toolchain.load(tools()), Path(folder), watch)
    except SimError as error:
        name = command.split()[0].removeprefix("./")
        print(error if error.is_of_compiler else f"{name}: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


class _kept:
    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> Path:
        return self.folder

    def __exit__(self, *_: object) -> None:
        pass
