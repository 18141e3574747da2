"""Reductions along live and fixed dims; empty ones give the neutral element."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    bf16,
    boolean,
    f16,
    f32,
    i8,
    i64,
    over,
    u8,
    variants,
)
from torch import nn


class Floats(nn.Module):
    def forward(self, x):
        return (
            x.sum(),
            x.sum(0),
            x.sum(-1, keepdim=True),
            x.sum((0, 2)),
            x.mean(-1),
            x.mean((1, 2), keepdim=True),
        )


class Extremes(nn.Module):
    """Poison and padding must not win a maximum: all values are negative."""

    def forward(self, x):
        x = -x.abs() - 1
        return x.amax(-1), x.amin(1, keepdim=True), x.max(), x.min(), x.amax((0, 1))


class Whole(nn.Module):
    def forward(self, n):
        return n.sum(), n.sum(-1), n.amax(0), n.amin(-1)


class Spread(nn.Module):
    def forward(self, x):
        return (
            x.var(-1),
            x.std(-1, keepdim=True),
            x.var(),
            x.std((0, 2)),
            x.var(1, correction=0),
            *torch.var_mean(x, -1),
            x.norm(),
            x.norm(1, -1),
            x.norm(2, -1, keepdim=True),
            x.norm(3, 0),
            torch.linalg.vector_norm(x, float("inf"), -1),
            torch.linalg.vector_norm(x, 0, -1),
            nn.functional.normalize(x, dim=-1),
            x.logsumexp(-1),
            x.logsumexp((0, 1), keepdim=True),
            x.log_softmax(-1),
            x.prod(-1),
            x.prod(),
            x.sum(dtype=torch.float64),
            x.count_nonzero(),
            *torch.aminmax(x, dim=-1),
        )


class Special(nn.Module):
    """NaN wins a maximum and a minimum; infinities do not spoil logsumexp."""

    def forward(self, x):
        masked = x.masked_fill(x != x, -float("inf"))
        return x.amax(-1), x.amin(0), x.max(), x.any(-1), x.all(0), masked.logsumexp(-1)


class SumOfNothing(nn.Module):
    """Nothing has no maximum, but a logsumexp."""

    def forward(self, x):
        return (
            x.logsumexp(0),
            x.logsumexp(-1, keepdim=True),
            x.logsumexp((0, 1)),
            x.long().logsumexp(1),
        )


class Scalars(nn.Module):
    """0-d tensors are reduced to themselves."""

    def forward(self, x):
        y = x.sum()
        return y.sum(), y.mean(-1), y.amax(), (y > 0).any(), y.cumsum(0), y.softmax(0), y.norm()


def with_nan(point, rng):
    x = torch.randn(point["A"], point["B"], generator=rng)
    x[torch.rand(x.shape, generator=rng) < 0.1] = float("nan")
    x[torch.rand(x.shape, generator=rng) < 0.1] = float("inf")
    x[torch.rand(x.shape, generator=rng) < 0.2] = 0.0
    return {"x": x}


class Narrow(nn.Module):
    """Sums of narrow integers do not wrap: they are i64."""

    def forward(self, n):
        return (
            n.sum(),
            n.sum(-1),
            n.prod(-1),
            n.amax(0),
            n.amin(-1),
            n.any(-1),
            n.all(),
            n.cumsum(0),
            n.sum(dtype=torch.int32),
            n.float().mean(),
        )


class Found(nn.Module):
    def forward(self, flag):
        return (
            flag.any(),
            flag.any(-1),
            flag.all(0),
            flag.all(),
            flag.any(1, keepdim=True),
            flag.sum(-1),
        )


DIMS = {"A": (0, 5), "B": (0, 20)}
SWEEP = over(A=[5, 1], B=[20, 7, 1])
EMPTY = [{"A": 0, "B": 3}, {"A": 2, "B": 0}]
CASES = [
    *variants(
        Case("sum_mean", Floats, {"x": f32("A", "B", 12)}, DIMS, [*SWEEP, {"A": 2, "B": 1}]),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("logsumexp_empty", SumOfNothing, {"x": f32("A", "B", 12)}, DIMS, SWEEP + EMPTY),
    Case("sum_empty", Floats, {"x": f32("A", "B", 12)}, DIMS, EMPTY, covers="X3 W7"),
    *variants(
        Case("extremes", Extremes, {"x": f32("A", "B", 12)}, DIMS, SWEEP, covers="X1"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "spread",
            Spread,
            {"x": f32("A", "B", 12)},
            {"A": (1, 5), "B": (1, 20)},
            [{"A": 5, "B": 20}, {"A": 2, "B": 7}, {"A": 1, "B": 2}],
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "spread_f16",
        Spread,
        {"x": f16("A", "B", 12)},
        {"A": (1, 5), "B": (1, 20)},
        [{"A": 2, "B": 7}],
        tolerance=2e-3,
    ),
    Case(
        "spread_bf16",
        Spread,
        {"x": bf16("A", "B", 12)},
        {"A": (1, 5), "B": (1, 20)},
        [{"A": 2, "B": 7}],
        tolerance=2e-2,
    ),
    *variants(
        Case(
            "reduce_special",
            Special,
            {"x": f32("A", "B")},
            {"A": (1, 5), "B": (1, 20)},
            SWEEP,
            with_nan,
            covers="X1",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("reduce_scalars", Scalars, {"x": f32("A")}, {"A": (0, 5)}, over(A=[5, 1, 0])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("reduce_i8", Narrow, {"n": i8("A", "B")}, DIMS, SWEEP, covers="G9"),
    *variants(
        Case("reduce_u8", Narrow, {"n": u8("A", "B")}, DIMS, SWEEP, covers="G9"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("sum_i64", Whole, {"n": i64("A", "B", low=-50, high=50)}, DIMS, SWEEP, covers="G9"),
    *variants(
        Case("any_all", Found, {"flag": boolean("A", "B")}, DIMS, SWEEP + EMPTY, covers="G3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
