"""Decoder blocks: the Qwen3-shaped one (case Q), x + f(g(x)) (case R, W3), several outputs (W2)."""

import torch
from liveshape.testing import Case, f32, over
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.nn.functional import silu


class Qwen3Block(nn.Module):
    """16/8 heads of 128 with q/k norms, rotary embedding, causal SDPA and SwiGLU."""

    def __init__(self, width=512, heads=16, kv_heads=8, head_dim=128, hidden=1024):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim

        def linear(rows, columns):
            return nn.Linear(rows, columns, bias=False)

        self.q, self.o = linear(width, heads * head_dim), linear(heads * head_dim, width)
        self.k, self.v = linear(width, kv_heads * head_dim), linear(width, kv_heads * head_dim)
        self.gate, self.up = linear(width, hidden), linear(width, hidden)
        self.down = linear(hidden, width)
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q_norm, self.k_norm = nn.RMSNorm(head_dim, eps=1e-6), nn.RMSNorm(head_dim, eps=1e-6)
        inverse = 1e6 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("inverse", inverse)

    def rotate(self, x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, x):
        b, s, _ = x.shape
        angle = torch.arange(s)[:, None].float() * self.inverse[None]
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos(), angle.sin()
        h = self.norm1(x)
        q = self.q_norm(self.q(h).view(b, s, self.heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k(h).view(b, s, self.kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v(h).view(b, s, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = sdpa(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, self.heads * self.head_dim))
        h = self.norm2(x)
        return x + self.down(silu(self.gate(h)) * self.up(h))


class Diamond(nn.Module):
    """x + f(g(x)): add meets the fresh x and a value two ops away (W3)."""

    def __init__(self):
        super().__init__()
        self.g, self.f = nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, x):
        return x + self.f(torch.relu(self.g(x)))


class TwoTriggers(nn.Module):
    """Both operands of the product change size, each from its own symbol."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(16, 24), nn.Linear(16, 24)

    def forward(self, a, b):
        scores = self.left(a) @ self.right(b).transpose(0, 1)
        return torch.softmax(scores, -1) @ b + a, scores.shape[0] * scores.shape[1]


class SameCount(nn.Module):
    """Outputs with one element count and different shapes (W2)."""

    def forward(self, x):
        a, b = x.shape
        return x * 1, x.transpose(0, 1) * 2, x.reshape(a * b) + 3, x.reshape(1, a, b) - 4


CASES = [
    Case(
        "qwen3_block",
        Qwen3Block,
        {"x": f32(1, "S", 512)},
        {"S": (1, 128)},
        over(S=[128, 1, 17, 1, 128]),
        covers="Q",
    ),
    Case(
        "diamond",
        Diamond,
        {"x": f32("S", 32)},
        {"S": (0, 128)},
        over(S=[128, 64, 32, 16, 1, 0]),
        covers="R W3",
    ),
    Case(
        "two_triggers",
        TwoTriggers,
        {"a": f32("A", 16), "b": f32("B", 16)},
        {"A": (1, 64), "B": (1, 48)},
        [*over(A=[64, 1], B=[48, 1]), {"A": 32, "B": 24}],
        covers="S W3",
    ),
    Case(
        "same_count",
        SameCount,
        {"x": f32("A", "B")},
        {"A": (0, 12), "B": (0, 12)},
        [*over(A=[12, 1], B=[12, 1]), {"A": 3, "B": 4}, {"A": 4, "B": 3}, {"A": 0, "B": 2}],
        covers="W2 S",
    ),
]
