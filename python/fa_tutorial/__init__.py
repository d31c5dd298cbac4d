"""The attention kernels of "From Softmax to FlashAttention" in PyTorch.

import fa_tutorial

o = fa_tutorial.scaled_dot_product_attention(q, k, v, is_causal=True)
fa_tutorial.variants()          # "03/three_kernels", ..., "10/deterministic"
fa_tutorial.use("03/one_pass")  # from now on, this kernel
"""

from .decoding import decode
from .functions import attention, scaled_dot_product_attention
from .selection import use, variants
from .varlen import attention_varlen

__all__ = ["attention", "attention_varlen", "decode", "scaled_dot_product_attention", "use", "variants"]
