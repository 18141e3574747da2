"""Reductions along live and fixed dims; empty ones give the neutral element."""

from liveshape.testing import RAW_AND_DECOMPOSED, Case, boolean, f32, i64, over, variants
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
    Case("sum_empty", Floats, {"x": f32("A", "B", 12)}, DIMS, EMPTY, covers="X3 W7"),
    *variants(
        Case("extremes", Extremes, {"x": f32("A", "B", 12)}, DIMS, SWEEP, covers="X1"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("sum_i64", Whole, {"n": i64("A", "B", low=-50, high=50)}, DIMS, SWEEP, covers="G9"),
    Case("any_all", Found, {"flag": boolean("A", "B")}, DIMS, SWEEP + EMPTY, covers="G3"),
]
