"""gpusim run FILE.cu ..."""

import sys

from .cli import main

USAGE = "usage: gpusim run FILE.cu ... (gpusim run --help says more)"


def entry() -> int:
    """The program `gpusim`."""
    if sys.argv[1:2] != ["run"]:
        print(USAGE, file=sys.stdout if {"-h", "--help"} & set(sys.argv[1:]) else sys.stderr)
        return 0 if {"-h", "--help"} & set(sys.argv[1:]) else 2
    return main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(entry())
