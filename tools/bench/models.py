"""Times models of Hugging Face transformers with the kernels and with PyTorch's attention.

    python3 -m tools.bench.models [--rounds R] [--json FILE]

Models have random weights in bf16 and the shapes of Llama (8 layers, 16 query and 4 key heads of dimension
128, width 2048) and GPT-2 (8 layers, 12 heads of dimension 64, width 768). Both kinds of attention run in
turns. The time is the host's, from one synchronization to the next, in the fastest round: what else runs on
the host only adds to it. The first rows are attention alone, of 16 sequences of 50 to 4000 tokens: padded,
and packed by attention_varlen().

Needs PyTorch, a GPU, transformers, and: cmake --build --preset cuda --target chapter_libraries
Exit status: 2 the arguments are unusable, 3 no GPU or nothing built.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .. import masks
from ..options import Arguments, at_least
from . import machine
from .attention import torch, versions
from .package import fa_tutorial, native

KINDS = ("sdpa", "fa_tutorial")
WORDS = 1000
LENGTHS = (1024, 300, 500, 800, 400, 1024, 450, 420)  # of a padded batch: 40 % are padding
NEW = 64  # tokens that are generated
COMMON = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
LLAMA = {
    "hidden_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 5504,
    "max_position_embeddings": 4096,
}
GPT2 = {"n_embd": 768, "n_layer": 8, "n_head": 12, "n_positions": 2048}


def times(calls: dict[str, Callable], rounds: int) -> dict[str, float]:
    """Milliseconds of calls that run in turns, in the fastest round."""
    for call in calls.values():
        for _ in range(2):
            call()
    found = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            torch.cuda.synchronize()
            found[name].append(1e3 * (time.perf_counter() - begin))
    return {name: min(each) for name, each in found.items()}


def models(kind: str, sizes: dict) -> dict:
    """The same model with each kind of attention."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(**COMMON, **sizes)
    of_kind = getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")
    found = {}
    for attention in KINDS:
        torch.manual_seed(0)
        model = of_kind._from_config(config, attn_implementation=attention, dtype=torch.bfloat16)
        found[attention] = model.cuda().eval()
    return found


def words(batch: int, seq: int) -> torch.Tensor:
    return torch.randint(1, WORDS, (batch, seq), device="cuda")


def padding_on_the_left() -> torch.Tensor:
    """The mask of a batch: [sequences, longest]."""
    lengths = torch.tensor(LENGTHS, device="cuda")[:, None]
    longest = max(LENGTHS)
    return (torch.arange(longest, device="cuda") >= longest - lengths).long()


def cases(found: dict, prefill: int) -> dict[str, Callable]:
    """What a model does: functions that take a kind of attention."""
    prompt, mask, start = words(2, prefill), padding_on_the_left(), words(4, 256)
    batch, ones = words(*mask.shape), torch.ones_like(start)
    unpadded = dict(found)
    unpadded["fa_tutorial"] = fa_tutorial.transformers.unpad(copy.deepcopy(found["fa_tutorial"]))
    greedy = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False}
    last = mask[:4, -256:].contiguous()
    return {
        f"prefill of 2 x {prefill}": lambda kind: found[kind](prompt, use_cache=False),
        "8 x 1024, 40 % padding": lambda kind: found[kind](batch, attention_mask=mask, use_cache=False),
        "the same after unpad()": lambda kind: unpadded[kind](batch, attention_mask=mask, use_cache=False),
        f"{NEW} tokens after 4 x 256": lambda kind: found[kind].generate(
            start, attention_mask=ones, **greedy
        ),
        "the same with padding": lambda kind: found[kind].generate(start, attention_mask=last, **greedy),
    }


def packed_cases() -> dict[str, dict[str, Callable]]:
    """Attention of 16 sequences with padding, by PyTorch's kernels and by ours, and packed."""
    lengths, heads, head_dim = masks.draw_lengths(16, 50, 4000, 1), 16, 128

    def drawn(*shape: int) -> list[torch.Tensor]:
        return [torch.randn(shape, device="cuda").bfloat16().requires_grad_() for _ in "qkv"]

    packed = drawn(sum(lengths), heads, head_dim)
    padded = drawn(len(lengths), heads, max(lengths), head_dim)
    ends = torch.tensor((0, *lengths), device="cuda").cumsum(0).int()
    of_packed, of_padded = (torch.randn_like(x[0]) for x in (packed, padded))
    sdpa = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
    ours = partial(fa_tutorial.attention, is_causal=True)

    def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return fa_tutorial.attention_varlen(q, k, v, ends, is_causal=True)

    def forward(of: Callable, inputs: list[torch.Tensor]) -> Callable:
        def call() -> None:
            with torch.no_grad():
                of(*inputs)

        return call

    def both(of: Callable, inputs: list[torch.Tensor], gradient: torch.Tensor) -> Callable:
        return lambda: torch.autograd.grad(of(*inputs), inputs, gradient)

    cases = {}
    for name, of in (("sdpa", sdpa), ("ours", ours)):
        cases[f"forward; {name} padded"] = {"padded": forward(of, padded), "packed": forward(varlen, packed)}
        cases[f"forward and backward; {name} padded"] = {
            "padded": both(of, padded, of_padded),
            "packed": both(varlen, packed, of_packed),
        }
    return cases


def measure(rounds: int) -> list[dict]:
    rows = []

    def add(model: str, what: str, calls: dict[str, Callable]) -> None:
        rows.append({"model": model, "case": what, "ms": times(calls, rounds)})
        show(rows[-1])

    for what, calls in packed_cases().items():
        add("attention", what, calls)
    with torch.no_grad():
        for name, sizes, prefill in (("Llama", LLAMA, 2001), ("GPT2", GPT2, 1001)):
            for what, run in cases(models(name, sizes), prefill).items():
                add(name, what, {kind: partial(run, kind) for kind in KINDS})
    return rows


def show(row: dict) -> None:
    (base, of_base), (ours, of_ours) = row["ms"].items()
    told = f"{base} {of_base:.2f} ms, {ours} {of_ours:.2f} ms, speed {of_base / of_ours:.3f}"
    print(f"{row['model']:10} {row['case']:24} {told}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = Arguments(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=at_least(1), default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("models: PyTorch finds no GPU", file=sys.stderr)
        return 3
    try:
        import fa_tutorial.transformers
    except ImportError as missing:
        print(f"models: {missing}: pip install transformers", file=sys.stderr)
        return 3
    fa_tutorial.transformers.register()
    before = machine.gpu()
    result = {"device": before.get("name"), "machine": before | versions()}
    result |= {"operators_in_cpp": native.is_loaded(), "rounds": options.rounds}
    try:
        result["rows"] = measure(options.rounds)
    except FileNotFoundError as obstacle:
        print(f"models: {obstacle}", file=sys.stderr)
        return 3
    machine.write_results(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
