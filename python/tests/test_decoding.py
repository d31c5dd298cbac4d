"""fa_tutorial.decode() on the CPU, compared with float64: python -m unittest tests.test_decoding, in python/.

Needs PyTorch, and the programs of the chapters in build/sim.
"""

from __future__ import annotations

import random
import unittest

import fa_tutorial
import torch

from . import reference
from .test_operators import CALLS, OnDevice


class Decoding(OnDevice):
    longest = 150

    def setUp(self):
        torch.manual_seed(0)

    def sequences(self, lengths, heads=4, kv_heads=2, queries=1, head_dim=64, dtype=torch.bfloat16):
        """Q, and K and V of each sequence: [1, kv_heads, length, head_dim]."""

        def drawn(*shape):
            return torch.randn(*shape, device=self.device).to(dtype)

        q = drawn(len(lengths), heads, queries, head_dim)
        return q, [[drawn(1, kv_heads, length, head_dim) for length in lengths] for _ in "kv"]

    def contiguous(self, sequences: list[torch.Tensor], keys: int) -> torch.Tensor:
        """A cache in which the other keys are NaN."""
        _, kv_heads, _, head_dim = sequences[0].shape
        cache = sequences[0].new_full((len(sequences), kv_heads, keys, head_dim), torch.nan)
        for row, given in zip(cache, sequences, strict=True):
            row[:, : given.shape[2]] = given[0]
        return cache

    def paged(
        self, sequences: list[torch.Tensor], table: torch.Tensor, size: int, pages: int
    ) -> torch.Tensor:
        _, kv_heads, _, head_dim = sequences[0].shape
        cache = sequences[0].new_full((pages, kv_heads, size, head_dim), torch.nan)
        for row, given in zip(table.tolist(), sequences, strict=True):
            for number, part in enumerate(given[0].split(size, 1)):
                cache[row[number], :, : part.shape[1]] = part
        return cache

    def agrees(self, q, sequences, found, scale=None, what=None):
        """Compares O and LSE of each sequence, whose queries are its last tokens."""
        for number, (k, v) in enumerate(zip(*sequences, strict=True)):
            query = q[number : number + 1]
            expected = reference.attention(query, k, v, query, True, scale or q.shape[-1] ** -0.5)
            for name, x in zip(("o", "lse"), found, strict=True):
                self.assertEqual(reference.complaint(expected, name, x[number : number + 1]), "", what)

    def random_table(self, lengths, size, spare=2):
        """[batch, columns] with pages in any order, and how many there are."""
        needed = [-(-length // size) for length in lengths]
        order = torch.randperm(sum(needed) + spare).tolist()
        table = torch.full((len(lengths), max(1, *needed) + 1), -1)
        for row, count in zip(table, needed, strict=True):
            row[:count] = torch.tensor([order.pop() for _ in range(count)])
        return table.to(self.device), sum(needed) + spare

    def test_equal_lengths(self):
        for dtype in (torch.float16, torch.bfloat16):
            for head_dim in (64, 128, 256):
                q, sequences = self.sequences([70, 70], head_dim=head_dim, dtype=dtype, queries=3)
                k, v = (torch.cat(x) for x in sequences)
                self.agrees(q, sequences, fa_tutorial.decode(q, k, v, return_lse=True))

    def test_lengths(self):
        lengths = [0, 2, 90, 33]
        q, sequences = self.sequences(lengths, queries=2)
        k, v = (self.contiguous(x, 100) for x in sequences)
        for dtype in (torch.int32, torch.int64):
            given = torch.tensor(lengths, dtype=dtype, device=self.device)
            self.agrees(q, sequences, fa_tutorial.decode(q, k, v, given, scale=0.3, return_lse=True), 0.3)

    def test_pages(self):
        lengths = [40, 0, 100]
        for size in (16, 64, 256):
            q, sequences = self.sequences(lengths)
            table, pages = self.random_table(lengths, size)
            k, v = (self.paged(x, table, size, pages) for x in sequences)
            given = torch.tensor(lengths, device=self.device)
            self.agrees(q, sequences, fa_tutorial.decode(q, k, v, given, table, return_lse=True))
            split = fa_tutorial.decode(q, k, v, given, table, splits=2, return_lse=True)
            self.agrees(q, sequences, split)

    def test_random_calls(self):
        choose = random.Random(3)
        for number in range(CALLS // 2):
            batch, kv_heads = choose.randint(1, 4), choose.choice((1, 2))
            heads, queries = kv_heads * choose.choice((1, 2, 4, 7)), choose.choice((1, 1, 2, 5, 16))
            lengths = [choose.choice((0, *range(queries, self.longest))) for _ in range(batch)]
            shape = (heads, kv_heads, queries, choose.choice((64, 128, 256)))
            q, sequences = self.sequences(lengths, *shape, choose.choice((torch.float16, torch.bfloat16)))
            given, size, table = torch.tensor(lengths, device=self.device), choose.choice((0, 16, 64)), None
            if size:
                table, pages = self.random_table(lengths, size)
                k, v = (self.paged(x, table, size, pages) for x in sequences)
            else:
                k, v = (self.contiguous(x, max(1, *lengths, 1)) for x in sequences)
            found = fa_tutorial.decode(q, k, v, given, table, return_lse=True)
            self.agrees(q, sequences, found, what=(number, shape, lengths, size))

    def test_no_sequences_queries_or_keys(self):
        for batch, queries, keys in ((0, 1, 5), (2, 0, 5), (2, 1, 0)):
            q = torch.ones(batch, 2, queries, 64, device=self.device).half()
            k = torch.ones(batch, 1, keys, 64, device=self.device).half()
            o, lse = fa_tutorial.decode(q, k, k, return_lse=True)
            self.assertEqual(o.shape, q.shape)
            self.assertEqual(int(o.count_nonzero()), 0)
            self.assertTrue(bool((lse == -torch.inf).all()))

    def test_opcheck_and_compile(self):
        q, sequences = self.sequences([20, 20])
        k, v = (torch.cat(x) for x in sequences)
        given = torch.tensor([20, 3], dtype=torch.int32, device=self.device)
        operator = torch.ops.fa_tutorial.decode.default
        torch.library.opcheck(operator, (q, k, v, given, None, None, None, 0.2, 0))
        compiled = torch.compile(fa_tutorial.decode, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(q, k, v, given), fa_tutorial.decode(q, k, v, given)))

    def test_refusals(self):
        q, sequences = self.sequences([20, 20])
        k, v = (torch.cat(x) for x in sequences)

        def whole(*numbers):
            return torch.tensor(numbers, device=self.device)

        def refuses(error, pattern, *given, **more):
            with self.assertRaisesRegex(error, pattern) as caught:
                fa_tutorial.decode(*given, **more)
            self.assertNotIn("\n", str(caught.exception))

        refuses(TypeError, "k_cache is a NoneType", q, None, v)
        refuses(ValueError, "lengths has the number 21: .* from 0 to 20", q, k, v, whole(3, 21))
        refuses(ValueError, "lengths has the number -1", q, k, v, whole(-1, 3))
        two = q.expand(-1, -1, 2, -1).contiguous()
        refuses(ValueError, "lengths has a number from 1 to 1: it must be 0 or at", two, k, v, whole(1, 3))
        refuses(TypeError, "lengths is torch.float32", q, k, v, torch.ones(2, device=self.device))
        refuses(ValueError, r"lengths has the shape \[3\]", q, k, v, whole(1, 2, 3))
        refuses(TypeError, "k_cache is torch.float16: it must be torch.bfloat16", q, k.half(), v)
        refuses(ValueError, "k_cache has the strides", q, k.transpose(1, 2), v)
        refuses(ValueError, "both must have one shape", q, k, v[:, :, :-1].contiguous())
        refuses(ValueError, "k_cache has 1 sequences and query 2", q, k[:1], v[:1])
        refuses(
            ValueError, "query has 4 heads and k_cache 3", q, *2 * [k[:, :1].expand(-1, 3, -1, -1).clone()]
        )
        refuses(ValueError, "k_cache has pages of 20 keys", q, k, v, whole(3, 3), whole([0], [1]))
        pages = k[:, :, :16].contiguous()
        refuses(ValueError, "block_table has the number 2: .* to 1", q, pages, pages, None, whole([0], [2]))
        refuses(ValueError, "block_table has the number -1", q, pages, pages, whole(1, 1), whole([0], [-1]))
        refuses(ValueError, "one of k_scale and v_scale", q, k, v, k_scale=torch.ones(2, device=self.device))
        refuses(TypeError, "splits is 1.5", q, k, v, splits=1.5)
        refuses(ValueError, "scale is 0", q, k, v, scale=0)
        wide, narrow = (torch.ones(1, 1, 1, 80, device=self.device).half() for _ in "qk")
        refuses(ValueError, "query has the head_dim 80: it must be 64, 128", wide, narrow, narrow)
        refuses(NotImplementedError, "decode.. has no gradient", q.requires_grad_(), k, v)


if __name__ == "__main__":
    unittest.main()
