"""SDPA with a KV cache (case J), written through each form that exports come in.

Capacity 64, GQA 8/2 heads, D 16. The position is a symbol (a Python int), an element of an integer
tensor (`.item()`), or only data (index_copy_ and a mask over the whole capacity).
"""

import torch
from liveshape.testing import Case, IntInput, f32, i64
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

HEADS, KV_HEADS, HEAD_DIM, CAPACITY = 8, 2, 16, 64


class Cached(nn.Module):
    def __init__(self, batch=1):
        super().__init__()
        for name in ("k_cache", "v_cache"):
            self.register_buffer(name, torch.zeros(batch, KV_HEADS, CAPACITY, HEAD_DIM))


class BySymbol(Cached):
    """The live context is a slice of size pos + S: the export has a symbol for it."""

    def forward(self, q, k, v, pos: int):
        s = q.shape[2]
        torch._check(pos >= 0)
        torch._check(pos + s <= CAPACITY)
        self.k_cache[:, :, pos : pos + s].copy_(k)
        self.v_cache[:, :, pos : pos + s].copy_(v)
        mask = torch.arange(pos + s)[None] <= (torch.arange(s) + pos)[:, None]
        keys, values = self.k_cache[:, :, : pos + s], self.v_cache[:, :, : pos + s]
        return sdpa(q, keys, values, attn_mask=mask, enable_gqa=True)


class ByItem(Cached):
    """As ExecuTorch's Llama: the position is read out of a tensor."""

    def forward(self, q, k, v, input_pos):
        s = q.shape[2]
        pos = input_pos[0].item()
        torch._check(pos >= 0)
        torch._check(pos + s <= CAPACITY)
        self.k_cache.narrow(2, pos, s).copy_(k)
        self.v_cache.narrow(2, pos, s).copy_(v)
        mask = torch.arange(CAPACITY)[None] <= (torch.arange(s) + pos)[:, None]
        return sdpa(q, self.k_cache, self.v_cache, attn_mask=mask, enable_gqa=True)


class ByData(Cached):
    """As transformers' static cache: only the mask knows how much of the cache is live."""

    def forward(self, q, k, v, positions):
        self.k_cache.index_copy_(2, positions, k)
        self.v_cache.index_copy_(2, positions, v)
        mask = torch.arange(CAPACITY)[None] <= positions[:, None]
        return sdpa(q, self.k_cache, self.v_cache, attn_mask=mask, enable_gqa=True)


class ByIndexPut(ByData):
    def forward(self, q, k, v, positions):
        self.k_cache[:, :, positions] = k
        self.v_cache[:, :, positions] = v
        mask = torch.arange(CAPACITY)[None] <= positions[:, None]
        return sdpa(q, self.k_cache, self.v_cache, attn_mask=mask, enable_gqa=True)


class ByCounter(Cached):
    """The position is a counter state that the graph itself moves on: not idempotent (X2)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("length", torch.zeros(1, dtype=torch.int64))

    def forward(self, q, k, v):
        s = q.shape[2]
        positions = self.length + torch.arange(s)
        self.k_cache.index_copy_(2, positions, k)
        self.v_cache.index_copy_(2, positions, v)
        self.length.add_(s)
        mask = torch.arange(CAPACITY)[None] <= positions[:, None]
        y = sdpa(q, self.k_cache, self.v_cache, attn_mask=mask, enable_gqa=True)
        return y, self.length


def walk(name, place):
    """Point S: one prefill of S. With `decode`: that many steps of 1 after it, then a chunk of 3,
    then, where the position is given from outside, a second sequence from 0."""

    def make(point, rng):
        def step(length, pos):
            data = {
                "q": torch.randn(1, HEADS, length, HEAD_DIM, generator=rng),
                "k": torch.randn(1, KV_HEADS, length, HEAD_DIM, generator=rng),
                "v": torch.randn(1, KV_HEADS, length, HEAD_DIM, generator=rng),
            }
            return data | ({name: place(length, pos)} if name else {})

        s = point["S"]
        steps = [step(s, 0)] + [step(1, s + i) for i in range(min(6, CAPACITY - 2 - s))]
        if s + len(steps) + 3 < CAPACITY:
            steps.append(step(3, s + len(steps) - 1))
        return steps + ([step(5, 0), step(1, 5)] if name else [])

    return make


QKV = {
    "q": f32(1, HEADS, "S", HEAD_DIM),
    "k": f32(1, KV_HEADS, "S", HEAD_DIM),
    "v": f32(1, KV_HEADS, "S", HEAD_DIM),
}
DIMS = {"S": (1, CAPACITY)}
# A slice of the whole cache would have the strides of the cache: torch specialises S = 64 away.
BELOW = {"S": (1, CAPACITY - 1)}
SWEEP = [{"S": s} for s in (64, 16, 1, 40)]
SWEEP_BELOW = [{"S": s} for s in (63, 16, 1, 40)]


def scalar(length, pos):
    return torch.tensor(pos)


def vector(length, pos):
    return torch.tensor([pos])


def span(length, pos):
    return torch.arange(pos, pos + length)


CASES = [
    Case(
        "kv_symbol",
        BySymbol,
        QKV | {"pos": IntInput(6)},
        BELOW,
        SWEEP_BELOW,
        walk("pos", scalar),
        covers="J R W5",
    ),
    Case(
        "kv_item",
        ByItem,
        QKV | {"input_pos": i64(1, high=6)},
        BELOW,
        SWEEP_BELOW,
        walk("input_pos", vector),
        covers="J R W5 X3",
    ),
    Case(
        "kv_data",
        ByData,
        QKV | {"positions": i64("S", high=6)},
        DIMS,
        SWEEP,
        walk("positions", span),
        covers="J R W5",
    ),
    Case(
        "kv_data_dec",
        ByData,
        QKV | {"positions": i64("S", high=6)},
        DIMS,
        SWEEP,
        walk("positions", span),
        covers="J R W5",
        decompose=True,
    ),
    Case(
        "kv_index_put",
        ByIndexPut,
        QKV | {"positions": i64("S", high=6)},
        DIMS,
        SWEEP,
        walk("positions", span),
        covers="J R",
    ),
    Case("kv_counter", ByCounter, QKV, DIMS, SWEEP, walk(None, None), covers="J X2"),
]
