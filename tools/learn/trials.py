"""Runs a chapter's program on the inputs of its exercises, also with other kernels compiled into it.

Whatever a kernel does wrong becomes data here: defects, wrong numbers, a crash, an endless loop.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from . import kernels, machine, ranks
from .console import LearnError
from .project import ROOT, Chapter

# Seconds for all variants on one input. The chapters' own kernels take a tenth of a second.
TIME_LIMIT = 5.0
TIME_TO_END = 3.0  # for a program whose ranks must be ended by mpirun
LARGEST_FILE = 1 << 14  # blocks of 512 or 1024 bytes, for a kernel that prints forever
VARIANT = "--variant"  # the option of a chapter's program
HANGS = "hangs"
NO_DEVICE = 3  # exit status of a chapter: no usable device, which is not the kernel's fault


@dataclass(frozen=True)
class Attempt:
    """One variant on one input."""

    arguments: str  # the input: "--rows 3 --cols 33"
    variant: str
    result: dict | None  # its entry in the program's JSON
    tensors: dict | None  # from the same JSON: shape and bytes, by name
    ended: str | None = None  # HANGS, or how the program ended without a result
    prints: bool = False  # whether any kernel of the program printed something


@dataclass(frozen=True)
class Printed:
    """What the kernels of a run printed."""

    options: str  # of the program
    lines: list[str]  # the first ones
    count: int  # of all lines


class Run(NamedTuple):
    """A run of a program."""

    report: dict | None  # its JSON
    ended: str | None  # HANGS, or how it ended without JSON
    said: bytes  # what its kernels printed


def _without_table(output: bytes, report: dict | None) -> bytes:
    """What the kernels printed: what comes before the program's table, which begins with the chapter's
    name.
    """
    if not report:
        return output
    return output[: max(output.rfind(f"{report.get('chapter')}: ".encode()), 0)]


def run_contained(
    folder: Path, program: Path, words: Iterable[str], time_limit: float, env: Mapping[str, str] | None = None
) -> int | None:
    """Runs a program with a learner's code. Returns its status, or None if it hangs.

    It writes to FOLDER/output and FOLDER/errors. It has no core dumps, and its files end before they fill the
    disk.
    """
    shell = f'ulimit -c 0; ulimit -f {LARGEST_FILE}; exec "$@"'
    with (folder / "output").open("wb") as output, (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            ["sh", "-c", shell, "sh", *ranks.command(program, words)],
            cwd=folder,
            env=os.environ | {"GPUSIM_DEVICE": ""} | (env or {}),  # the default one
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            process_group=0,
        )
        try:
            return process.wait(time_limit * machine.slowdown())  # others may have the cores
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None and ranks.has(program):  # mpirun ends the others
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(TIME_TO_END)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def how_it_ended(status: int) -> str:
    """The end of "the program ..", from its exit status."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def files_in(words: Iterable[str]) -> list[Path]:
    """The files of the repository that command lines name by their paths from its root: masks, for
    example.
    """
    named = (ROOT / word for word in words if word.endswith(".npy"))
    return [path for path in named if path.is_file()]


