"""Doxygen's input filter: puts a header into the group of its folder. Line numbers stay the same.

python3 tools/docs/website/layer_filter.py FILE
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAYERS = {  # folder or file: group of docs/website/layers.dox
    "common/device": "device",
    "common/gpusim/runtime": "gpusim_runtime",
    "common/gpusim": "gpusim",
    "common/attention": "attention",
    "common/baselines": "baselines",
    "common/diagnosis": "diagnosis",
    "common/harness": "harness",
}


def group_of(path: Path) -> str:
    """The group of a header."""
    shown = path.resolve().relative_to(ROOT)
    if shown.parts[0] == "chapters":
        return f"kernels_{shown.parts[1][:2]}"
    return next(LAYERS[str(p)] for p in shown.parents if str(p) in LAYERS)


OPEN = re.compile(r"(?:inline )?namespace ([\w:]+) \{")


def grouped(source: str, group: str) -> str:
    """The source, with the members of namespaces and the file's own description added to the group."""
    lines = source.rstrip("\n").split("\n")
    at = lines.index("#pragma once")
    if at and lines[0].startswith("/// @file"):
        lines[at - 1] += f" @ingroup {group}"
    # The namespace itself is not in the group, because it belongs to several.
    for number, line in enumerate(lines):
        opened = OPEN.fullmatch(line)
        if opened and f"}}  // namespace {opened[1]}" in lines[number:]:
            lines[number] = f"{line} /** @addtogroup {group} */ /** @{{ */"
        elif line.startswith("}  // namespace "):
            lines[number] = "/** @} */ " + line
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    source = file.read_text(encoding="utf-8")
    if not re.search(r"^#pragma once$", source, re.MULTILINE):
        sys.exit(f"layer_filter: {file} has no #pragma once")
    sys.stdout.write(grouped(source, group_of(file)))
