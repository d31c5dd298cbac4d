"""Makes do.npy from q.npy, k.npy and v.npy: the gradient of a loss with respect to O.

The loss asks each output for the value of the next token, and the last output for nothing:

    L = 1/2 * sum over all heads and i of |o_i - v_(i+1)|^2        dL/do_i = o_i - v_(i+1)

Nothing is written unless differences of L agree with that gradient.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def attention(q, k, v):
    """softmax(Q K^T / sqrt(d)) V"""
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def loss(o, v):
    return 0.5 * ((o[..., :-1, :] - v[..., 1:, :]) ** 2).sum()


def gradient(o, v):
    d_o = np.zeros_like(o)
    d_o[..., :-1, :] = o[..., :-1, :] - v[..., 1:, :]
    return d_o


def main():
    q, k, v = (np.load(HERE / f"{name}.npy").astype(np.float64) for name in "qkv")
    o = attention(q, k, v)
    d_o = gradient(o, v)

    step = 1e-3 * np.random.default_rng(0).standard_normal(o.shape)
    by_difference = loss(o + step, v) - loss(o - step, v)  # exact: L is quadratic
    by_gradient = 2 * (d_o * step).sum()
    print(f"L = {loss(o, v):.1f}, difference of L {by_difference:.9f}, by dO {by_gradient:.9f}")
    if abs(by_difference - by_gradient) > 1e-9 * abs(by_gradient):
        sys.exit("error: not the gradient of this loss; nothing written")

    stored = d_o.astype(np.float16)
    print(f"dO from {stored.min():.2f} to {stored.max():.2f}, root of the mean square {d_o.std():.2f}")
    print(f"{stored.dtype}, C order, {list(stored.shape)}")
    np.save(HERE / "do.npy", stored)
    print(hashlib.sha256((HERE / "do.npy").read_bytes()).hexdigest(), " do.npy")


if __name__ == "__main__":
    main()
