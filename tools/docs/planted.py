"""Runs a chapter with mistakes planted in it, and keeps what the simulator reports.

    python3 -m tools.docs.planted [--build DIR] [NAME...]

Writes docs/results/mistakes_simulator.json, from which the lessons quote (tools/docs/lessons.py). NAME: only these
mistakes; default all. Run it after changes to a kernel in which a mistake is planted, or to the simulator's reports. It
takes about a minute for each mistake.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import results
from ..learn import project
from ..learn.trials import Workbench

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "mistakes_simulator.json"


@dataclass(frozen=True)
class Mistake:
    """A change to one file of a chapter, and the run that shows what it does."""

    chapter: str
    file: str
    before: str  # exactly once in the file
    after: str
    variant: str
    input: str


SHORT = "--dtype bf16 --heads 1 --seq-q 64 --seq-k 512 --head-dim 64"
ONE_TILE = "--dtype bf16 --heads 1 --seq-q 192 --seq-k 128 --head-dim 64"
KEY_TILE = "--dtype bf16 --heads 1 --seq-q 192 --seq-k 128 --head-dim 128"

MISTAKES = {
    "02_no_wait": Mistake(
        "02",
        "cluster.cuh",
        "  ptx::mbarrier_wait_cluster(&full, 0);  // the pairs of all blocks are here, and no block ends before\n",
        "",
        "cluster",
        "--rows 1 --cols 131072",
    ),
    "09_unwritten": Mistake(
        "09",
        "ping_pong.cuh",
        "issue_qk<Tile>(w.rS, more ? w.q_rows(next) : w.first_k, more ? w.k_tile() : w.first_k);",
        "issue_qk<Tile>(w.rS, w.q_rows(next), w.k_tile());",
        "final",
        ONE_TILE,
    ),
    "09_stored_over": Mistake(
        "09",
        "ping_pong.cuh",
        "issue_qk<Tile>(w.rS, more ? w.q_rows(next) : w.first_k, more ? w.k_tile() : w.first_k);",
        "issue_qk<Tile>(w.rS, more ? w.q_rows(next) : w.q_rows(), more ? w.k_tile() : w.first_k);",
        "final",
        ONE_TILE,
    ),
    "09_too_many_bytes": Mistake(
        "09",
        "copies.cuh",
        "kRows * kCols * int(sizeof(T)));",
        "kRows * kCols * int(sizeof(float)));",
        "specialised",
        SHORT,
    ),
    "09_full_parity": Mistake(
        "09",
        "shared_tiles.cuh",
        "mbarrier_wait(&ring.full[stage], full_parity());",
        "mbarrier_wait(&ring.full[stage], empty_parity());",
        "specialised",
        SHORT,
    ),
    "09_empty_parity": Mistake(
        "09",
        "shared_tiles.cuh",
        "mbarrier_wait(&ring.empty[stage], empty_parity());",
        "mbarrier_wait(&ring.empty[stage], full_parity());",
        "specialised",
        SHORT,
    ),
    "09_stride": Mistake(
        "09",
        "products.cuh",
        "std::uint64_t(8 * 128 / 16) << 32",
        "std::uint64_t(128 / 16) << 32",
        "specialised",
        SHORT,
    ),
    "09_early_wait": Mistake(
        "09",
        "kernel.cuh",
        """      ptx::wgmma_wait<0>(w.rS);
      w.k.release(s.k_ring);
      if (j >= keys.first_masked) mask<Tile>(w.rS, a, tile.first_query + w.warp_row, j * Tile::Bc);
""",
        """      ptx::wgmma_wait<1>(w.rS);
      w.k.release(s.k_ring);
      if (j >= keys.first_masked) mask<Tile>(w.rS, a, tile.first_query + w.warp_row, j * Tile::Bc);
""",
        "specialised",
        SHORT,
    ),
    "09_early_release": Mistake(
        "09",
        "kernel.cuh",
        """      ptx::wgmma_wait<0>(w.rO);
      w.v.release(s.v_ring);
    }
    w.finish_rows();
    w.store(maps, tile);
  }
""",
        """      w.v.release(s.v_ring);
      ptx::wgmma_wait<0>(w.rO);
    }
    w.finish_rows();
    w.store(maps, tile);
  }
""",
        "specialised",
        SHORT,
    ),
    "09_no_proxy_fence": Mistake(
        "09",
        "consumer.cuh",
        "    ptx::fence_proxy_async();\n",
        "",
        "specialised",
        SHORT,
    ),
    "09_unequal_turns": Mistake(
        "09",
        "ping_pong.cuh",
        "        turn.take();\n        turn.pass();\n        w.skip_tile();",
        "        w.skip_tile();",
        "ping_pong",
        "--dtype bf16 --heads 1 --seq-q 384 --head-dim 64 --causal",
    ),
    "10_no_proxy_fence": Mistake(
        "10",
        "kernel.cuh",
        "      ptx::fence_proxy_async();\n      warp_arrives(s.ds_ring.full[stored.stage]);",
        "      warp_arrives(s.ds_ring.full[stored.stage]);",
        "decoupled",
        KEY_TILE,
    ),
    "10_four_arrivals": Mistake(
        "10",
        "shared_tiles.cuh",
        "ptx::mbarrier_init(&s.ds_ring.full[stage], Tile::kDsWarps);",
        "ptx::mbarrier_init(&s.ds_ring.full[stage], 4);",
        "register_sums",
        KEY_TILE,
    ),
    "10_one_stage": Mistake(
        "10",
        "choices.cuh",
        "kDsStages = 2;",
        "kDsStages = 1;",
        "decoupled",
        KEY_TILE,
    ),
    "10_early_release": Mistake(
        "10",
        "kernel.cuh",
        "      ptx::wgmma_wait<1>(w.rdQ);\n      multiplied.release(s.ds_ring);",
        "      multiplied.release(s.ds_ring);\n      ptx::wgmma_wait<1>(w.rdQ);",
        "decoupled",
        KEY_TILE,
    ),
}


def report_of(mistake: Mistake, build: Path) -> str:
    """What the program prints on standard error."""
    (chapter,) = project.select([mistake.chapter])
    text = (chapter.path / mistake.file).read_text(encoding="utf-8")
    if text.count(mistake.before) != 1:
        raise SystemExit(f"planted: {mistake.file} must have once: {mistake.before}")
    files = {mistake.file: text.replace(mistake.before, mistake.after)}
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        inputs = [mistake.input]
        program = Workbench(build, chapter).program(
            files, Path(folder), inputs, mistake.variant
        )
        words = [
            str(program),
            "--variant",
            mistake.variant,
            *shlex.split(mistake.input),
        ]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=120
        )
    lines = (done.stdout + done.stderr).splitlines()
    said = [line.rstrip() for line in lines if line.startswith("=====")]
    return "\n".join(line for line in said if line != "=========")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Runs chapters with planted mistakes.")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "sim")
    parser.add_argument("names", nargs="*", choices=[[], *MISTAKES], metavar="NAME")
    args = parser.parse_args(arguments)
    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in args.names or MISTAKES:
        mistake = MISTAKES[name]
        (chapter,) = project.select([mistake.chapter])
        program = f"build/sim/bin/{chapter.executable}"
        report = report_of(mistake, args.build.resolve())
        print(f"{name}\n{report}\n")
        kept[name] = {
            "command": f"{program} --variant {mistake.variant} {mistake.input}",
            "file": mistake.file,
            "before": mistake.before,
            "after": mistake.after,
            "report": report.splitlines(),
        }
        kept = {key: kept[key] for key in MISTAKES if key in kept}
        results.write(RESULTS, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
