"""where and masked_fill: a predicate, never arithmetic, so 0 * inf cannot make a NaN (G7)."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, boolean, f32, i64, over, variants
from torch import nn


class Where(nn.Module):
    def forward(self, flag, x, y):
        row = y[:1]
        return (
            torch.where(flag, x, y),
            torch.where(flag, x, float("-inf")),
            torch.where(flag, 0.0, x / torch.zeros_like(x)),
            x.masked_fill(flag, torch.finfo(torch.float32).min),
            torch.where(x > 0, x, row),
            torch.where(flag, 1, 0),
            x.masked_fill(~flag, 0) + y,
        )


class Whole(nn.Module):
    def forward(self, flag, n):
        return torch.where(flag, n, -n), n.masked_fill(flag, 7), torch.where(flag, n, 0.5)


class Triangles(nn.Module):
    def forward(self, x):
        s = x.shape[0]
        future = torch.full((s, s), float("-inf")).triu(1)
        return x.tril(), x.triu(2), x + future, torch.ones(s, s, dtype=torch.bool).tril(-1)


DIMS = {"R": (1, 9), "C": (0, 40)}
SWEEP = over(R=[9, 1], C=[40, 17, 1, 0])
CASES = [
    *variants(
        Case(
            "where",
            Where,
            {"flag": boolean("R", "C"), "x": f32("R", "C"), "y": f32("R", "C")},
            DIMS,
            SWEEP,
            covers="G3 G7",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("where_i64", Whole, {"flag": boolean("R", "C"), "n": i64("R", "C")}, DIMS, SWEEP),
    *variants(
        Case("triangle", Triangles, {"x": f32("S", "S")}, {"S": (0, 20)}, over(S=[20, 3, 1, 0])),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
