"""./learn bench: times on a GPU, with those of PyTorch's kernels on request."""

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

HELP = "time the final kernels on the GPU; --peers times PyTorch's as well, in the same run"
BENCH = "tools.bench.bench"
RANKS = "tools.bench.ring"  # of a chapter on several GPUs
DECODING = "tools.bench.decoding"
RESULTS = project.ROOT / "docs" / "results"


def add_options(parser: argparse.ArgumentParser) -> None:
    setup.add_chapters(parser)
    setup.add_no_install(parser)
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also time PyTorch's flash, cuDNN and memory-efficient attention, the same kernels in Triton, and FlashAttention-3 and -4 if they are installed, on the same tensors",  # noqa: E501
    )
    parser.add_argument(
        "--sustained",
        action="store_true",
        help="with --peers: also run each kernel alone for 0.3 s, and record the GPU's clock and power",
    )
    parser.add_argument("--repeat", type=int, default=20, metavar="R", help="launches of each kernel (20)")
    parser.add_argument(
        "--json", metavar="FILE", help="file for the results (default: docs/results/bench_GPU.json)"
    )


def short_name(gpu: str) -> str:
    """ "NVIDIA H100 80GB HBM3, 81559 MiB" -> "h100"."""
    model = re.search(r"[A-Z]+\d+\w*", gpu)
    return model[0].lower() if model else "gpu"


def python_with_torch(what: str = "--peers", instead: str = ", or leave --peers out") -> str:
    """A Python that has PyTorch. LearnError if there is none.

    @param what  needs it    @param instead  what else would help
    """
    candidates = [sys.executable, shutil.which("python3"), "/usr/bin/python3"]
    for path in dict.fromkeys(filter(None, candidates)):
        try:
            found = subprocess.run([path, "-c", "import torch"], check=False, capture_output=True)
        except OSError:
            continue
        if found.returncode == 0:
            return path
    raise LearnError(f"{what} needs PyTorch, which no python3 here has: pip install torch{instead}", 3)


def bench_ranks(
    console: Console, args: argparse.Namespace, chapters: list[project.Chapter], gpus: int
) -> int:
    """Times a chapter on all GPUs of this machine."""
    setup.build(console, args.preset, [chapter.executable for chapter in chapters])
    console.say()
    command = [sys.executable, "-m", RANKS, "--gpus", str(gpus)]
    command += ["--repeat", str(args.repeat)] + ["--no-peers"] * (not args.peers)
    command += ["--json", str(Path(args.json).absolute())] if args.json else []
    return subprocess.run(command, cwd=project.ROOT, check=False).returncode


def bench_decoding(
    console: Console, args: argparse.Namespace, chapter: project.Chapter, python: str, gpu: str
) -> int:
    """Times chapter 14 on the problems of its lesson."""
    setup.build(console, args.preset, [f"{chapter.executable}_library", "read_roof"])
    console.say()
    target = Path(args.json) if args.json else RESULTS / f"decoding_{short_name(gpu)}.json"
    command = [python, "-m", DECODING, "--rounds", str(args.repeat), "--json", str(target.absolute())]
    command += ["--peers"] * args.peers
    return subprocess.run(command, cwd=project.ROOT, check=False).returncode


def main(console: Console, args: argparse.Namespace) -> int:
    """Builds the kernels and times them."""
    chapters = project.select(args.chapters)
    if args.repeat < 1:
        raise LearnError(f"--repeat {args.repeat}: must be 1 or more", 2)
    if args.sustained and not args.peers:
        raise LearnError("--sustained needs --peers: add it", 2)
    refuse_json(args.json)
    gpus = machine.gpus()
    if not gpus:
        raise LearnError(
            "nvidia-smi finds no GPU, and only a GPU can be timed (./learn run counts bytes anywhere)", 3
        )
    if problem := machine.nvcc().problem:
        raise LearnError(f"{problem}: nvcc compiles the kernels for the GPU", 3)
    is_decoding = [int(c.number) for c in chapters] == [project.DECODING_CHAPTER]
    if is_decoding:
        python = python_with_torch("timing chapter 14", "")
    else:
        python = python_with_torch() if args.peers else sys.executable
    args.preset = "cuda"
    preset = setup.prepare(console, args, packages.GPU_PACKAGES)
    libraries = ["chapter_libraries"] if args.peers else []
    if args.chapters and all(chapter.has_ranks for chapter in chapters):
        return bench_ranks(console, args, chapters, len(gpus))
    if is_decoding:
        return bench_decoding(console, args, chapters[0], python, gpus[0])
    chapters = [chapter for chapter in chapters if not chapter.has_ranks]
    setup.build(console, preset, [c.executable for c in chapters] + libraries)
    console.say()
    target = Path(args.json) if args.json else RESULTS / f"bench_{short_name(gpus[0])}.json"
    command = [python, "-m", BENCH, "--json", target.absolute()]
    command += ["--chapters", ",".join(chapter.number for chapter in chapters)]
    command += ["--repeat", str(args.repeat)]
    command += ["--peers"] if args.peers else []
    command += ["--sustained"] if args.sustained else []
    status = subprocess.run(
        command, cwd=project.ROOT, check=False, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    ).returncode
    if target.is_file() and status in (0, 1):
        console.say(f"results: {project.shown(target.resolve())}")
    return status