def _once(program: Path, words: list[str], time_limit: float, env: Mapping[str, str] | None = None) -> Run:
    """Runs the program in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="learn-trial-") as name:
        folder = Path(name)
        result = folder / "result.json"
        named = {str(path.relative_to(ROOT)): path for path in files_in(words)}
        options = [str(named.get(word, word)) for word in words]
        options += ["--json", str(result)]
        status = run_contained(folder, program, options, time_limit, env)
        said = (folder / "output").read_bytes()
        if status is None:
            return Run(None, HANGS, said)
        try:
            report = json.loads(result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            complaint = (folder / "errors").read_text(errors="replace")
            return Run(None, _why_no_result(program, status, complaint), said)
        return Run(report, None, _without_table(said, report))


def _why_no_result(program: Path, status: int, complaint: str) -> str:
    """How the program ended. LearnError if it found no device."""
    if status < 0:
        return how_it_ended(status)
    said = complaint.strip().splitlines()
    errors = [line for line in said if line.startswith("error: ")] or said[-1:]
    why = errors[0].removeprefix("error: ") if errors else "it said nothing"
    if status == NO_DEVICE:
        raise LearnError(f"{program.name} cannot run here: {why}", NO_DEVICE)
    return f"{how_it_ended(status)}: {why}"


IN_ORDER = {"GPUSIM_THREADS": "1"}  # blocks of the simulator run one after the other


def variants_in(arguments: str) -> list[str]:
    """The variants that an input is for. None are named if it is for all."""
    words = shlex.split(arguments)
    return words[words.index(VARIANT) + 1].split(",") if VARIANT in words else []


def without_variant(arguments: str) -> list[str]:
    """The words of an input, less those that say which variants it is for."""
    words = shlex.split(arguments)
    if VARIANT in words:
        at = words.index(VARIANT)
        del words[at : at + 2]
    return words


def words_of(arguments: str, choice: str) -> list[str]:
    """The command line of an input for one variant, or for "all" that it is for."""
    if choice == "all":
        choice = ",".join(variants_in(arguments)) or choice
    return [VARIANT, choice, *without_variant(arguments)]


def printed(
    program: Path, arguments: str, variant: str, most: int, time_limit: float = TIME_LIMIT
) -> Printed | None:
    """What the kernels of a variant, or of "all", print on an input; None if they print nothing."""
    said = _once(program, words_of(arguments, variant), time_limit, IN_ORDER).said
    if not said:
        return None
    lines = said.removesuffix(b"\n").split(b"\n")
    shown = [line.decode("utf-8", "replace") for line in lines[:most]]
    options = arguments
    if variant != "all":
        options = shlex.join([*without_variant(arguments), VARIANT, variant])
    return Printed(options, shown, len(lines))


def profile(program: Path, variant: str, arguments: str) -> dict[str, int]:
    """How many basic blocks the threads of a variant run through, by function. Empty on a GPU, and if the
    program fails.
    """
    words = words_of(arguments, variant)
    report = _once(program, words, TIME_LIMIT, {"GPUSIM_PROFILE": "1"}).report
    results = (report or {}).get("variants", [])
    return next((r.get("blocks_of_function", {}) for r in results), {})


def _launched(result: dict, report: dict) -> dict | None:
    """A variant that was skipped has failed if the simulator's device lacks something; on a GPU, it does not
    count.

    LearnError if the GPU is too old for the chapter.
    """
    skip = result.get("skipped")
    if not skip:
        return result
    if report["backend"] == "sim":
        return {"name": result["name"], "failure": skip["reason"]}
    if all("skipped" in each for each in report["variants"]):
        raise LearnError(
            f"{report['chapter']} cannot run here: {skip['reason']} (--preset sim needs no GPU)", NO_DEVICE
        )
    return None


@functools.cache
def variants_of(program: Path) -> list[str]:
    """The names of a program's variants, in the chapter's order."""
    done = subprocess.run([program, "--list"], capture_output=True, text=True, check=False, timeout=60)
    return re.findall(r"^  (\S+)", done.stdout, flags=re.MULTILINE)


def run(
    program: Path, inputs: Iterable[str], time_limit: float = TIME_LIMIT, variant: str = "all"
) -> list[Attempt]:
    """Runs one or all variants on all inputs, and stops after the first that hangs."""
    attempts: list[Attempt] = []

    def attempt(arguments: str, choice: str) -> list[Attempt]:
        report, ended, said = _once(program, words_of(arguments, choice), time_limit)
        prints = bool(said)
        if report is None:
            return [Attempt(arguments, choice, None, None, ended, prints)]
        results = [_launched(result, report) for result in report["variants"]]
        return [
            Attempt(arguments, result["name"], result, report.get("tensors"), prints=prints)
            for result in results
            if result
        ]

    for arguments in inputs:
        found = attempt(arguments, variant)
        ended = variant == "all" and found and found[0].ended
        if ended and (names := variants_in(arguments) or variants_of(program)):  # in which variant?
            found = []
            for name in names:
                (first, *_) = tried = attempt(arguments, name)
                if f"{VARIANT} {name} cannot run this: " in (first.ended or ""):
                    continue  # "all" leaves it out
                found += tried
                if first.ended == HANGS:
                    break
        attempts += found
        if found and found[-1].ended == HANGS:
            break
    return attempts


# --- other kernels in a chapter's program ---------------------------------------------------------


# As GPUSIM_DEBUG in gpusim_kernels.cmake. The precompiled headers are for sources that are optimised.
DEBUG = " -g2 -O0 -gno-statement-frontiers -Wno-invalid-pch"


class CompileError(Exception):
    """The compiler failed; the text is its output."""


# Instead of the chapters' own ones. Blanks and wrong answers leave much unused.
WARNINGS = ("-Wall", "-Wshadow", "-Wno-unused", "-Wunused-value")
OF_CHAPTERS = re.compile(r"-W(?!no-|l,|p,|a,|invalid-pch)")


def ninja_commands(build: Path, target: str) -> list[str]:
    """The shell commands that ninja would run to make a target."""
    done = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        why = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise LearnError(f"ninja does not know the target {target} in {build}: {why}", 1)
    return [line for line in done.stdout.splitlines() if line.strip()]


def digest(parts: Iterable[bytes]) -> str:
    """A hash of the parts and their lengths."""
    total = hashlib.sha256()
    for part in parts:
        total.update(b"%d:" % len(part))
        total.update(part)
    return total.hexdigest()


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


DTYPES = {"fp32": "kFloat32", "fp16": "kFloat16", "bf16": "kBFloat16"}


def sizes_of(inputs: Iterable[str]) -> list[str]:
    """Compiler options for common/attention/launch.hpp: only kernels that these command lines run on the
    default device.
    """

    words = [shlex.split(line) for line in inputs]

    def named(option: str, default: str | None) -> set[str]:
        return {w[w.index(option) + 1] if option in w else default for w in words} - {None}

    types = (f"fa::DType::{DTYPES[name]}" for name in sorted(named("--dtype", "fp32")))
    head_dims = sorted(named("--head-dim", "64") | named("--head-dim-v", None))
    return [
        f"-DFA_HEAD_DIMS={','.join(head_dims)}",
        f"-DFA_DTYPES={','.join(types)}",
        "-DFA_LARGE_TILES_ONLY",
    ]


def most_alike(inputs: Iterable[str]) -> list[str]:
    """The command lines with the element type and the head dimension that most of them have."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for line in inputs:
        groups.setdefault(tuple(sizes_of([line])), []).append(line)
    return max(groups.values(), key=len)


