"""full, zeros, ones and their *_like and new_* forms, at live sizes, of every type (G2)."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, over, variants
from torch import nn


class Full(nn.Module):
    def forward(self, x):
        b, s = x.shape
        return (
            torch.full((s, b), 2.5),
            torch.zeros(b + s),
            torch.ones(s, 3, dtype=torch.int64),
            torch.full((b, 2 * s), True, dtype=torch.bool),
            torch.zeros_like(x) + 1,
            torch.ones_like(x, dtype=torch.int64),
            torch.full_like(x, float("-inf")),
            x.new_zeros(s),
            x.new_full((1, b), 3.0),
            torch.full((s,), b),
            torch.scalar_tensor(1.5) + x,
        )


CASES = variants(
    Case(
        "full",
        Full,
        {"x": f32("B", "S")},
        {"B": (0, 4), "S": (0, 20)},
        over(B=[4, 1], S=[20, 1, 0]),
        covers="G2",
    ),
    decompose=RAW_AND_DECOMPOSED,
)
