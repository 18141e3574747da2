"""cat and stack: parts of different live sizes, empty parts, constants, any dim (G2)."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i64, over, variants
from torch import nn


class Cat(nn.Module):
    """Along the live dim, beside a constant, and along a fixed one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("row", torch.randn(1, 8))

    def forward(self, a, b):
        return torch.cat((a, b)), torch.cat((self.row, a, self.row)), torch.cat((a, a * 2), dim=1)


class Stack(nn.Module):
    def forward(self, a):
        return torch.stack((a, -a)), torch.stack((a, a + 1, a), dim=-1), torch.stack((a, a), 1)


class Roll(nn.Module):
    def forward(self, x):
        return x.roll(2, 0), x.roll((1, -2), (0, 1)), x.roll(3), x.roll(x.shape[0] // 2, 0)


class Ids(nn.Module):
    def forward(self, n):
        return torch.cat((n, torch.arange(n.shape[1])[None].expand(2, -1), n), dim=1)


DIMS = {"A": (0, 20), "B": (0, 33)}
CASES = [
    *variants(
        Case(
            "cat",
            Cat,
            {"a": f32("A", 8), "b": f32("B", 8)},
            DIMS,
            over(A=[20, 1, 0], B=[33, 1, 0]),
            covers="G2 X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("stack", Stack, {"a": f32("A", 5)}, {"A": (0, 20)}, over(A=[20, 1, 0]), covers="G2"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("roll", Roll, {"x": f32("A", 5)}, {"A": (1, 20)}, over(A=[20, 7, 1])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("cat_i64", Ids, {"n": i64(2, "B")}, {"B": (0, 33)}, over(B=[33, 1, 0]), covers="G2"),
]
