"""Cumulative sums, along live and fixed dims, of floats, integers and bools."""

from liveshape.testing import RAW_AND_DECOMPOSED, Case, boolean, f32, i64, over, variants
from torch import nn


class Cumsum(nn.Module):
    def forward(self, x):
        return x.cumsum(0), x.cumsum(-1)


DIMS = {"A": (0, 6), "B": (0, 70)}
SWEEP = [*over(A=[6, 1], B=[70, 33, 1]), {"A": 0, "B": 3}, {"A": 3, "B": 0}]
CASES = [
    *variants(
        Case("cumsum", Cumsum, {"x": f32("A", "B")}, DIMS, SWEEP), decompose=RAW_AND_DECOMPOSED
    ),
    *variants(
        Case("cumsum_i64", Cumsum, {"x": i64("A", "B", low=-9)}, DIMS, SWEEP, covers="G3 G9"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("cumsum_bool", Cumsum, {"x": boolean("A", "B")}, DIMS, SWEEP, covers="G3"),
]
