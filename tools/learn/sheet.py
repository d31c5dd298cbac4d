"""A chapter's exercises.toml: the inputs that answers are tested with, and the hints and stubs of each
exercise.

docs/authoring.md explains the fields. Any mistake in the file, or in a mark, raises a RegionError of one
line.
"""

from __future__ import annotations

import dataclasses
import functools
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import bugs, opens, predictions, regions
from .counts import COUNTS, LEAST
from .regions import Region, RegionError

NAME = "exercises.toml"
DEFAULT_FILES = ["kernel.cuh"]
LIMITS = (
    "tiles",
    "sectors",
    "conflicts",
    "mma",
    "wgmma",
    "barriers",
    "shuffles",
    "votes",
    "over_waited",
    "wavefronts",
    "late_arrivals",
    "steps_before_arrivals",
    "mbarrier_waits",
    "named_barrier_threads",
    "shared_bytes",
)

# The defects that `more` can have a question for: diagnosis.DEFECTS.
DEFECTS = (
    "out_of_bounds",
    "misaligned",
    "misuse",
    "barrier_divergence",
    "wgmma",
    "missing_fence",
    "race",
    "uninitialized_read",
)

OTHER_KINDS = ("hang", "crash", "numbers", "fault", "traffic")  # of findings, which `more` may name as well

STRING, STRINGS, TABLES = "a string", "a list of strings", "a list of tables"
NUMBER, SWITCH, NUMBERS = "a number", "true or false", "a table of numbers"
TEXTS = "a table of strings"

# The keys of each table and the types of their values; keys that end with ? are optional.
OF_FILE = {
    "inputs": STRINGS,
    "files?": STRINGS,
    "try?": STRING,
    **{f"limit_{name}?": SWITCH for name in LIMITS},
    **{f"least_{name}?": SWITCH for name in LEAST},
    "exercise": TABLES,
    "open?": TABLES,
    "bug?": TABLES,
    "predict?": TABLES,
}
OF_EXERCISE = {
    "number": NUMBER,
    "minutes": NUMBER,
    "hints": STRINGS,
    "stub": STRING,
    "bug?": SWITCH,
    "only?": STRING,
    "variant?": STRING,
    "free?": STRINGS,
    "wrong?": TABLES,
    "right?": TABLES,
    "more?": TEXTS,
    "watch?": TEXTS,
}
OF_WATCH = dict.fromkeys(("function", "variant", "input", "says"), STRING)
OF_RIGHT = dict.fromkeys(("name", "from", "to"), STRING)
OF_WRONG = dict.fromkeys(("name", "from", "to", "caught_by", "says"), STRING)
OF_OPEN = {
    "task": STRING,
    "minutes": NUMBER,
    "variant": STRING,
    "input": STRING,
    "at_most": NUMBERS,
    "may_exceed?": STRINGS,
    "hints": STRINGS,
    "answer": TABLES,
    "wrong?": TABLES,
}
OF_ANSWER = {"file?": STRING, "from": STRING, "to": STRING}
OF_WRONG_ANSWER = OF_WRONG | {"file?": STRING}
OF_BUG = {
    "task": STRING,
    "minutes": NUMBER,
    "variant": STRING,
    "file?": STRING,
    "from": STRING,
    "to": STRING,
    "hints": STRINGS,
    "why": STRING,
    "caught_by": STRING,
    "says": STRING,
    "limits?": STRINGS,
}
OF_PREDICTION = {"question": STRING, "minutes": NUMBER, "variant": STRING, "input": STRING, "number": TABLES}
OF_NUMBER = {"count": STRING, "words": STRING, "why": STRING, "forgotten?": TABLES, "terms?": TEXTS}
OF_FORGOTTEN = {"value": STRING, "says": STRING}


@dataclass(frozen=True)
class Mutant:
    """A wrong answer that people really give, and the finding that it must cause."""

    exercise: int
    name: str
    solution: tuple[str, ...]  # the wrong one
    caught_by: str  # one of diagnosis.KINDS, "compile", or "note"
    says: str  # words of the finding that `check` prints


@dataclass(frozen=True)
class Right:
    """An answer other than the solution that must pass."""

    exercise: int
    name: str
    solution: tuple[str, ...]


