"""python -m tools.report RESULTS.json REPORT.html: makes the page from a list of the chapters' JSON objects.

Exit status 4, with the reason on stderr, if this Python has no working matplotlib.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

NO_MATPLOTLIB = 4


def main(source: str, target: str) -> int:
    try:
        from . import page
    except (ImportError, AttributeError, RuntimeError, ValueError) as error:
        # A matplotlib built for another numpy may raise any of these.
        print(f"{sys.executable} has no working matplotlib: {error}", file=sys.stderr)
        return NO_MATPLOTLIB
    from . import results

    chapters = results.read(json.loads(Path(source).read_text(encoding="utf-8")))
    now = datetime.datetime.now().astimezone()
    Path(target).write_text(page.render(chapters, now), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
