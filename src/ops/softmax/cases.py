"""Softmax along any dim, with rows of -inf, a live width, and no rows at all."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, over, variants
from torch import nn


class LogSoftmax(nn.Module):
    """Along the last dim and along another, whose lines lie side by side."""

    def forward(self, x):
        return x.log_softmax(-1), x.log_softmax(0)


class Softmax(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.softmax(x, dim=self.dim)


def extreme(point, rng):
    """Large values, and -inf among finite ones: exp must neither overflow nor make NaN."""
    x = 50 * torch.randn(point["R"], point["C"], generator=rng)
    x[:, ::3] = float("-inf")
    x[:, -1] = 90.0
    return {"x": x}


X = {"x": f32("R", "C")}
DIMS = {"R": (0, 16), "C": (1, 100)}
SWEEP = [*over(R=[16, 1], C=[100, 33, 1]), {"R": 0, "C": 5}]
CASES = [
    *variants(
        Case("softmax_last", lambda: Softmax(-1), X, DIMS, SWEEP, covers="X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "softmax_first",
        lambda: Softmax(0),
        X,
        {"R": (1, 16), "C": (0, 100)},
        over(R=[16, 1], C=[100, 33, 1, 0]),
        covers="X3",
    ),
    *variants(
        Case(
            "log_softmax",
            LogSoftmax,
            X,
            {"R": (1, 16), "C": (1, 100)},
            over(R=[16, 1], C=[100, 33, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("softmax_extreme", lambda: Softmax(-1), X, DIMS, over(R=[7], C=[100, 8, 1]), extreme),
]
