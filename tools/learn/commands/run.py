"""./learn run: runs the chapters, prints one table, writes build/report.html."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...report import results, table
from .. import phases, project, ranks, setup
from ..console import Console, LearnError
from ..exercises import Exercise

HELP = "build the chapters and run them on a real input; shows a table, writes build/report.html"
REFUSED = 2  # exit status of a chapter that cannot do what its command line says
NO_MATPLOTLIB = 4  # exit status of `python -m tools.report`


# Options of a program that choose its input, so that the bundled one is left out.
INPUTS = (
    *("--rows", "--cols", "--batch", "--heads", "--kv-heads", "--seq-q", "--seq-k"),
    *("--head-dim", "--init", "--seed", "--x", "--q", "--k", "--v", "--do"),
)


def add_own(parser: argparse.ArgumentParser) -> None:
    setup.add_preset(parser)
    setup.add_no_install(parser)
    parser.add_argument(
        "--json", metavar="FILE", help="file for the chapters' results, as a list ('-': standard output)"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    setup.add_chapters(parser)
    add_own(parser)
    setup.add_program_options(parser, "all variants on the bundled input")


def take_option(options: list[str], name: str) -> str | None:
    """Takes an option out of a program's command line, and returns its value; None if it is not there."""
    for at, word in enumerate(options):
        if word == name and at + 1 < len(options):
            del options[at]
            return options.pop(at)
        if word.startswith(f"{name}="):
            return options.pop(at).partition("=")[2]
    return None


def write_whole(path: Path, text: str) -> None:
    """Writes a file in one step, so that nobody sees half of it; writes to a device directly."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    handle, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def refuse_file(option: str, name: str) -> None:
    """LearnError if the FILE of an option cannot be written."""
    target = Path(name)
    if target.is_dir() or not os.access(target.absolute().parent, os.W_OK):
        raise LearnError(f"{option} {name}: must be a file in a folder that exists", 2)


def refuse_json(name: str | None) -> None:
    """LearnError if the FILE of --json cannot be written."""
    if name and name != "-":
        refuse_file("--json", name)


def write_json(name: str, data: object) -> None:
    """Writes the data to the file that --json names; "-" is standard output."""
    text = json.dumps(data, indent=1) + "\n"
    if name == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(name), text)


def check_run_arguments(args: argparse.Namespace, chapters: list[project.Chapter]) -> None:
    """LearnError if the run cannot succeed, before anything is installed, built or written."""
    for path in {path: None for c in chapters for path in c.inputs().values()}:
        if not path.is_file():
            name = project.shown(path)
            raise LearnError(f"{name} is missing: `git checkout -- {name}` restores it", 2)
    refuse_json(args.json)


def run_chapter(
    console: Console,
    chapter: project.Chapter,
    dtype: str,
    preset: str,
    folder: Path,
    variants: str,
    options: list[str],
) -> tuple[int, dict | None]:
    """Runs the variants of a chapter that support an element type. Returns the exit status, and the JSON if
    any.

    @param folder   for the JSON
    @param options  more words for the program; LearnError if it refuses them
    """
    program = project.executable(chapter, preset)
    if not project.built(chapter, preset):
        raise LearnError(f"{project.shown(program)} is missing: the build did not produce it", 1)
    result = folder / f"{chapter.name}{dtype}.{preset}.json"
    on_default_input = not any(word.split("=")[0] in INPUTS for word in options)

    def command(name_of: Callable[[Path], str]) -> list[str]:
        words = ["--variant", variants]
        words += ["--dtype", dtype] if dtype else []
        if on_default_input:
            for option, path in chapter.inputs().items():
                words += [option, name_of(path)]
            words += chapter.random_input if chapter.runs_on_random_numbers else ()
        words += ["--bench"] if preset == "cuda" and "--bench" not in options else []
        return words + options

    def started(name_of: Callable[[Path], str], *more: str) -> list[str]:
        return ranks.command(program, [*command(name_of), *more], name_of(program))

    status, phase = phases.execute(
        console,
        "run",
        started(str, "--json", str(result)),
        phases.Phase.activity,
        shown=started(project.shown),
        cwd=Path.cwd() if options else folder,  # options may name files
    )
    if options and status == REFUSED:
        raise LearnError(phases.refusal(phase.output), REFUSED)
    try:
        data = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        data = None
    text = "\n".join(phase.output)
    if status < 0:
        text += f"\n{chapter.executable} was ended by {signal.Signals(-status).name}"
    elif status == 1 and data:
        # Leave out the problem and the table, which is printed later with those of all chapters.
        text = text.split("\n\n", 2)[-1].replace(f"{project.ROOT}/", "")
    elif status == 0 and not data:
        text += f"\n{chapter.executable} wrote no readable JSON"
    if status != 0 or not data:
        console.say(text)
    return status if status > 0 else int(status < 0 or not data), data


def on_random_numbers(chapters: list[project.Chapter]) -> str:
    """Why some chapters did not run on the bundled input; "" if all did."""
    numbers = [c.number for c in chapters if c.runs_on_random_numbers]
    if not numbers:
        return ""
    return f"{', '.join(numbers)}: random numbers, because the kernels take head_dim 64 and more; that of the real input is 32."  # noqa: E501


def for_other_gpus(data: dict) -> dict[str, str]:
    """The variants that need another GPU, with the program's reason."""
    skipped = {v["name"]: v["skipped"] for v in data["variants"] if "skipped" in v}
    return {name: s["reason"] for name, s in skipped.items() if s["device_too_old"]}


