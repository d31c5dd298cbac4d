"""Turns the attempts of a kernel into one finding: what is wrong with it, in the words of the chapter."""

from __future__ import annotations

import copy
import itertools
import math
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from . import ranks
from .counts import LEAST
from .trials import HANGS, Attempt

# The kinds of findings; if there are several, the first of them is reported. A kernel that writes to a wrong
# address usually has wrong numbers too, and the address is the better hint.
DEFECTS = {
    "out_of_bounds": "reads or writes outside of an array",
    "misaligned": "reads or writes at an address that is not a multiple of the access size",
    "misuse": "uses an instruction in a way that CUDA does not allow",
    "barrier_divergence": "has a barrier, or an operation of a warp, that not all threads reach",
    "wgmma": "does not keep the rules of wgmma",
    "missing_fence": "lacks a fence between stores and an asynchronous operation that reads them",
    "race": "has a race",
    "uninitialized_read": "reads memory that nothing has written",
}
# In the first report: everything else follows from this wait for a barrier.
PASSED_TOO_EARLY = "returned at once"
OPERATIONS = (  # in `ops`
    "mma",
    "wgmma",
    "barriers",
    "shuffles",
    "votes",
    "over_waited",
)
KINDS = (
    "hang",
    "crash",
    *DEFECTS,
    "did_not_run",
    "numbers",
    "fault",
    "traffic",
    "tiles",
    "sectors",
    "conflicts",
    *OPERATIONS,
    "wavefronts",
    "late_arrivals",
    "mbarrier_waits",
    "named_barrier_threads",
    "shared_bytes",
    *LEAST,
    "steps_before_arrivals",
    "examples",
)

MOST_SHARED_BYTES = 227 * 1024  # of a block on an H100

SIGNALS = {
    "SIGSEGV": "it used an address where there is no memory",
    "SIGABRT": "it threw an exception, or called abort()",
    "SIGFPE": "it divided an integer by 0",
    "SIGILL": "it ran into an instruction that does not exist",
    "SIGXFSZ": "it printed without end",
}

DEADLOCK = "deadlock: "  # the simulator's word for ranks that wait for each other

# What each index of a tensor counts, by the tensor's rank.
AXES = {
    1: ("head",),
    2: ("row", "column"),
    3: ("batch", "head", "query"),
    4: ("batch", "head", "row", "column"),
}
EVERY_ELEMENT = "every element is wrong"
PLURALS = {"query": "queries", "batch": "batches"}


@dataclass
class Finding:
    """What is wrong with a variant, on the first input that shows it."""

    kind: str  # one of KINDS
    variant: str
    arguments: str
    headline: str  # "y is wrong", after the variant's name
    details: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # in kernels: "kernel.cuh:48"
    at: str = ""  # the first wrong element: "y[0,5]"
    block: str = ""  # of the first defect: "1,0,0"


def _plural(word: str) -> str:
    return PLURALS.get(word, f"{word}s")


def number(value: float | str) -> str:
    """A number as text. JSON has no NaN and no infinity, so these arrive as words."""
    return value if isinstance(value, str) else f"{value:.6g}"


# --- one attempt ----------------------------------------------------------------------------------


def _excess(attempt: Attempt) -> dict[tuple[str, str], tuple[int, int]]:
    """Where the kernel moved more bytes than the chapter's formula allows: (tensor, direction): (counted,
    allowed).
    """
    traffic = attempt.result.get("traffic", {})
    if "counted" not in traffic:
        return {}
    predicted = traffic["predicted"]["tensors"]
    excess = {}
    for tensor, counted in traffic["counted"]["tensors"].items():
        if predicted.get(tensor, {}).get("at_least"):  # how many more depends on the inputs
            continue
        for direction in ("read", "write"):
            allowed = predicted.get(tensor, {}).get(f"{direction}_bytes", 0)
            if counted[f"{direction}_bytes"] > allowed:
                excess[tensor, direction] = counted[f"{direction}_bytes"], allowed
    return excess


SMALLEST_ACCESS = 4  # bytes: each touches a sector at most


def without_excess(attempt: Attempt, tensors: list[str]) -> Attempt:
    """The attempt as if it moved no more bytes of these tensors than the formula says, nor more sectors."""
    if not tensors or not attempt.result:
        return attempt
    result = copy.deepcopy(attempt.result)
    for (tensor, direction), (counted, allowed) in _excess(attempt).items():
        if tensor in tensors:
            of_all = result["traffic"]["counted"]
            of_all["tensors"][tensor][f"{direction}_bytes"] = allowed
            of_all[f"{direction}_bytes"] -= counted - allowed
            of_all[f"{direction}_sectors"] -= (counted - allowed) // SMALLEST_ACCESS
    return replace(attempt, result=result)


def _shared_bytes(attempt: Attempt) -> int:
    return attempt.result.get("shared", {}).get("bytes_per_block", 0)


