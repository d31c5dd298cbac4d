"""gpusim run FILE.cu: the command line."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from . import compiling, options, running, tables, toolchain
from .errors import SimError


def run_program(request: options.Request, tools: toolchain.Toolchain, cache: Path) -> int:
    """Builds, runs, and says what happened. Returns the exit status."""
    built = compiling.build(request, tools, cache)
    sys.stdout.flush()
    outcome = running.run(built, request)
    report = outcome.report or {"kernels": [], "defects": [], "report": ""}
    out = sys.stderr if request.json == "-" else sys.stdout
    print(tables.tables(report) if report["kernels"] else "\nno kernel was launched", file=out)
    if report["report"]:
        print(f"\n{report['report']}", end="", file=out)
    out.flush()
    if request.json:
        text = json.dumps({**report, "status": outcome.status}, indent=1)
        if request.json == "-":
            print(text)
        else:
            try:
                Path(request.json).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                raise SimError(f"--json {request.json}: {error.strerror}") from error
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
    words: list[str], *, command: str = "gpusim run", tools: Path | None = None, cache: Path | None = None
) -> int:
    """@param words  after the command's name    @param tools  toolchain.json    @param cache  for what is built"""
    try:
        request = options.parse(words)
        if request.help or not request.sources:
            print(options.USAGE.format(command=command))
            return 0 if request.help else 2
        compiling.check_sources(request.sources)
        with tempfile.TemporaryDirectory(prefix="gpusim-") if cache is None else _kept(cache) as folder:
            return run_program(request, toolchain.load(tools), Path(folder))
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