# Between the brackets of `.variants = {`: strings, brackets and the commas between variants.
PIECES = re.compile(r'"(?:\\.|[^"\\])*"|[{(\[]|[})\]]|,')


LIST = ".variants = {"


def with_one_variant(source: str, name: str) -> str:
    """The text of a chapter.cu whose list of variants has one left: the compiler then drops the other
    kernels.

    A variant is an element of the list, and its first string is its name. Without such a list, the text stays
    as it is.
    """
    if LIST not in source:
        return source
    begin = source.index(LIST) + len(LIST)
    depth, start, found = 0, begin, None
    for piece in PIECES.finditer(source, begin):
        text = piece[0]
        depth += (text in "{([") - (text in "})]")
        ends = depth < 0 or (text == "," and depth == 0)
        strings = re.findall(r'"([^"]*)"', source[start : piece.start()])
        if ends and strings:  # no string: a comma between template arguments
            if strings[0] == name:
                found = source[start : piece.start()]
            start = piece.end()
        if depth < 0:
            break
    if found is None:
        raise LearnError(f"chapter.cu has no variant {name}: see exercises.toml", 1)
    return f"{source[:begin]}{found}{source[piece.start() :]}"


def launches(source: str, variant: str) -> bool:
    """Whether a source file defines launch_VARIANT(), and so has the kernels of this variant."""
    return re.search(rf"^void launch_{re.escape(variant)}\(.*\{{$", source, re.MULTILINE) is not None


def code_of(text: str) -> list[str]:
    """The lines of a source file that are not empty and not only a comment."""
    lines = map(str.strip, text.splitlines())
    return [line for line in lines if line and not line.startswith("//")]


LOCAL_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"/]+)"', re.MULTILINE)