def kind_of(attempt: Attempt) -> str | None:
    """The first of KINDS that applies to this attempt; None if nothing is wrong with it."""
    if attempt.ended:
        waits = attempt.ended == HANGS or DEADLOCK in attempt.ended
        return "hang" if waits else "crash"
    defects = attempt.result.get("defects", [])
    if defects and PASSED_TOO_EARLY in defects[0]["message"]:
        return defects[0]["kind"]
    kinds = {defect["kind"] for defect in defects}
    for kind in DEFECTS:
        if kind in kinds:
            return kind
    if "failure" in attempt.result or _shared_bytes(attempt) > MOST_SHARED_BYTES:
        return "did_not_run"
    check = attempt.result.get("check", {})
    if not check.get("passed", True) and "known_failure" not in check:
        return "numbers"
    if "fault" in attempt.result:
        return "fault"
    return "traffic" if _excess(attempt) else None


def passed(attempts: list[Attempt]) -> bool:
    return all(kind_of(attempt) is None for attempt in attempts)


# --- wrong numbers --------------------------------------------------------------------------------


def _times(factor: float) -> str:
    return f"{factor:.3g} times what they should be"


def _list(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _ranges(axis: dict, name: str) -> str | None:
    """ "columns 8 to 15 and 24 to 31 of 64", or "columns 8 to 15 of every 16"; None if there are too many
    ranges.
    """
    ranges = axis.get("ranges")
    if not ranges:
        return None
    parts = [f"{a} to {b}" if a < b else f"{a}" for a, b in ranges]
    if period := axis["period"]:
        return f"{_plural(name)} {_list(parts)} of every {period}"
    return f"{_plural(name)} {_list(parts)} of {axis['length']}"


def columns_in_words(columns: list[int]) -> str:
    """[0, 1, 2, 5] -> "columns 0 to 2 and 5". Of many ranges, only the first two are named."""
    ranges: list[list[int]] = []
    for column in columns:
        if ranges and ranges[-1][1] == column - 1:
            ranges[-1][1] = column
        else:
            ranges.append([column, column])
    parts = [f"{a} to {b}" if a < b else f"{a}" for a, b in ranges]
    if len(parts) > 3:
        parts = [*parts[:2], f"{sum(b - a + 1 for a, b in ranges[2:])} more"]
    return f"column{'s' if len(columns) > 1 else ''} {_list(parts)}"


def _where(axis: dict, name: str) -> str | None:
    """The wrong indices of an axis in words; None if all of them are wrong."""
    length, count, first, last = (axis[k] for k in ("length", "count", "first", "last"))
    if count == length:
        return None
    many = _plural(name)
    if count == 1:
        at = f", the {'first' if first == 0 else 'last'}" if first in (0, length - 1) else ""
        return f"{name} {first}{at} of {length}"
    if count == last - first + 1:
        if last == length - 1:
            return f"{many} from {first} on, of {length}"
        return f"{many} {first} to {last} of {length}"
    if count == 2:
        return f"{many} {first} and {last} of {length}"
    if axis["step"] > 1:
        every = {2: "second", 3: "third"}.get(axis["step"], f"{axis['step']}th")
        return f"every {every} {name} from {first} to {last}, of {length}"
    return _ranges(axis, name) or f"in {count} of {length} {many}, the first {first}, the last {last}"


def _element(tensor: str, index: list[int]) -> str:
    return f"{tensor}[{', '.join(map(str, index))}]"


def _moved(tensor: str, holds: dict, names: tuple[str, ...], axes: list[dict]) -> str:
    """The rule of a relocation in words: what the wrong elements hold instead of their own values."""
    relation, by = holds["relation"], holds.get("by", 0)
    if relation == "same_index":
        return f"{tensor} holds {holds['tensor']}"
    if relation == "transposed":
        return f"{names[-2]} and {names[-1]} are exchanged"
    if relation == "offset":
        ways = ("further down", "further up"), ("further right", "further left")
        parts = [
            f"{abs(far)} {_plural(name) if abs(far) > 1 else name} {way[far < 0]}"
            for far, name, way in zip(holds["offset"][-2:], names[-2:], ways, strict=True)
        ]
        return f"elements are swapped with those {' and '.join(parts)}"
    axis, name = axes[holds["axis"]], names[holds["axis"]]
    here, there = (holds[end][holds["axis"]] for end in ("element", "source"))
    if axis["count"] == 1:
        return f"{name} {here} holds what belongs in {name} {there}"
    if relation == "fixed":
        return f"every wrong {name} holds what belongs in {name} {by}"
    if relation == "shift":
        sign = "+" if by > 0 else "-"
        return f"{name} i holds what belongs in {name} i {sign} {abs(by)}"
    if relation == "xor":
        if by & (by - 1):
            return f"{name} i holds what belongs in {name} i ^ {by}"
        if 2 * axis["count"] <= axis["length"]:  # only one of the two is wrong
            ends = ("i + {by}", "i") if here & by else ("i", "i + {by}")
            own, other = (f"{_plural(name)} {end.format(by=by)}" for end in ends)
            return f"{own} of every {2 * by} hold what belongs in {other}"
        if by == 1:
            return f"{_plural(name)} 2 i and 2 i + 1 are swapped"
        if axis["length"] <= 2 * by:
            return f"{_plural(name)} i and i + {by} are swapped"
        return f"{_plural(name)} i and i + {by} of every {2 * by} are swapped"
    return f"{_plural(name)} are mixed up: {name} {here} holds what belongs in {name} {there}"


def _holds(tensor: str, pattern: dict, names: tuple[str, ...]) -> list[str]:
    """ "o[0, 1] holds what o[8, 1] should be: rows i and i + 8 are swapped", if the harness found such a
    rule.
    """
    holds = pattern.get("holds")
    if not holds:
        return []
    example = _element(tensor, holds["element"])
    source = _element(holds["tensor"], holds["source"])
    what = source if holds["is_input"] else f"what {source} should be"
    rule = _moved(tensor, holds, names, pattern["axes"])
    share = "" if holds["share"] > 0.98 else f" (in {100 * holds['share']:.0f} % of the wrong elements)"
    return [f"{example} holds {what}: {rule}{share}"]


def _factor(tensor: str, pattern: dict, names: tuple[str, ...]) -> list[str]:
    """What factor or difference the wrong elements are off by. @param names  of the axes"""
    line = names[-2] if len(names) > 2 else "row"
    many = _plural(names[-1])
    if difference := pattern.get("difference"):
        much = "large" if difference > 0 else "small"
        text = f"all of them are too {much} by {number(abs(difference))}"
        if tensor == "lse":
            text += f", as if each sum were {math.exp(difference):.3g} times as large"
        return [text]
    if (factor := pattern.get("factor")) is not None:
        lines = math.prod(axis["count"] for axis in pattern["axes"][:-1])
        if lines == 1 and names[-1] not in ("query", "head"):
            return [f"the wrong {many} of this {line} are {_times(factor)}"]
        return [f"all of them are off by the same factor: {_times(factor)}"]
    if pattern["factor_per_line"]:
        return [f"each {line} is off by a factor of its own, the same for all its {many}"]
    return []


def pattern_in_words(tensor: str, check: dict) -> list[str]:
    """Sentences on what the wrong elements of a tensor have in common. @param check  the tensor's entry in
    the JSON
    """
    pattern = check.get("pattern")
    if not pattern:
        return []
    wrong, axes = check["wrong_elements"], pattern["axes"]
    total = math.prod(axis["length"] for axis in axes)
    rank = len(axes)
    names = AXES.get(rank) or tuple(f"index {place}" for place in range(rank))
    pairs = [(axis, name) for axis, name in zip(axes, names, strict=True) if axis["length"] > 1]

    sentences = _holds(tensor, pattern, names)
    if wrong == total:
        sentences.append(EVERY_ELEMENT)
    else:
        parts = [words for axis, name in pairs if (words := _where(axis, name))]
        places = "; ".join(parts) or f"every {' and every '.join(n for _, n in pairs)} has some"
        sentences.append(f"{wrong} of {total} elements are wrong: {places}")
    which = "of them" if wrong == total else "of the wrong ones"
    for key, one, many in (
        ("unwritten", "was never written", "were never written"),
        ("not_a_number", "is NaN or infinite", "are NaN or infinite"),
        ("zeros", "is 0", "are 0"),
    ):
        if count := pattern[key]:
            what = one if count == 1 and wrong > 1 else many
            who = "all of them" if count == wrong else f"{count} {which}"
            sentences.append(f"{who} {what}")
    return sentences + _factor(tensor, pattern, names)


MOST_SIZES = 8  # that are listed one by one
WITHOUT_KEYS = "--causal and more queries than keys"  # some of which see no key
MOST_CAUSES = 2  # more of them say nothing
SAY_NOTHING = ("--seed", "--dropout-seed", "--variant")  # each input may have its own
SIZES = (
    ranks.COUNT,
    "--rows",
    "--cols",
    "--batch",
    "--heads",
    "--kv-heads",
    "--seq-q",
    "--seq-k",
    "--head-dim",
    "--head-dim-v",
)


def _values(arguments: str) -> dict[str, str]:
    """ "-n 2 --rows 3 --causal" as {"-n": "2", "--rows": "3", "--causal": ""}, with an entry for what some
    options mean together."""
    values, option = {}, ""
    for word in shlex.split(arguments):
        if word.startswith("--") or word == ranks.COUNT:
            option = word
            values[option] = ""
        else:
            values[option] = word
    queries, keys = (int(values.get(name, 0)) for name in ("--seq-q", "--seq-k"))
    if "--causal" in values and queries > keys > 0:
        values[WITHOUT_KEYS] = ""
    return values


def _factor_of_all(sizes: Iterable[int], others: Iterable[int]) -> int:
    """The largest power of two that divides two sizes or more, and none of the others; 0 if there is none."""
    sizes = set(sizes)
    common = math.gcd(*sizes)
    factor = common & -common
    divides = len(sizes) > 1 and factor > 1 and any(size != factor for size in sizes)
    return factor if divides and all(other % factor for other in others) else 0


def _pairs_of_options(bad: list[dict[str, str]], good: list[dict[str, str]]) -> list[str]:
    """Two options that all failing inputs have and no passing one: at most two such pairs, and none if no
    passing input has one of the options.
    """
    common = [name for name in bad[0] if all(name in values for values in bad)]
    names = [name for name in common if name not in SAY_NOTHING and name not in SIZES]
    if any(all(name not in values for values in good) for name in names):
        return []
    pairs = [
        f"{one} and {other} together"
        for one, other in itertools.combinations(names, 2)
        if not any(one in values and other in values for values in good)
    ]
    return pairs if len(pairs) <= 2 else []


def only_where(failing: list[str], passing: list[str]) -> list[str]:
    """What the failing inputs have and the passing ones lack: options, or a size if only one size differs.

    Beside an option that the passing inputs lack, one that has another value there may be the cause as well.
    """
    if not failing or not passing:
        return []
    bad, good = [_values(a) for a in failing], [_values(a) for a in passing]
    words, sizes, lists = [], [], []
    is_new = False  # whether the passing inputs lack one of the words
    for option in dict.fromkeys(name for values in bad + good for name in values):
        wrong = {values.get(option) for values in bad}
        right = {values.get(option) for values in good}
        if option in SAY_NOTHING or wrong & right:
            continue
        same = len(wrong) == 1 and None not in wrong
        if same and (option not in SIZES or None in right):  # other sizes can be compared
            words.append(f"{option} {next(iter(wrong))}".rstrip())
        try:
            bad_sizes, good_sizes = ([int(value) for value in both] for both in (wrong, right))
        except (TypeError, ValueError):  # a word, a flag, or absent
            is_new = is_new or same
            continue
        if min(bad_sizes) > max(good_sizes):
            text = f"right up to {option} {max(good_sizes)}, wrong from {min(bad_sizes)} on"
            sizes.append(text)
        elif max(bad_sizes) < min(good_sizes):
            text = f"wrong up to {option} {max(bad_sizes)}, right from {min(good_sizes)} on"
            sizes.append(text)
        elif factor := _factor_of_all(good_sizes, bad_sizes):
            sizes.append(f"wrong unless {option} is a multiple of {factor}")
        elif factor := _factor_of_all(bad_sizes, good_sizes):
            sizes.append(f"wrong only if {option} is a multiple of {factor}")
        elif len(good) + len(bad) <= MOST_SIZES:
            good_list, bad_list = (
                _list([str(size) for size in sorted(set(both))]) for both in (good_sizes, bad_sizes)
            )
            lists.append(f"right with {option} {good_list}, wrong with {bad_list}")
    if is_new:
        causes = _pairs_of_options(bad, good) or words
        return (
            [f"of the inputs tried, only with {', or with '.join(causes)}"]
            if len(causes) <= MOST_CAUSES
            else []
        )
    found = sizes or lists  # a list says less than a threshold or a factor
    return found if len(found) == 1 else []


def _patterns(attempt: Attempt) -> list[str]:
    tensors = attempt.result["check"]["tensors"].items()
    return [sentence for item in tensors for sentence in pattern_in_words(*item)]


def _as_if(changes: list[dict]) -> list[str]:
    """A sentence on changes of the problem for which wrong outputs are right: these all explain the same
    outputs.
    """
    if not 0 < len(changes) <= MOST_CHANGES:
        return []
    ways = [each["change"] for each in changes]
    ways = [way for way in ways if not any(way.startswith(f"{w}, ") for w in ways)]
    return [f"{_list(changes[0]['outputs'])} would be right {' or '.join(ways)}"]


MOST_CHANGES = 3  # that are told: more of them say little
FEWEST = 3  # rows and columns: with one or two, vectors of different origin are multiples of one another


def _is_large_enough(attempt: Attempt) -> bool:
    """Whether no pattern is there just because a tensor has so few rows or columns."""
    shapes = [tensor["shape"] for tensor in (attempt.tensors or {}).values()]
    return all(min(shape[-2:]) >= FEWEST for shape in shapes if len(shape) != 3)


def _evidence(failing: list[Attempt]) -> Attempt:
    """The attempt to report: if possible on an input that is no special case; of these, the first that shows
    where the values belong or what was computed, best without alternatives, or else what the wrong elements
    have in common."""

    def rank(attempt: Attempt) -> tuple[bool, ...]:
        check = attempt.result["check"]
        holds = any("holds" in each.get("pattern", {}) for each in check["tensors"].values())
        changes = len(check.get("as_if", []))
        explains = holds or 0 < changes <= MOST_CHANGES
        says = _patterns(attempt) not in ([], [EVERY_ELEMENT])
        return not _is_large_enough(attempt), not explains, changes > 1, not says

    return min(failing, key=rank)


def _numbers(tried: list[Attempt]) -> Finding:
    """The finding about wrong numbers. @param tried  one variant on all inputs"""
    failing = [attempt for attempt in tried if kind_of(attempt) == "numbers"]
    attempt = _evidence(failing)
    tensors = attempt.result["check"]["tensors"]
    wrong = {name: check for name, check in tensors.items() if "first_wrong" in check}
    details = []
    for name, check in wrong.items():
        first = check["first_wrong"]
        details.append(
            f"{_element(name, first['index'])} is {number(first['got'])}, "
            f"should be {number(first['expected'])}"
        )
        if first.get("inputs", details[0]) not in details:
            details.append(first["inputs"])
        details += pattern_in_words(name, check)
    details += _as_if(attempt.result["check"].get("as_if", []))
    right = [attempt.arguments for attempt in tried if kind_of(attempt) is None]
    details += only_where([attempt.arguments for attempt in failing], right)
    verb = "are" if len(wrong) > 1 else "is"
    return Finding(
        "numbers",
        attempt.variant,
        attempt.arguments,
        f"{_list([*wrong] or ['a result'])} {verb} wrong",
        details,
        at=next(
            (f"{name}[{','.join(map(str, check['first_wrong']['index']))}]" for name, check in wrong.items()),
            "",
        ),
    )


# --- everything else ------------------------------------------------------------------------------


def _count(n: float) -> str:
    text = f"{n:.2f}".rstrip("0").rstrip(".")
    return {"1": "once", "2": "twice"}.get(text, f"{text} times")


MOST_TILES = 3  # that are named one by one


def _tiles(attempt: Attempt) -> dict | None:
    """What the masks leave of each tile, if kernels skip some: "kinds" has a letter for each, 'e', 'p' or
    'f'.
    """
    return (attempt.result or {}).get("traffic", {}).get("predicted", {}).get("tiles")


def _work_of_tiles(attempt: Attempt) -> int:
    """More if more tiles are visited, or if the mask is evaluated in more of them."""
    work = {"e": 0, "f": 1, "p": 2}
    kinds = (_tiles(attempt) or {}).get("kinds", [])
    return sum(work[letter] for row in kinds for letter in row)


def _names_of(attempt: Attempt, places: list[tuple[int, int]]) -> str:
    """ "tiles (0, 2) and (1, 2)": rows of queries, and columns of keys. Sequences, or heads, whose masks
    differ have rows of their own."""
    tiles, shape = _tiles(attempt), (attempt.tensors or {}).get("q", {}).get("shape")
    rows = len(tiles["kinds"])
    own = -(-shape[2] // tiles["queries"]) if shape else rows
    whose = "sequence" if shape and shape[0] * own == rows else "head"
    names = [
        f"({row % own}, {column})" + (f" of {whose} {row // own}" if own < rows else "")
        for row, column in places[:MOST_TILES]
    ]
    if more := len(places) - len(names):
        names.append(f"{more} more")
    return f"tile{'s' if len(places) > 1 else ''} {_list(names)}"


def _size_of(tiles: dict) -> str:
    return f"of {tiles['queries']} queries and {tiles['keys']} keys"


def _empty_tiles(attempt: Attempt) -> list[str]:
    """A sentence on the tiles that the kernel should not visit."""
    tiles = _tiles(attempt)
    kinds = tiles["kinds"] if tiles else []
    at = [(r, c) for r, row in enumerate(kinds) for c, k in enumerate(row) if k == "e"]
    if not at:
        return []
    are = "are" if len(at) > 1 else "is"
    return [
        (
            f"{_names_of(attempt, at)} {_size_of(tiles)} {are} empty: does the kernel visit what is empty, "
            f"or a tile twice?"
        )
    ]


def _more_tiles(attempt: Attempt, solution: Attempt) -> list[str]:
    """Which tiles the kernel takes for more than they are."""
    tiles, theirs = _tiles(attempt), _tiles(solution)
    details = []
    for kind, is_called, means in (
        ("e", "pf", "empty, and the kernel visits"),
        ("f", "p", "full, and the kernel evaluates the mask for every score of"),
    ):
        at = [
            (r, c)
            for r, (row, right) in enumerate(zip(tiles["kinds"], theirs["kinds"], strict=True))
            for c, (own, true) in enumerate(zip(row, right, strict=True))
            if true == kind and own in is_called
        ]
        if at:
            are, it = ("are", "them") if len(at) > 1 else ("is", "it")
            details.append(f"{_names_of(attempt, at)} {_size_of(tiles)} {are} {means} {it}")
    return details


def _traffic(attempt: Attempt) -> Finding:
    details = []
    for (tensor, direction), (counted, allowed) in _excess(attempt).items():
        size = (attempt.tensors or {}).get(tensor, {}).get("bytes")
        verb = "read" if direction == "read" else "write"
        if size:
            times = _count(counted / size)
            chapter = (
                f"the chapter {verb}s it {_count(allowed / size)}"
                if allowed
                else f"the chapter never {verb}s it"
            )
            details.append(f"you {verb} {tensor} {times}, {chapter}")
        details.append(
            f"{direction}s of {tensor}: {counted} bytes, {counted - allowed} more than the chapter's"
        )
    if any(tensor in ("k", "v") for tensor, _ in _excess(attempt)):
        details += _empty_tiles(attempt)
    headline = "is right, but moves more bytes than the chapter allows"
    return Finding("traffic", attempt.variant, attempt.arguments, headline, details)


RACE = re.compile(
    r"Race reported between (?P<one>.+) and (?P<other>[A-Z]\w*(?: copy)? access .+)\n"
    r" *(?P<where>.+?): (?P<cause>.+)"
)


def _race(defect: dict) -> list[str]:
    """The report of a race: what is missing, the place in memory, and the two accesses. The learner's comes
    first.
    """
    found = RACE.fullmatch(defect["message"])
    if not found:
        return defect["message"].splitlines()

    def rank(access: str) -> tuple[bool, bool]:
        is_own = any(line in access for line in defect.get("own", []))
        return not is_own, "'s solution" in access

    accesses = sorted([found["one"], found["other"]], key=rank)
    return [found["cause"], found["where"], *accesses]


IN_BLOCK = re.compile(r"\bin block \((\d+),(\d+),(\d+)\)")


def _lines_in(text: str) -> list[str]:
    return re.findall(r"\b\w+\.cuh:\d+", text)


def _defect(attempt: Attempt, kind: str) -> Finding:
    same = [d for d in attempt.result["defects"] if d["kind"] == kind]
    details = _race(same[0]) if kind == "race" else same[0]["message"].splitlines()
    is_deadlock = kind == "barrier_divergence" and "Deadlock in" in details[0]
    headline = "has a deadlock" if is_deadlock else DEFECTS[kind]
    own = [line for d in same for line in d.get("own", [])]
    lines = list(dict.fromkeys(own + _lines_in("\n".join(details))))
    if len(same) > 1:
        details.append(f"and {len(same) - 1} more like it, on other lines")
    where = IN_BLOCK.search(same[0]["message"])
    block = ",".join(where.groups()) if where else ""
    arguments = attempt.arguments
    return Finding(kind, attempt.variant, arguments, headline, details, lines, block=block)


def _wavefronts(attempt: Attempt) -> tuple[int, int]:
    """Wavefronts of shared memory: how many more than necessary, and how many are necessary."""
    shared = attempt.result.get("shared", {})
    taken, fewest = (
        sum(shared.get(f"{access}_wavefronts{which}", 0) for access in ("load", "store"))
        for which in ("", "_ideal")
    )
    return taken - fewest, fewest


def _global(attempt: Attempt, unit: str) -> dict[str, int]:
    """What was read and written in global memory. 0 on a GPU, where nothing is counted.

    @param unit  "bytes", "sectors" or "requests"
    """
    counted = attempt.result.get("traffic", {}).get("counted", {})
    return {way: counted.get(f"{way}_{unit}", 0) for way in ("read", "write")}


def _sectors(attempt: Attempt) -> int:
    return sum(_global(attempt, "sectors").values())


def _all_wavefronts(attempt: Attempt) -> int:
    return sum(_wavefronts(attempt))


def _more_wavefronts(attempt: Attempt, solution: Attempt) -> list[str]:
    own, most = (_all_wavefronts(each) for each in (attempt, solution))
    return [f"shared memory takes {own} wavefronts, the chapter's kernel {most}"]


def _conflicts(attempt: Attempt) -> int:
    return _wavefronts(attempt)[0]


def _more_sectors(attempt: Attempt, solution: Attempt) -> list[str]:
    """Whether the warps execute more instructions than the solution's, or each instruction touches more
    sectors.
    """
    own, allowed = (_global(each, "sectors") for each in (attempt, solution))
    way = max(own, key=lambda way: own[way] - allowed[way])
    what = {"read": "load", "write": "store"}[way]
    mine, theirs = (_global(each, "requests")[way] for each in (attempt, solution))
    details = [
        (
            f"your loads and stores touch {_sectors(attempt)} sectors of 32 bytes, the chapter's "
            f"{_sectors(solution)}"
        )
    ]
    if not (mine and theirs):
        return details

    each, their_each = own[way] / mine, allowed[way] / theirs
    details.append(
        f"your warps execute {mine} {what} instructions, with {each:.3g} sectors each; "
        f"the chapter's {theirs}, with {their_each:.3g} each"
    )
    if each / their_each >= mine / theirs:
        details.append("do neighbouring lanes access neighbouring elements?")
    else:
        moved, theirs_moved = (_global(each, "bytes")[way] for each in (attempt, solution))
        size, their_size = moved / mine, theirs_moved / theirs
        if size < SAME_SIZE * their_size and moved <= theirs_moved:
            details.append(
                f"each of yours moves {size:.4g} bytes, each of the chapter's {their_size:.4g}: "
                f"your {_plural(what)} are narrower, or fewer lanes take part in them"
            )
        else:
            details += _more_of_tensors(attempt, solution, way)
    return details


SAME_SIZE = 0.99  # of the chapter's instructions: smaller ones are narrower


def _more_of_tensors(attempt: Attempt, solution: Attempt, way: str) -> list[str]:
    """What is read or written more often than in the solution. @param way  "read" or "write" """
    own, theirs = (each.result["traffic"]["counted"].get("tensors", {}) for each in (attempt, solution))
    return [
        f"you {way} {tensor} more often: {counted[f'{way}_bytes']} bytes, the chapter's kernel {allowed}"
        for tensor, counted in own.items()
        if counted[f"{way}_bytes"] > (allowed := theirs.get(tensor, {}).get(f"{way}_bytes", 0))
    ]


def _more_conflicts(attempt: Attempt, solution: Attempt) -> list[str]:
    own, fewest = _wavefronts(attempt)
    detail = (
        f"shared memory takes {own + fewest} wavefronts where {fewest} would do: "
        f"{own} bank conflicts, the chapter's kernel has {_conflicts(solution)}"
    )
    details = [detail]
    needed = _wavefronts(solution)[1]
    if fewest > needed:
        details.append(f"the chapter's kernel needs {needed} without conflicts: you load or store more often")
    return details


def _operations(attempt: Attempt, *names: str) -> int:
    """How many of these a kernel has executed. 0 on a GPU, where nothing is counted."""
    return sum(attempt.result.get("ops", {}).get(name, 0) for name in names)


# A barrier of some of the block's warps makes them wait as well.
BARRIERS = ("barriers", "named_barriers")


def _compared(
    attempt: Attempt, solution: Attempt, what: str, names: Iterable[str], each: str = " (once for each warp)"
) -> list[str]:
    own, theirs = (_operations(one, *names) for one in (attempt, solution))
    return [f"{what}: {own}, the chapter's kernel {theirs}{each}"]


def _more_waits(attempt: Attempt, solution: Attempt) -> list[str]:
    own, most = (_operations(each, "over_waited") for each in (attempt, solution))
    waits = attempt.result.get("early_waits", {})
    where = f" at {max(waits, key=waits.get)}" if waits else ""
    return [
        (
            f"the wait{where} covers a group that nobody needs yet: another one, before its first use, would "
            f"be "
            f"enough"
        ),
        f"over-waited groups of copies or products: {own}, the chapter's kernel {most} (once for each warp)",
    ]


def _shared_kilobytes(attempt: Attempt) -> int:
    """A variable more is no more shared memory."""
    return round(_shared_bytes(attempt) / 1000)


def _both_shared(attempt: Attempt, solution: Attempt) -> list[str]:
    own, theirs = map(_shared_bytes, (attempt, solution))
    return [f"bytes of shared memory of a block: {own}, the chapter's kernel {theirs}"]


# For each limit: what is counted, the headline, and the details.
BEYOND = {
    "tiles": (_work_of_tiles, "is right, but takes tiles for more than they are", _more_tiles),
    "sectors": (
        _sectors,
        "is right, but touches more sectors of memory than the chapter's kernel",
        _more_sectors,
    ),
    "conflicts": (
        _conflicts,
        "is right, but has more bank conflicts than the chapter's kernel",
        _more_conflicts,
    ),
    "wavefronts": (
        _all_wavefronts,
        "is right, but loads or stores more in shared memory than the chapter's kernel",
        _more_wavefronts,
    ),
    **{
        name: (
            lambda attempt, names=names: _operations(attempt, *names),
            f"is right, but executes more {name} than the chapter's kernel",
            partial(_compared, what=name, names=names),
        )
        for name in OPERATIONS
        for names in [BARRIERS if name == "barriers" else (name,)]
    },
    "over_waited": (
        lambda attempt: _operations(attempt, "over_waited"),
        "is right, but waits earlier than necessary",
        _more_waits,
    ),
    "late_arrivals": (
        lambda attempt: _operations(attempt, "arrivals_beside_products"),
        "is right, but releases more while a product is in flight than the chapter's kernel",
        partial(
            _compared,
            what="arrivals at mbarriers during a wgmma of the warp",
            names=["arrivals_beside_products"],
        ),
    ),
    **{
        name: (
            lambda attempt, name=name: _operations(attempt, name),
            f"is right, but {does} than the chapter's kernel",
            partial(_compared, what=what, names=[name]),
        )
        for name, does, what in (
            ("named_barriers", "comes to fewer named barriers", "barrier_sync and barrier_arrive"),
            (
                "votes_beside_products",
                "computes less while a product is in flight",
                "votes (__any_sync) during a wgmma of the warp",
            ),
            (
                "accesses_beside_products",
                "does less while a product is in flight",
                "loads, stores and atomic operations during a wgmma of the warp",
            ),
            (
                "arrivals_beside_products",
                "releases less while a product is in flight",
                "arrivals at mbarriers during a wgmma of the warp",
            ),
            (
                "steps_before_arrivals",
                "releases a stage later after its product",
                "votes and waits of a warp from its wait for products to each arrival",
            ),
            (
                "arrivals_before_waits",
                "releases a stage later",
                "arrivals at mbarriers that a warp has executed before each of its waits, added up",
            ),
            ("mbarrier_waits", "waits more often", "waits at mbarriers"),
            (
                "named_barrier_threads",
                "lets more threads wait for each other",
                "threads that the named barriers are for, added up",
            ),
        )
    },
    "shared_bytes": (
        _shared_kilobytes,
        "is right, but needs more shared memory than the chapter's kernel",
        _both_shared,
    ),
    "shared_room": (
        _shared_kilobytes,
        "is right, but has room for less in shared memory than the chapter's kernel",
        _both_shared,
    ),
    "kernels_beside_transfers": (
        lambda attempt: _operations(attempt, "kernels_beside_transfers"),
        "is right, but overlaps fewer kernels with transfers than the chapter does",
        partial(
            _compared,
            what="kernels that may run during a transfer",
            names=["kernels_beside_transfers"],
            each="",
        ),
    ),
}


def _beyond(limit: str, attempts: list[Attempt], solution: Iterable[Attempt]) -> Finding | None:
    """The first attempt with more of something, or for LEAST less, than the solution has on the same input.

    Where the solution itself was stopped, as on a machine that is busy, there is nothing to compare with.
    """
    count, headline, details = BEYOND[limit]
    same = {(a.variant, a.arguments): a for a in solution if a.result}
    for attempt in attempts:
        allowed = same.get((attempt.variant, attempt.arguments))
        excess = count(attempt) - count(allowed) if allowed else 0
        if excess < 0 if limit in LEAST else excess > 0:
            found = details(attempt, allowed)
            return Finding(
                limit, attempt.variant, attempt.arguments, headline, found, _lines_in("\n".join(found))
            )
    return None


MOST_IN_VAIN = 1.25  # a compiler may arrange the same work in a few more blocks


def in_vain(function: str, own: Mapping[str, int], solution: Mapping[str, int]) -> str:
    """A sentence on a function that does more work than in the solution, "" otherwise. @param own
    trials.profile()'s
    """
    mine, theirs = own.get(function, 0), solution.get(function, 0)
    if not theirs or mine <= MOST_IN_VAIN * theirs:
        return ""
    return f"{function}() does {mine / theirs:.2g} times as much as in the chapter's kernel"


def explain(
    attempts: list[Attempt],
    limits: Iterable[str] = (),
    solution: Iterable[Attempt] = (),
    more: Mapping[str, str] | None = None,
) -> Finding | None:
    """The finding for the first variant, in the chapter's order, that fails; None if none does.

    @param limits    some of sheet.LIMITS and counts.LEAST: having more, or less, of them than the solution is
        a finding
    @param solution  the attempts of the chapter's own kernels, if there are limits
    @param more      what to add to a finding, by kind
    """
    by_variant: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_variant.setdefault(attempt.variant, []).append(attempt)
    for tried in by_variant.values():
        kinds = [kind_of(attempt) for attempt in tried]
        for kind in KINDS:
            if kind in kinds:
                finding = _explain(tried[kinds.index(kind)], kind, tried)
                return _with_question(finding, more)
    beyond = (_beyond(limit, attempts, solution) for limit in sorted(limits, key=KINDS.index))
    return _with_question(next((found for found in beyond if found), None), more)


def _with_question(finding: Finding | None, more: Mapping[str, str] | None) -> Finding | None:
    if finding and more and finding.kind in more:
        finding.details.append(more[finding.kind])
    return finding


def reason_of(ended: str) -> str:
    """Why a program stopped. @param ended  "was ended by SIGFPE", or other words"""
    signal = ended.split()[-1]
    return f"{SIGNALS[signal]} ({signal})" if signal in SIGNALS else f"it {ended}"


def _explain(attempt: Attempt, kind: str, tried: list[Attempt]) -> Finding:
    def finding(headline: str, *details: str) -> Finding:
        return Finding(kind, attempt.variant, attempt.arguments, headline, [*details])

    if kind == "hang" and attempt.ended != HANGS:
        return finding("would wait forever on GPUs", attempt.ended[attempt.ended.index(DEADLOCK) :])
    if kind == "hang":
        return finding("did not end, and was stopped: is there a loop whose condition never becomes false?")
    if kind == "crash":
        return finding(f"stopped the program: {reason_of(attempt.ended)}")
    if kind in DEFECTS:
        return _defect(attempt, kind)
    if kind == "did_not_run":
        if _shared_bytes(attempt) <= MOST_SHARED_BYTES:
            return finding("did not finish", *attempt.result["failure"].splitlines())
        return finding(
            "a GPU would refuse to launch it",
            f"a block needs {_shared_bytes(attempt)} bytes of shared memory and can have "
            f"{MOST_SHARED_BYTES} at most",
        )
    if kind == "numbers":
        return _numbers(tried)
    if kind == "fault":
        return finding(attempt.result["fault"])
    return _traffic(attempt)
