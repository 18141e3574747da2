"""sort, argsort and topk: values and indices, NaN the greatest, equals in their order if stable."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    bf16,
    boolean,
    f32,
    i8,
    i64,
    over,
    u8,
    variants,
)
from torch import nn


class Sort(nn.Module):
    """Unstable sorts of different values: their order is defined."""

    def forward(self, x):
        return (
            *x.sort(-1),
            *x.sort(0, descending=True),
            x.argsort(-1, descending=True),
            x.msort(),
            *x.sum().sort(0),
        )


class Stable(nn.Module):
    def forward(self, x):
        return (
            *x.sort(dim=-1, stable=True),
            *x.sort(dim=0, descending=True, stable=True),
            x.argsort(dim=-1, stable=True),
        )


class TopK(nn.Module):
    """A fixed few, all, a live number; the largest and the smallest; along a strided dim."""

    def forward(self, x, few):
        return (
            *x.topk(1),
            *x.topk(2, largest=False),
            *x.topk(few.shape[0]),
            *x.topk(x.shape[1], dim=1),
            *x.t().topk(2, dim=0),
            x.topk(2).values * 2,
        )


class Sampled(nn.Module):
    """What sampling does: top-k and top-p of logits."""

    def forward(self, x):
        kept = x.masked_fill(x < x.topk(3).values[:, -1:], -float("inf"))
        ordered, order = torch.sort(x, descending=True)
        total = ordered.softmax(-1).cumsum(-1)
        drop = (total > 0.9).scatter(1, order, total > 0.9)
        return kept.softmax(-1), drop


def different(point, rng):
    """A permutation of a grid in each row and in each column."""
    a, b = point["A"], point["B"]
    x = torch.randperm(a * b, generator=rng).reshape(a, b).float() - a * b / 2
    if b > 4 and a > 0:
        x[0, 2] = -float("inf")
        x[0, 3] = float("nan")
        x[0, 1] = float("inf")
    return {"x": x, "few": torch.zeros(point["K"])} if "K" in point else {"x": x}


def ties(point, rng):
    x = torch.randint(-2, 3, (point["A"], point["B"]), generator=rng).float() * 0.5
    x[torch.rand(x.shape, generator=rng) < 0.1] = float("nan")
    x[torch.rand(x.shape, generator=rng) < 0.1] = -0.0
    return {"x": x}


def whole(point, rng):
    a, b = point["A"], point["B"]
    return {"x": torch.randperm(a * b, generator=rng).reshape(a, b) - (1 << 40)}


DIMS = {"A": (0, 9), "B": (0, 300)}
SWEEP = [*over(A=[9, 1], B=[300, 33, 1]), {"A": 0, "B": 3}, {"A": 3, "B": 0}]
X = {"x": f32("A", "B")}
CASES = [
    *variants(Case("sort", Sort, X, DIMS, SWEEP, different), decompose=RAW_AND_DECOMPOSED),
    *variants(Case("sort_stable", Stable, X, DIMS, SWEEP, ties), decompose=RAW_AND_DECOMPOSED),
    *variants(
        Case(
            "topk",
            TopK,
            {**X, "few": f32("K")},
            {"A": (2, 9), "B": (3, 300), "K": (0, 3)},
            [
                *over(A=[9, 2], B=[300, 65], K=[2]),
                {"A": 2, "B": 3, "K": 3},
                {"A": 9, "B": 5, "K": 0},
            ],
            different,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("sampling", Sampled, X, {"A": (1, 9), "B": (3, 300)}, over(A=[9, 1], B=[300, 3])),
    Case("sort_i64", Sort, {"x": i64("A", "B")}, DIMS, over(A=[9], B=[300, 1]), whole),
    Case("sort_bf16", Stable, {"x": bf16("A", "B")}, DIMS, over(A=[9], B=[300]), tolerance=2e-2),
    Case("sort_i8", Stable, {"x": i8("A", "B")}, DIMS, over(A=[9], B=[300, 1])),
    Case("sort_u8", Stable, {"x": u8("A", "B")}, DIMS, over(A=[9], B=[300, 1])),
    Case("sort_bool", Stable, {"x": boolean("A", "B")}, DIMS, over(A=[9], B=[300, 1])),
]