def included_by(source: Path) -> set[str]:
    """The names of all files of its folder that a source file includes, also through others."""
    found: set[str] = set()
    left = [source]
    while left:
        for name in LOCAL_INCLUDE.findall(left.pop().read_text(encoding="utf-8")):
            if name not in found and (source.parent / name).exists():
                found.add(name)
                left.append(source.parent / name)
    return found


@dataclass(frozen=True)
class Source:
    """A source file of a chapter. Paths of commands are relative to the build."""

    path: Path
    command: str  # that compiles it
    object: str
    includes: frozenset[str]


def _with_files(line: str) -> str:
    """A command line with the hashes of the files that it names."""
    return " ".join([line, *map(file_hash, files_in(shlex.split(line)))])


def _stored(file: Path) -> dict[str, list[Attempt]]:
    """What _store() wrote; nothing if it has not."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {name: [Attempt(**each) for each in kept[name]] for name in kept}
    except (OSError, ValueError, TypeError):
        return {}


def _store(file: Path, attempts: Mapping[str, list[Attempt]]) -> None:
    """Writes attempts by input, for other processes too."""
    file.parent.mkdir(exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    table = {name: [asdict(each) for each in tried] for name, tried in attempts.items()}
    part.write_text(json.dumps(table), encoding="utf-8")
    part.replace(file)


class Workbench:
    """Builds a chapter's program with changed files, as ninja would, and runs it.

    Results are stored in BUILD/trials under a hash of everything that they depend on: the changed files, the
    two commands, the compiler, the headers, the libraries, the inputs and this module.
    """

    def __init__(self, build: Path, chapter: Chapter, debug: bool = False):
        """
        @param build  a folder where Ninja has built the chapter's program for the simulator
        @param debug  gdb knows the local variables of the programs
        """
        self._build, self._chapter = build, chapter
        self._files = sorted(
            path for path in chapter.path.iterdir() if path.suffix in (".cu", ".cuh", ".hpp")
        )
        description = (chapter.path / "chapter.cu").read_text(encoding="utf-8")
        self._lists_variants = LIST in description
        lines = ninja_commands(build, chapter.executable)
        self._link = lines[-1]
        self._sources = []  # chapter.cu, then those with kernels that it does not include
        for path in [chapter.path / "chapter.cu", *chapter.path.glob("*.cu")]:
            if any(source.path == path for source in self._sources):
                continue
            command = next(line for line in lines if str(path) in line)
            command += DEBUG if debug else ""
            words = shlex.split(command)
            to = words[words.index("-o") + 1]
            if to not in self._link:
                continue  # a program of its own, such as chapter 09's first.cu
            self._sources.append(Source(path, command, to, frozenset(included_by(path))))
        words = shlex.split(self._sources[0].command)
        programs = filter(shutil.which, words[:3])  # the compiler, and what runs it
        self._environment = digest(self._read_environment(programs))
        self._locks = collections.defaultdict(threading.Lock)  # so that no trial runs twice at the same time
        self._debug = debug
        self._kept = tempfile.TemporaryDirectory(prefix="learn-around-")
        # By what their code for the CPU depends on; None: the kernels do not compile without it.
        self._around: dict[str, kernels.Around | None] = {}

    def _read_environment(self, programs: Iterable[str]) -> Iterable[bytes]:
        yield Path(__file__).read_bytes()
        yield Path(kernels.__file__).read_bytes()
        for source in self._sources:
            yield source.command.encode()
        yield self._link.encode()
        for program in programs:
            binary = Path(shutil.which(program)).resolve()
            state = binary.stat()
            yield f"{binary} {state.st_size} {state.st_mtime_ns}".encode()
        for path in self._files:
            yield str(path).encode()
            yield path.read_bytes()
        for path in sorted((ROOT / "common").rglob("*")):
            if path.suffix in (".h", ".hpp", ".cuh"):
                yield str(path).encode()
                yield path.read_bytes()
        for word in shlex.split(self._link):
            library = self._build / word
            own = any(word == source.object for source in self._sources)
            if not own and re.search(r"\.(a|o|so)[.\d]*$", word):
                yield library.read_bytes()

    def program(
        self,
        files: Mapping[str, str],
        folder: Path,
        inputs: Iterable[str],
        variant: str | None = None,
        said: list[str] | None = None,
    ) -> Path:
        """Builds the chapter in an empty folder, for the sizes in these inputs. CompileError if that fails.

        @param files    texts by name: "kernel.cuh"
        @param variant  the only variant to build; None: all of them
        @param said     what the compiler prints is added here
        """
        self._write(files, folder)
        if variant:
            chapter = folder / "chapter.cu"
            text = with_one_variant(chapter.read_text(encoding="utf-8"), variant)
            chapter.write_text(text, encoding="utf-8")

        link, said = self._link, [] if said is None else said
        objects: list[Path] = []
        for each in self._to_compile(files, variant):
            objects += self._compile(each, files, folder, inputs, variant, said)
            if each is not self._sources[0]:
                link = link.replace(each.object, "")
        # First, because sources that are not compiled may have the same functions as they were.
        link = link.replace(self._sources[0].object, " ".join(map(str, objects)))
        link = re.sub(r"-o \S+", f"-o {folder}/program", link)
        self._call(["sh", "-c", link])
        return folder / "program"

    def _write(self, files: Mapping[str, str], folder: Path) -> None:
        """Copies the chapter's files to a folder, with changed texts for some."""
        for path in self._files:
            shutil.copy(path, folder)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")

    def _compile(
        self,
        source: Source,
        files: Mapping[str, str],
        folder: Path,
        inputs: Iterable[str],
        variant: str | None,
        said: list[str],
    ) -> list[Path]:
        """Compiles a source in a folder, or only its kernels if the rest is the same as in an earlier trial.
        Returns what to link.

        @param said  what the compiler prints is added here
        """
        path, to = folder / source.path.name, folder / f"{source.path.stem}.o"
        options = sizes_of(inputs)
        text = path.read_text(encoding="utf-8")
        parts = [source.path.name, text, *options]
        for name in sorted(files):
            parts += [name, "\n".join(kernels.without_bodies(files[name]))]
        key = digest(map(str.encode, parts))
        around = self._around.get(key)
        if around:
            only = path.with_name(f"{source.path.stem}_kernels.cu")
            only.write_text(around.source, encoding="utf-8")
            try:
                warned = self._run_compiler(source, folder, only, to, options)
                if around.are_in(to):
                    said.append(warned)
                    return [to, around.object]
            except CompileError:
                pass  # said of the whole source, it is easier to understand
        said.append(self._run_compiler(source, folder, path, to, options))
        if not self._debug and (around or key not in self._around):
            # Two trials may get here at the same time: each has a file of its own.
            kept = Path(self._kept.name) / f"{folder.name}-{source.path.stem}.o"
            self._around[key] = None if around else kernels.around(text, to, kept)
        return [to]

    def _run_compiler(self, source: Source, folder: Path, path: Path, to: Path, options: list[str]) -> str:
        """Compiles a file in a folder as the chapter's source is compiled. Returns what the compiler prints,
        as if the files were the chapter's.
        """
        words = [
            word.replace(str(source.path), str(path)).replace(str(self._chapter.path), str(folder))
            for word in shlex.split(source.command)
        ]
        for flag, values in (("-MD", 0), ("-MT", 1), ("-MF", 1)):
            while flag in words:
                at = words.index(flag)
                del words[at : at + 1 + values]
        words[words.index("-o") + 1] = str(to)
        words = [word for word in words if not OF_CHAPTERS.match(word)]

        def told(text: str) -> str:
            return text.replace(f"{folder}/", f"{self._chapter.path}/")

        try:
            return told(self._call([*words, *options, *WARNINGS]))
        except CompileError as error:
            raise CompileError(told(str(error))) from error

    def look(self, files: Mapping[str, str], inputs: Iterable[str]) -> None:
        """Lets the compiler read these files, without making code of them: a fraction of the time.
        CompileError if it finds errors.

        It reads chapter.cu, and for each file that this does not include a source that does.
        """
        left, chosen = set(files), []
        for source in self._sources:
            if source.includes & left or not chosen:
                chosen.append(source)
                left -= source.includes
        with tempfile.TemporaryDirectory(prefix="learn-look-") as name:
            folder = Path(name)
            self._write(files, folder)
            options = [*sizes_of(inputs), "-fsyntax-only"]
            nothing = Path(os.devnull)
            with ThreadPoolExecutor() as pool:
                read = [
                    pool.submit(
                        *(self._run_compiler, source, folder), *(folder / source.path.name, nothing, options)
                    )
                    for source in chosen
                ]
            for each in read:  # the first of them says most
                each.result()

    def _to_compile(self, files: Mapping[str, str], variant: str | None) -> list[Source]:
        """chapter.cu, and the sources that include a file with changes. If only one variant is wanted, that
        is, for a quick trial, a new comment is no change, and chapter.cu alone is enough if it includes all
        of these files, or with it the source that defines launch_VARIANT().
        """
        chapter, *others = self._sources
        if variant:
            own = [each for each in others if launches(each.path.read_text(encoding="utf-8"), variant)]
            if own:
                return [chapter, *own]
        read = code_of if variant else str
        originals = {path.name: path for path in self._files}
        changed = {
            name
            for name, text in files.items()
            if name not in originals or read(text) != read(originals[name].read_text(encoding="utf-8"))
        }
        if variant:
            changed -= chapter.includes
        return [chapter, *(each for each in others if each.includes & changed)]

    def _call(self, words: list[str]) -> str:
        done = subprocess.run(words, cwd=self._build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CompileError(done.stderr or done.stdout)
        return done.stderr

    @property
    def executable(self) -> Path:
        """The chapter's own program."""
        return self._build / "bin" / self._chapter.executable

    def solution(self, inputs: tuple[str, ...]) -> list[Attempt]:
        """The attempts of the chapter's own program."""
        hashes = map(file_hash, (Path(__file__), self.executable))
        key = digest(map(str.encode, hashes))
        with self._locks[key]:
            return self._kept_or(inputs, key, lambda left: run(self.executable, left))

    def try_files(
        self, files: Mapping[str, str], inputs: list[str], variant: str | None = None
    ) -> list[Attempt]:
        """Builds the chapter with these files, as program() does, and runs it. CompileError if the build
        fails.

        An input that the same program has run on is not repeated.
        """
        key = self._key(files, inputs, variant)

        def tried(left: list[str]) -> list[Attempt]:
            with tempfile.TemporaryDirectory(prefix="learn-build-") as name:
                said: list[str] = []
                program = self.program(files, Path(name), inputs, variant, said)
                kept = self._trial(key, ".compiler")
                kept.parent.mkdir(exist_ok=True)
                kept.write_text("".join(said), encoding="utf-8")
                if variant and not self._lists_variants:  # it still has all of them
                    return run(program, left, variant=variant)
                return run(program, left)

        with self._locks[key]:
            return self._kept_or(inputs, key, tried)

    def compiler_said(self, files: Mapping[str, str], inputs: list[str], variant: str | None = None) -> str:
        """The compiler's warnings on these files, which have been tried; "" if they have not."""
        said = self._trial(self._key(files, inputs, variant), ".compiler")
        return said.read_text(encoding="utf-8") if said.exists() else ""

    def _key(self, files: Mapping[str, str], inputs: Iterable[str], variant: str | None) -> str:
        texts = [part for name in sorted(files) for part in (name, files[name])]
        parts = [self._environment, *texts, *sizes_of(inputs), variant or "all"]
        return digest(map(str.encode, parts))

    def _trial(self, key: str, ending: str) -> Path:
        return self._build / "trials" / f"{key}{ending}"

    def _kept_or(
        self, inputs: Iterable[str], key: str, tried: Callable[[list[str]], list[Attempt]]
    ) -> list[Attempt]:
        """The stored attempts, and new ones on those inputs of which there are none."""
        kept = self._trial(key, ".json")
        found = _stored(kept)
        names = {line: _with_files(line) for line in inputs}
        if left := [line for line in names if names[line] not in found]:
            attempts = tried(left)
            for line in left:
                found[names[line]] = [a for a in attempts if a.arguments == line]
            if not any(attempt.ended == HANGS for attempt in attempts):
                _store(kept, found)
        return [attempt for line in names for attempt in found[names[line]]]
