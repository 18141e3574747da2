"""A Qwen3-shaped decoder as a program that generates text has it: token ids and a position in,
logits of the last token out, K and V kept in states.

The case is a small one in f16; bench/models.py exports the 0.6B shape of the same class.
"""

import torch
from liveshape.testing import Case, IntInput, i64
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.nn.functional import silu


def linear(rows, columns):
    return nn.Linear(rows, columns, bias=False)


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def inverse_frequencies(head_dim):
    return 1e6 ** (-torch.arange(0, head_dim, 2).float() / head_dim)


class Layer(nn.Module):
    def __init__(self, shape, capacity, dtype):
        super().__init__()
        width, heads, kv_heads = shape["width"], shape["heads"], shape["kv_heads"]
        head_dim, hidden = shape["head_dim"], shape["hidden"]
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q_norm, self.k_norm = nn.RMSNorm(head_dim, eps=1e-6), nn.RMSNorm(head_dim, eps=1e-6)
        self.q, self.o = linear(width, heads * head_dim), linear(heads * head_dim, width)
        self.k, self.v = linear(width, kv_heads * head_dim), linear(width, kv_heads * head_dim)
        self.gate, self.up = linear(width, hidden), linear(width, hidden)
        self.down = linear(hidden, width)
        for name in ("k_cache", "v_cache"):
            cache = torch.zeros(1, kv_heads, capacity, head_dim, dtype=dtype)
            self.register_buffer(name, cache)

    def forward(self, x, cos, sin, mask, pos):
        _, s, _ = x.shape
        h = self.norm1(x)
        q = self.q_norm(self.q(h).view(1, s, self.heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k(h).view(1, s, self.kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v(h).view(1, s, self.kv_heads, self.head_dim).transpose(1, 2)
        self.k_cache[:, :, pos : pos + s].copy_(rotate(k, cos, sin))
        self.v_cache[:, :, pos : pos + s].copy_(v)
        keys, values = self.k_cache[:, :, : pos + s], self.v_cache[:, :, : pos + s]
        y = sdpa(rotate(q, cos, sin), keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(1, s, self.heads * self.head_dim))
        h = self.norm2(x)
        return x + self.down(silu(self.gate(h)) * self.up(h))


class Qwen3Decoder(nn.Module):
    """The output head is the embedding's table, as in the small models of the family."""

    def __init__(self, shape, capacity, dtype=torch.float16):
        super().__init__()
        self.capacity, self.dtype = capacity, dtype
        self.embedding = nn.Embedding(shape["vocabulary"], shape["width"])
        layers = (Layer(shape, capacity, dtype) for _ in range(shape["layers"]))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.RMSNorm(shape["width"], eps=1e-6)
        self.to(dtype)
        self.register_buffer(
            "inverse", inverse_frequencies(shape["head_dim"])
        )  # stays f32, as angles do

    def forward(self, ids, pos: int):
        s = ids.shape[1]
        torch._check(pos >= 0)
        torch._check(pos + s <= self.capacity)
        positions = torch.arange(s) + pos
        angle = positions[:, None].float() * self.inverse[None]
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        mask = torch.arange(pos + s)[None] <= positions[:, None]
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask, pos)
        return torch.nn.functional.linear(self.norm(x[:, -1:]), self.embedding.weight)


QWEN3_06B = {
    "layers": 28,
    "width": 1024,
    "heads": 16,
    "kv_heads": 8,
    "head_dim": 128,
    "hidden": 3072,
    "vocabulary": 151_936,
}
SMALL = {
    "layers": 2,
    "width": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "hidden": 96,
    "vocabulary": 160,
}
CAPACITY = 96


def walk(point, rng):
    """A prefill of S, two steps of one token, a chunk, and a second sequence."""

    def step(length, pos):
        ids = torch.randint(SMALL["vocabulary"], (1, length), generator=rng)
        return {"ids": ids, "pos": torch.tensor(pos)}

    s = point["S"]
    return [step(s, 0), step(1, s), step(1, s + 1), step(5, s + 2), step(3, 0), step(1, 3)]


def case(name, dtype, **more):
    return Case(
        name,
        lambda: Qwen3Decoder(SMALL, CAPACITY, dtype),
        {"ids": i64(1, "S", high=SMALL["vocabulary"] - 1), "pos": IntInput(6)},
        {"S": (1, CAPACITY - 1)},
        [{"S": s} for s in (80, 1, 17, 33)],
        walk,
        **more,
    )


CASES = [
    case("qwen3_decoder", torch.float32, covers="G6 W5"),
    case("qwen3_decoder_f16", torch.float16, covers="G6 W5", tolerance=5e-3),
    case("qwen3_decoder_q4", torch.float16, covers="G6 W5 I K", tolerance=5e-3, quant="q4"),
]
