"""./learn watch: a page that shows, step by step, what a block of a kernel does in the simulator."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import checking, exercises, project, setup, trials, views, watching
from ..console import Console, LearnError
from .check import configured, show_failure
from .debug import build_answer
from .profile import SIM
from .run import refuse_file
from .try_ import say_blanks

HELP = "make a page that shows, step by step, what the warps of a block do"
FOLDER = project.ROOT / "build" / "watch"
OPENERS = ("xdg-open", "wslview")


def add_own(parser: argparse.ArgumentParser) -> None:
    setup.add_no_install(parser)
    parser.add_argument("--exercise", action="store_true", help="watch your own kernels, from exercises/")
    parser.add_argument(
        "--answer",
        type=int,
        metavar="N",
        help="watch your answer to exercise N, with the solutions of all others, as check tests it",
    )
    parser.add_argument("--variant", metavar="V", help="which kernel; default: the chapter's last")
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        dest="blocks",
        metavar="X,Y,Z",
        help="this block, and others if it is given again; default: the one in the middle of the grid",
    )
    parser.add_argument(
        "--at", metavar="ELEMENT", help="the block that wrote this element, when it did: --at 'o[0,1,17,5]'"
    )
    parser.add_argument(
        "--input", type=int, metavar="N", help="with --exercise or --answer: the N-th input that check tries"
    )
    parser.add_argument(
        "--view", type=int, metavar="K", help="a prepared view: the moment that the lesson speaks of"
    )
    parser.add_argument("--out", metavar="FILE", help="the page; default: build/watch/NN_variant.html")
    parser.add_argument("--no-open", action="store_true", help="do not open the page in a browser")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="NN", help="the chapter: 01")
    add_own(parser)
    setup.add_program_options(parser, "a small problem")


# --- the program ----------------------------------------------------------------------------------


def refuse(args: argparse.Namespace, chapter: project.Chapter) -> None:
    """LearnError if the options contradict one another, or the page cannot be written, before anything is
    built.
    """
    if args.view is not None:
        others = {
            "--variant": args.variant,
            "--block": args.blocks,
            "--at": args.at,
            "--answer": args.answer is not None,
            "--input": args.input is not None,
            " ".join(args.options): args.options,
        }
        if other := next((name for name, given in others.items() if given), None):
            raise LearnError(
                f"--view {args.view} has a variant, a block and options of its own: leave out {other}", 2
            )
    if args.at and args.blocks:
        raise LearnError("--at chooses the block that writes the element: leave out --block", 2)
    if args.at and chapter.has_ranks:
        raise LearnError(
            f"--at {args.at}: each rank of chapter {chapter.number} has a slice of a tensor: leave out --at",
            2,
        )
    if args.input is not None and args.options:
        raise LearnError(f"--input {args.input} is an input: leave out {shlex.join(args.options)}", 2)
    if args.out:
        refuse_file("--out", args.out)


def exercise_of(args: argparse.Namespace) -> exercises.Exercise | None:
    """The learner's exercises, if the learner's kernels are to be watched. LearnError if there are none."""
    if not args.exercise and args.answer is None:
        return None
    exercise = exercises.select_one(args.chapter)
    exercise.own_copy()  # LearnError if the chapter is not started
    if args.answer is not None:
        exercise.region(args.answer)  # LearnError if there is none
    return exercise


def options_of(
    args: argparse.Namespace, chapter: project.Chapter, exercise: exercises.Exercise | None
) -> list[str]:
    """The options of the program. LearnError if --input names no input."""
    if args.input is None:
        if args.options or args.answer is None:
            return args.options or views.of(chapter).options
        # It is built for these.
        return trials.without_variant(exercise.inputs_of(args.answer)[-1])
    if not exercise:
        raise LearnError("--input needs --exercise or --answer", 2)
    if not 0 < args.input <= len(exercise.inputs):
        last = len(exercise.inputs)
        raise LearnError(f"--input {args.input}: must be 1 to {last}", 2)
    return trials.without_variant(exercise.inputs[args.input - 1])


def variant_of(
    args: argparse.Namespace, chapter: project.Chapter, exercise: exercises.Exercise | None, program: Path
) -> str:
    """The variant to run. LearnError if a program of the chapter has no such variant."""
    known = trials.variants_of(program)
    if args.variant and args.variant not in known:
        raise LearnError(
            f"--variant {args.variant}: must be one of those of chapter {chapter.number}: {', '.join(known)}",
            2,
        )
    usual = exercise.variant_of(args.answer) if exercise else None
    return args.variant or usual or known[-1]


def built(
    console: Console,
    args: argparse.Namespace,
    chapter: project.Chapter,
    exercise: exercises.Exercise | None,
    options: list[str],
) -> tuple[Path, str] | None:
    """The program, built for the simulator, and the variant to run.

    None if the learner's files do not compile, which has been said.
    """
    programs = project.build_folder(SIM) / "bin"
    if exercise and args.answer is None:
        build = configured(console, SIM)
        failed, _ = checking.build_own(console, build, exercise)
        if failed:
            show_failure(console, exercise, failed)
            return None
        program = programs / exercise.target
        return program, variant_of(args, chapter, exercise, program)
    setup.build(console, SIM, [chapter.executable])
    program = programs / chapter.executable
    variant = variant_of(args, chapter, exercise, program)
    if args.answer is not None:
        number = args.answer
        program = build_answer(exercise, number, options, "watch", variant)
    return program, variant


# --- what the learner reads -----------------------------------------------------------------------


def in_megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def say_contents(console: Console, run: watching.Run) -> None:
    """Prints which blocks the page shows, what was left out, and what is wrong with the kernel."""
    for section in run.sections:
        block, grid = (section[key] for key in ("block", "grid"))
        events = section["end"] - section["begin"]
        text = (
            f"{section['kernel']}: block {watching.in_words(block)} of {watching.in_words(grid, ' x ')}, "
            f"{counted(section['warps'], 'warp')}, {counted(events, 'event')}"
        )
        if section["left_out"]:
            text += f"; the {section['left_out']:,} after them are left out"
        console.wrap(text, "   ")
    if trouble := run.trouble():
        console.wrap(trouble, "note:  ", style="yellow")


def say_views(console: Console, chapter: project.Chapter) -> None:
    for view in views.of(chapter).views:
        console.say(f"   {view.command}   {view.title}", "dim")


def open_in_browser(console: Console, page: Path) -> None:
    """Opens the page if a person is there to see it."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    opener = next((path for name in OPENERS if (path := shutil.which(name))), None)
    if opener and has_screen and sys.stdout.isatty() and not os.environ.get("CI"):
        subprocess.Popen(
            [opener, page],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    else:
        console.say("open it in a browser; it needs no network", "dim")


# --- the command ----------------------------------------------------------------------------------


def page_of(args: argparse.Namespace, chapter: project.Chapter, what: str) -> Path:
    """Where the page goes. @param what  the variant, or the view"""
    if args.out:
        return Path(args.out).absolute()
    name = f"{chapter.number}_{what}"
    if args.answer is not None:
        name += f"_answer_{args.answer}"
    elif args.exercise:
        name += "_exercise"
    return FOLDER / f"{name}.html"


def title_of(args: argparse.Namespace, chapter: project.Chapter, variant: str) -> str:
    title = f"{chapter.number} {variant}"
    if args.answer is not None:
        return f"{title}, answer to exercise {args.answer}"
    return f"{title}, exercises" if args.exercise else title


def write_page(
    console: Console,
    request: watching.Request,
    place: watching.Place | None,
    folder: Path,
    path: Path,
    title: str,
) -> tuple[watching.Run, int]:
    """Records what is asked for, and writes the page. Returns the run and the page's size.

    @param place   an element whose last write the page shows
    @param folder  for files that are of no use later
    """
    if not place:
        run = watching.record(console, request, folder, "watch")
        return run, watching.write(run, path, title)
    request, element = watching.writing(console, request, place, folder)
    run = watching.record(console, request, folder, "watch")
    event = element.last_write(run.recorded)
    if event is None:
        console.say(f"note:  no block writes {place.shown}", "yellow")
    return run, watching.write(run, path, title, event, "tensors")


def main(console: Console, args: argparse.Namespace) -> int:
    """Builds the program, runs it with the recorder on, and writes the page."""
    chapter = project.select([args.chapter])[0]
    refuse(args, chapter)
    blocks = tuple(watching.block_of(word) for word in args.blocks)
    place = watching.place_of(args.at) if args.at else None
    view = None if args.view is None else views.select(chapter, args.view)
    exercise = exercise_of(args)
    options = options_of(args, chapter, exercise)
    args.preset = SIM
    setup.prepare(console, args)
    chosen = built(console, args, chapter, exercise, options)
    if not chosen:
        return 1
    program, variant = chosen
    with tempfile.TemporaryDirectory(prefix="learn-watch-") as name:
        folder = Path(name)
        if view:
            path = page_of(args, chapter, f"view_{view.number}")
            run, size = watching.write_view(console, view, program, folder, path, "watch")
        else:
            request = watching.Request(program, variant, options, blocks)
            path = page_of(args, chapter, variant)
            title = title_of(args, chapter, variant)
            run, size = write_page(console, request, place, folder, path, title)
    if exercise and args.answer is None:
        say_blanks(console, exercise)
    console.say(f"page:  {project.shown(path)} ({in_megabytes(size)})", "bold")
    say_contents(console, run)
    if not args.no_open:
        open_in_browser(console, path)
    if view:
        console.wrap(view.see, "see:   ")
    elif not exercise:
        say_views(console, chapter)
    return 0
