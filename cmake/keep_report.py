"""Runs a compiler and keeps what ptxas reports about registers and spills, next to the object file.

    keep_report.py NVCC ARGUMENT... -o OBJECT ...

CMake uses it as compiler launcher if FA_PTXAS_REPORT is ON. Writes OBJECT.ptxas, prints the rest of the
compiler's output, and exits with its status.
"""

import subprocess
import sys
from pathlib import Path


def main(command: list[str]) -> int:
    done = subprocess.run(command, check=False, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    report, rest = [], []
    for line in done.stdout.splitlines():
        # A line that begins with "ptxas info", or an indented one after it. Warnings are kept and printed.
        belongs = line.startswith("ptxas info") or (line.startswith("    ") and report)
        warns = line.startswith("ptxas warning")
        if belongs or warns:
            report.append(line)
        if not belongs:
            rest.append(line)
    print(*rest, sep="\n", end="\n" if rest else "")
    if "-o" in command:
        object_file = Path(command[command.index("-o") + 1])
        object_file.with_name(object_file.name + ".ptxas").write_text(
            "\n".join(report) + "\n", encoding="utf-8"
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