@dataclass(frozen=True)
class Watch:
    """A function of the kernel that takes time, so that an answer should call it no more often than the
    solution.
    """

    function: str
    variant: str
    input: str
    says: str  # what to ask of an answer that does


def _is(value: object, kind: str) -> bool:
    if kind in (STRINGS, TABLES):
        inner = str if kind == STRINGS else dict
        return isinstance(value, list) and all(isinstance(x, inner) for x in value)
    if kind in (NUMBERS, TEXTS):
        inner = int if kind == NUMBERS else str
        return isinstance(value, dict) and all(type(x) is inner for x in value.values())
    types = {STRING: str, NUMBER: int, SWITCH: bool}
    return type(value) is types[kind]


def check(table: dict, keys: dict[str, str], where: str) -> None:
    """RegionError unless a table has all required keys, no unknown ones, and values of the right types."""
    known = {key.rstrip("?"): kind for key, kind in keys.items()}
    for key, value in table.items():
        if key not in known:
            names = ", ".join(known)
            raise RegionError(f"{where}: `{key}` is unknown: the keys are {names}")
        if not _is(value, known[key]):
            raise RegionError(f"{where}: `{key}` must be {known[key]}")
    for key in keys:
        if not key.endswith("?") and key not in table:
            raise RegionError(f"{where}: `{key}` is missing")


