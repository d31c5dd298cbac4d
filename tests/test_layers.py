"""Dependencies between the folders point one way. Fails if an #include breaks this rule.

chapters -> harness -> diagnosis -> attention -> device, with gpusim below device, baselines next to harness,
and the C++ code of tools above device. Run by ctest, without arguments.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What each folder may include, by the first part of an #include "part/..." path.
ALLOWED = {
    "common/gpusim": {"gpusim"},
    "common/device": {"device"},
    "common/attention": {"attention", "device"},
    "common/baselines": {"baselines", "attention", "device"},
    "common/diagnosis": {"diagnosis", "attention", "device"},
    "common/harness": {"harness", "diagnosis", "attention", "device"},
    "tools": {"device"},
    "chapters": {"harness", "baselines", "attention", "device"},
}
# The only place where the harness asks the simulator for its observations; and rules of the driver, which are
# written down once.
EXCEPTIONS = {("common/harness/backend_sim.cpp", "gpusim"), ("common/device/tensor_map_rules.hpp", "gpusim")}
# Folders without their own layer: including one of these from a layer is also an error.
LAYERS = {*("gpusim", "device", "attention", "baselines", "diagnosis"), *("harness", "chapters", "tests")}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"/]+)/')
SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu", ".h"}


def violations(root: Path) -> list[str]:
    """Every include that points the wrong way, as "file:line: text"."""
    found = []
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match or match[1] not in LAYERS:
                    continue
                if match[1] in allowed or (name, match[1]) in EXCEPTIONS:
                    continue
                found.append(f"{name}:{number}: {folder} may include {sorted(allowed)}, not {match[1]}")
            if folder == "chapters" and "gpusim" in path.read_text():
                found.append(f"{name}: a chapter knows nothing of the simulator")
    return found


if __name__ == "__main__":
    problems = violations(ROOT)
    files = sum(1 for f in ALLOWED for p in (ROOT / f).rglob("*") if p.suffix in SUFFIXES)
    if files < 20:
        sys.exit(f"only {files} source files found under {ROOT}: is this the repository?")
    print(*problems, f"{files} files, {len(problems)} violations", sep="\n")
    sys.exit(1 if problems else 0)
