"""./learn bench: times on a GPU, beside PyTorch's kernels if asked for."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .. import machine, packages, project, setup
from ..console import Console, LearnError
from .run import refuse_json

HELP = (
    "time the final kernels on the GPU; with --peers beside PyTorch's, in the same run"
)
BENCH = "tools.bench.bench"
RESULTS = project.ROOT / "docs" / "results"


def add_options(parser: argparse.ArgumentParser) -> None:
    setup.add_chapters(parser)
    setup.add_no_install(parser)
    parser.add_argument(
        "--peers",
        action="store_true",
        help="beside PyTorch's flash, cuDNN and memory-efficient attention, on the same tensors",
    )
    parser.add_argument(
        "--repeat", type=int, default=20, metavar="R", help="launches of each (20)"
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="what was measured (default docs/results/bench_GPU.json)",
    )


def short_name(gpu: str) -> str:
    """h100 of "NVIDIA H100 80GB HBM3, 81559 MiB"."""
    model = re.search(r"[A-Z]+\d+\w*", gpu)
    return model[0].lower() if model else "gpu"


def python_with_torch() -> str:
    """A Python that finds PyTorch; LearnError if there is none."""
    candidates = [sys.executable, shutil.which("python3"), "/usr/bin/python3"]
    for path in dict.fromkeys(filter(None, candidates)):
        try:
            found = subprocess.run(
                [path, "-c", "import torch"], check=False, capture_output=True
            )
        except OSError:
            continue
        if found.returncode == 0:
            return path
    raise LearnError(
        "--peers needs PyTorch, which no python3 here finds: pip install torch, or leave --peers out",
        3,
    )


def main(console: Console, args: argparse.Namespace) -> int:
    """Builds what is timed, and times it."""
    chapters = project.select(args.chapters)
    if args.repeat < 1:
        raise LearnError(f"--repeat {args.repeat}: must be 1 or more", 2)
    refuse_json(args.json)
    gpus = machine.gpus()
    if not gpus:
        raise LearnError(
            "no GPU answers to nvidia-smi: times are a GPU's alone (./learn run counts bytes anywhere)",
            3,
        )
    if problem := machine.nvcc().problem:
        raise LearnError(f"{problem}, which compiles for the GPU", 3)
    python = python_with_torch() if args.peers else sys.executable
    args.preset = "cuda"
    preset = setup.prepare(console, args, packages.GPU_PACKAGES)
    libraries = ["chapter_libraries"] if args.peers else []
    setup.build(console, preset, [c.executable for c in chapters] + libraries)
    console.say()
    target = (
        Path(args.json) if args.json else RESULTS / f"bench_{short_name(gpus[0])}.json"
    )
    command = [python, "-m", BENCH, "--json", target.absolute()]
    command += ["--chapters", ",".join(chapter.number for chapter in chapters)]
    command += ["--repeat", str(args.repeat)]
    command += ["--peers"] if args.peers else []
    status = subprocess.run(
        command,
        cwd=project.ROOT,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    ).returncode
    if target.is_file() and status in (0, 1):
        console.say(f"results: {project.shown(target.resolve())}")
    return status