@dataclass(frozen=True)
class Sheet:
    """The contents of exercises.toml."""

    folder: Path  # the chapter's
    shown: str  # the folder, as messages name it

    @property
    def where(self) -> str:
        return f"{self.shown}/{NAME}"

    @functools.cached_property
    def table(self) -> dict:
        """The file as a table, after every key was checked."""
        try:
            table = tomllib.loads((self.folder / NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # missing, not UTF-8, or not TOML
            why = error.strerror if isinstance(error, OSError) else error
            raise RegionError(f"{self.where}: {why}") from error
        check(table, OF_FILE, self.where)
        for number, entry in enumerate(table["exercise"], 1):
            where = f"{self.where}: exercise {number}"
            check(entry, OF_EXERCISE, where)
            if entry["number"] != number:
                raise RegionError(f"{where} has the number {entry['number']}")
            if not entry["hints"]:
                raise RegionError(f"{where} has no hints")
            if not entry["stub"].strip():
                raise RegionError(f"{where} has an empty stub")
            only = entry.get("only")
            if only and not any(only in line for line in table["inputs"]):
                raise RegionError(f"{where}: no input has `only`: {only}")
            for kind in entry.get("more", {}):
                key = f"{'least' if kind in LEAST else 'limit'}_{kind}"
                if kind in LIMITS + LEAST and not table.get(key):
                    raise RegionError(f"{where}: `more` has {kind}, but there is no `{key} = true`")
                if kind not in (*LIMITS, *LEAST, *DEFECTS, *OTHER_KINDS):
                    raise RegionError(f"{where}: `more` has {kind}, which is no kind of finding")
            if "watch" in entry:
                check(entry["watch"], OF_WATCH, f"{where}: `watch`")
            for at, wrong in enumerate(entry.get("wrong", []), 1):
                check(wrong, OF_WRONG, f"{where}: wrong answer {at}")
            for at, right in enumerate(entry.get("right", []), 1):
                check(right, OF_RIGHT, f"{where}: right answer {at}")
        if not table["inputs"]:
            raise RegionError(f"{self.where}: there are no inputs")
        files = table.get("files", DEFAULT_FILES)
        for name in files:
            if not (self.folder / name).is_file() or "/" in name:
                raise RegionError(f"{self.where}: there is no file {name}")
        if not files or len(set(files)) < len(files):
            raise RegionError(f"{self.where}: `files` must name each file once")
        return table

    @property
    def inputs(self) -> list[str]:
        """The command lines that an answer is tested with, from small to large."""
        return self.table["inputs"]

    def inputs_of(self, number: int) -> list[str]:
        """The inputs of one exercise: all, or those that contain its `only`."""
        only = self.table["exercise"][number - 1].get("only", "")
        return [line for line in self.inputs if only in line]

    def variant_of(self, number: int) -> str | None:
        """The variant on which an answer is tried first."""
        return self.table["exercise"][number - 1].get("variant")

    def more_of(self, number: int) -> dict[str, str]:
        """What `check` adds if an answer exceeds a limit or has a defect, by kind."""
        return self.table["exercise"][number - 1].get("more", {})

    def free_of(self, number: int) -> list[str]:
        """The tensors of which an answer may move any number of bytes."""
        return self.table["exercise"][number - 1].get("free", [])

    @functools.cached_property
    def watches(self) -> dict[int, Watch]:
        """The functions that an answer should not call in vain, by exercise."""
        return {
            entry["number"]: Watch(**entry["watch"]) for entry in self.table["exercise"] if "watch" in entry
        }

    @property
    def limits(self) -> list[str]:
        """What an answer must not have more of than the solution, or for LEAST, less of."""
        most = [name for name in LIMITS if self.table.get(f"limit_{name}", False)]
        least = [name for name in LEAST if self.table.get(f"least_{name}", False)]
        return most + least

    @property
    def try_input(self) -> str:
        """What `try` runs if it is given no input; "" for the program's own."""
        return self.table.get("try", "")

    @property
    def files(self) -> list[str]:
        """The names of the files that contain exercises."""
        return self.table.get("files", DEFAULT_FILES)

    @functools.cached_property
    def texts(self) -> dict[str, str]:
        """The text of each of these files, by name."""
        return {name: (self.folder / name).read_text(encoding="utf-8") for name in self.files}

    @functools.cached_property
    def regions(self) -> list[Region]:
        """The exercises, with their hints and stubs."""
        marked: list[Region] = []
        for name, text in self.texts.items():
            found = regions.parse(text, name, self.shown, len(marked) + 1)
            if not found:
                raise RegionError(f"{self.shown}/{name} marks no exercise")
            marked += found
        entries = self.table["exercise"]
        if len(marked) > len(entries):
            region = marked[len(entries)]
            raise RegionError(
                f"{self.shown}/{region.file}:{region.begin + 1}: EXERCISE {region.number} is not in {NAME}"
            )
        if len(marked) < len(entries):
            files = " or ".join(self.files)
            raise RegionError(f"{self.where}: exercise {len(marked) + 1} is not in {files}")
        return [
            dataclasses.replace(
                region,
                minutes=entry["minutes"],
                hints=tuple(entry["hints"]),
                stub=_indented(entry["stub"], region.indent),
                is_bug=entry.get("bug", False),
            )
            for region, entry in zip(marked, entries, strict=True)
        ]

    @functools.cached_property
    def opens(self) -> list[opens.Open]:
        """The open exercises."""
        return [
            self._open(entry, f"{self.where}: open exercise {at}")
            for at, entry in enumerate(self.table.get("open", []), 1)
        ]

    def _open(self, entry: dict, where: str) -> opens.Open:
        check(entry, OF_OPEN, where)
        if not entry["at_most"] or not entry["hints"] or not entry["answer"]:
            raise RegionError(f"{where} needs `at_most`, `hints` and an `answer`")
        for name in entry["at_most"]:
            if name not in COUNTS:
                known = ", ".join(COUNTS)
                raise RegionError(f"{where}: `{name}` is no count: must be {known}")
        edits = [
            self._edit(edit, OF_ANSWER, f"{where}: edit {at}") for at, edit in enumerate(entry["answer"], 1)
        ]
        wrong = [
            opens.Wrong(
                name=table["name"],
                edit=self._edit(table, OF_WRONG_ANSWER, f"{where}: wrong answer {at}"),
                caught_by=table["caught_by"],
                says=table["says"],
            )
            for at, table in enumerate(entry.get("wrong", []), 1)
        ]
        fields = {key: entry[key] for key in ("task", "minutes", "variant", "input")}
        for name in entry.get("may_exceed", []):
            if name not in self.limits:
                raise RegionError(f"{where}: `{name}` is no limit of this chapter")
        return opens.Open(
            **fields,
            at_most=entry["at_most"],
            may_exceed=tuple(entry.get("may_exceed", [])),
            hints=tuple(entry["hints"]),
            answer=tuple(edits),
            wrong=tuple(wrong),
        )

    @functools.cached_property
    def bugs(self) -> list[bugs.Bug]:
        """The bug exercises."""
        found = []
        for at, entry in enumerate(self.table.get("bug", []), 1):
            where = f"{self.where}: bug {at}"
            check(entry, OF_BUG, where)
            if not entry["hints"]:
                raise RegionError(f"{where} has no hints")
            for name in entry.get("limits", []):
                if name not in LIMITS:
                    raise RegionError(f"{where}: `{name}` is no limit: must be {', '.join(LIMITS)}")
            edit = self._edit(
                {key: entry[key] for key in ("file", "from", "to") if key in entry}, OF_ANSWER, where
            )
            fields = {key: entry[key] for key in ("task", "minutes", "variant", "why", "caught_by", "says")}
            lists = {key: tuple(entry.get(key, ())) for key in ("hints", "limits")}
            found.append(bugs.Bug(number=at, edit=edit, **fields, **lists))
        return found

    @functools.cached_property
    def predictions(self) -> list[predictions.Prediction]:
        """The numbers to predict."""
        found = []
        for at, entry in enumerate(self.table.get("predict", []), 1):
            where = f"{self.where}: prediction {at}"
            check(entry, OF_PREDICTION, where)
            numbers = tuple(self._number(table, where) for table in entry["number"])
            fields = {key: entry[key] for key in ("question", "minutes", "variant", "input")}
            found.append(predictions.Prediction(number=at, numbers=numbers, **fields))
        return found

    @staticmethod
    def _number(table: dict, where: str) -> predictions.Number:
        check(table, OF_NUMBER, where)
        if table["count"] not in COUNTS:
            raise RegionError(f"{where}: `{table['count']}` is no count: must be {', '.join(COUNTS)}")

        def number(text: str) -> float:
            try:
                return predictions.value(text)
            except ValueError as error:
                raise RegionError(f"{where}: {text!r} is no number") from error

        forgotten = []
        for entry in table.get("forgotten", []):
            check(entry, OF_FORGOTTEN, where)
            number(entry["value"])
            forgotten.append((entry["value"], entry["says"]))
        terms = tuple((name, number(text)) for name, text in table.get("terms", {}).items())
        return predictions.Number(table["count"], table["words"], table["why"], tuple(forgotten), terms)

    def _edit(self, table: dict, keys: dict[str, str], where: str) -> opens.Edit:
        check(table, keys, where)
        file = table.get("file", self.files[0])
        count = self.texts.get(file, "").count(table["from"])
        if count != 1:
            raise RegionError(f"{where}: `from` occurs {count} times in {file}; it must occur once")
        return opens.Edit(file, table["from"], table["to"])

    def mutants(self) -> list[Mutant]:
        """The wrong answers."""
        return [
            Mutant(region.number, wrong["name"], lines, wrong["caught_by"], wrong["says"])
            for region, wrong, lines in self._changed("wrong")
        ]

    def rights(self) -> list[Right]:
        """Right answers other than the solutions."""
        return [Right(region.number, right["name"], lines) for region, right, lines in self._changed("right")]

    def _changed(self, kind: str) -> Iterator[tuple[Region, dict, tuple[str, ...]]]:
        """The solutions as the entries of a kind change them. @param kind  "wrong" or "right" """
        for region, entry in zip(self.regions, self.table["exercise"], strict=True):
            solution = "\n".join(region.solution)
            for change in entry.get(kind, []):
                count = solution.count(change["from"])
                if count != 1:
                    raise RegionError(
                        f"{self.where}: exercise {region.number}: {change['name']}: `from` occurs {count} "
                        f"times in the solution; it must occur once"
                    )
                yield region, change, tuple(solution.replace(change["from"], change["to"]).splitlines())


def _indented(stub: str, indent: str) -> tuple[str, ...]:
    """The lines of a stub, indented as in the file. The stub itself may have any indentation."""
    lines = textwrap.dedent(stub.strip("\n")).rstrip().splitlines()
    return tuple(f"{indent}{line}".rstrip() for line in lines)
