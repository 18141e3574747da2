"""argmax and argmin, along a dim or flattened; the first of equals, and NaN, as torch has it."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    boolean,
    f16,
    f32,
    i8,
    i64,
    over,
    variants,
)
from torch import nn


class Arg(nn.Module):
    def forward(self, x):
        return (
            x.argmax(),
            x.argmin(),
            x.argmax(-1),
            x.argmin(0, keepdim=True),
            x.argmax(1, keepdim=True) + 1,
            x.t().argmax(0),
        )


class WithValues(nn.Module):
    def forward(self, x):
        return (*x.max(-1), *x.min(0, keepdim=True), x.sum().argmax(), *x.sum().max(0))


class Truth(nn.Module):
    def forward(self, flag):
        return *flag.max(-1), *flag.min(0)


def ties(point, rng):
    """Few different values, a NaN here and there."""
    x = torch.randint(-2, 3, (point["A"], point["B"]), generator=rng).float()
    x[torch.rand(x.shape, generator=rng) < 0.05] = float("nan")
    return {"x": x}


DIMS = {"A": (1, 9), "B": (1, 70)}
SWEEP = over(A=[9, 1], B=[70, 33, 1])
CASES = [
    *variants(
        Case("argmax", Arg, {"x": f32("A", "B")}, DIMS, SWEEP, ties),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("max_dim", WithValues, {"x": f32("A", "B")}, DIMS, SWEEP, ties),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("argmax_f16", WithValues, {"x": f16("A", "B")}, DIMS, SWEEP, tolerance=2e-3),
    Case("argmax_i64", Arg, {"x": i64("A", "B", low=-3, high=3)}, DIMS, SWEEP),
    Case("argmax_i8", WithValues, {"x": i8("A", "B", low=-3, high=3)}, DIMS, SWEEP),
    Case("max_dim_bool", Truth, {"flag": boolean("A", "B")}, DIMS, SWEEP),
]
