"""arange over live ends: start, step, floats, and arithmetic on it (G2)."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, over, variants
from torch import nn


class Arange(nn.Module):
    def forward(self, x):
        s = x.shape[0]
        return (
            torch.arange(s),
            torch.arange(2, s + 2),
            torch.arange(0, 2 * s, 2),
            torch.arange(s, dtype=torch.float32) / 4 + x,
            torch.arange(s - 1, -1, -1),
            torch.arange(5) + s,
            torch.arange(s)[:, None] * 10 + torch.arange(s + 1),
        )


CASES = variants(
    Case("arange", Arange, {"x": f32("S")}, {"S": (0, 20)}, over(S=[20, 7, 1, 0]), covers="G2"),
    decompose=RAW_AND_DECOMPOSED,
)