def run_on_simulator(
    console: Console, chapter: project.Chapter, dtype: str, data: dict, folder: Path, options: list[str]
) -> tuple[int, list[dict]]:
    """Runs on the simulator what needs another GPU. Returns the exit status, and the JSON of both runs."""
    missing = for_other_gpus(data)
    console.say(f"   not for this GPU: {', '.join(missing)}")
    setup.build(console, "sim", [chapter.executable])
    status, simulated = run_chapter(console, chapter, dtype, "sim", folder, ",".join(missing), options)
    kept = [v for v in data["variants"] if v["name"] not in missing]
    runs = [data | {"variants": kept}] if kept else []
    if simulated:
        runs.append(simulated | {"too_old": next(iter(missing.values()))})
    return status, runs


def make_report(runs: list[dict], folder: Path) -> str | None:
    """Writes build/report.html. Returns the reason if that fails.

    The Python that runs this may not have the distribution's matplotlib, so the system's Python is
    tried as well.
    """
    data, page = folder / "results.json", folder / "report.html"
    data.write_text(json.dumps(runs), encoding="utf-8")
    path = [str(project.ROOT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    why = f"{sys.executable} has no matplotlib"
    pythons = [sys.executable] if importlib.util.find_spec("matplotlib") else []
    for python in dict.fromkeys((*pythons, "/usr/bin/python3")):
        command = [python, "-m", "tools.report", str(data), str(page)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            write_whole(project.REPORT, page.read_text(encoding="utf-8"))
            return None
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        if done.returncode != NO_MATPLOTLIB:
            break
    return why


def main(console: Console, args: argparse.Namespace) -> int:
    """Sets up, builds, runs the chapters on the bundled input, and shows the results."""
    chapters = project.select(args.chapters)
    check_run_arguments(args, chapters)
    preset = setup.prepare(console, args, chapters=chapters)
    there = setup.build(console, preset, [chapter.executable for chapter in chapters])
    chapters = [chapter for chapter in chapters if chapter.executable in there]

    options = list(args.options)
    variants = take_option(options, "--variant") or "all"
    asked_dtype = take_option(options, "--dtype")
    statuses, runs = [], []
    with tempfile.TemporaryDirectory(prefix="learn-") as name:
        for chapter in chapters:
            own_preset = preset
            if preset == "cuda" and (why := setup.why_too_few_gpus([chapter], 2)):
                console.say(why)
                own_preset = "sim"
                setup.build(console, "sim", [chapter.executable])
            for dtype in [asked_dtype] if asked_dtype else chapter.dtypes():
                status, data = run_chapter(console, chapter, dtype, own_preset, Path(name), variants, options)
                statuses.append((status, chapter))
                more = [data] if data else []
                if data and data["backend"] == "cuda" and for_other_gpus(data):
                    status, more = run_on_simulator(console, chapter, dtype, data, Path(name), options)
                    statuses.append((status, chapter))
                runs += more
        if runs:
            console.say()
            console.say(table.render(results.read(runs), console.paint))
            console.say(table.HOW_TO_READ, "dim")
            if not options and (word := on_random_numbers(chapters)):
                console.say(word, "dim")
            console.say()
            why_no_report = make_report(runs, Path(name))
            if why_no_report:
                console.say(f"build/report.html was not made: {why_no_report}")
            else:
                console.say(f"plots:  {project.shown(project.REPORT)}")
    if args.json and runs:
        write_json(args.json, runs)

    bad = [(status, chapter) for status, chapter in statuses if status]
    if bad:
        names = ", ".join(dict.fromkeys(chapter.name for _, chapter in bad))
        wrong = any(status == 1 for status, _ in bad)
        what = "a wrong result or a defect in" if wrong else "could not run"
        raise LearnError(f"{what} {names}: see above", 1 if wrong else bad[0][0])
    first = chapters[0]
    exercise = Exercise(first)
    step = "check" if exercise.folder.is_dir() else "start" if exercise.exists else "test"
    console.say(f"next:   read chapters/{first.name}, then ./learn {step} {first.number}")
    return 0
