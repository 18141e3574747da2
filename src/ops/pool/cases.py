"""Pools: windows with padding, ceil_mode and NaN; adaptive pools to fixed and live sizes."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, bf16, f32, i64, over, variants
from torch import nn

f = nn.functional


class Max(nn.Module):
    def forward(self, x):
        return (
            f.max_pool2d(x, 3, 2, 1),
            f.max_pool2d(x, (2, 3)),
            f.max_pool2d(x, 2, stride=1, dilation=(2, 3)),
        )


class Mean(nn.Module):
    def forward(self, x):
        return (
            f.avg_pool2d(x, 3, 2, 1),
            f.avg_pool2d(x, (2, 3)),
            f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            f.avg_pool2d(x, 3, 1, 1, divisor_override=5),
        )


class Ceil(nn.Module):
    """Sizes are fixed where ceil_mode is: an export with live ones has a guard for each parity."""

    def forward(self, x):
        return (
            f.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            f.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            f.avg_pool2d(x, 2, 3, 1, ceil_mode=True, count_include_pad=False),
        )


class CeilSmall(nn.Module):
    """A window that is larger than the padded image has a place if it begins inside."""

    def forward(self, x):
        return (
            f.max_pool2d(x, (5, 4), 3, 1, ceil_mode=True),
            f.avg_pool2d(x, (5, 4), (2, 3), 1, ceil_mode=True),
            f.avg_pool2d(x, (5, 4), (2, 3), 1, ceil_mode=True, count_include_pad=False),
            f.max_pool1d(x[:, 0], 4, 3, ceil_mode=True),
        )


class OneDim(nn.Module):
    def forward(self, x):
        return (
            f.max_pool1d(x, 3, 2, 1),
            f.avg_pool1d(x, 4, 2, 1),
            f.avg_pool1d(x, 3, ceil_mode=True),
            f.adaptive_avg_pool1d(x, 5),
            f.adaptive_avg_pool1d(x, 1),
        )


class Adaptive(nn.Module):
    def forward(self, x):
        return (
            f.adaptive_avg_pool2d(x, 1),
            f.adaptive_avg_pool2d(x, (3, 5)),
            f.adaptive_avg_pool2d(x, (2, None)),
        )


class Whole(nn.Module):
    """Of an image without pixels the mean is NaN."""

    def forward(self, x):
        return f.adaptive_avg_pool2d(x, 1), f.adaptive_avg_pool1d(x[:, :, 0], 1)


def special(point, rng):
    """All below zero, so that padding would win; NaN and -inf among them."""
    x = -1 - torch.rand(point["B"], 3, point["H"], point["W"], generator=rng)
    x[..., 2, 3] = float("nan")
    x[..., 4:, 5:] = float("-inf")
    return {"x": x}


X = {"x": f32("B", 3, "H", "W")}
DIMS = {"B": (0, 3), "H": (6, 40), "W": (6, 150)}
SWEEP = [
    {"B": 2, "H": 11, "W": 150},
    {"B": 3, "H": 40, "W": 8},
    {"B": 1, "H": 6, "W": 6},
    {"B": 0, "H": 9, "W": 7},
]
CASES = [
    *variants(
        Case("max_pool2d", Max, X, DIMS, SWEEP, special, covers="X3"), decompose=RAW_AND_DECOMPOSED
    ),
    *variants(Case("avg_pool2d", Mean, X, DIMS, SWEEP, covers="X3"), decompose=RAW_AND_DECOMPOSED),
    *variants(
        Case("adaptive_avg_pool2d", Adaptive, X, DIMS, SWEEP, covers="X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "adaptive_avg_pool_whole",
            Whole,
            {"x": f32("B", 3, "H", "W")},
            {"B": (0, 3), "H": (1, 40), "W": (0, 9)},
            over(B=[2, 0], H=[11, 1], W=[9, 1, 0]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "pool1d",
            OneDim,
            {"x": f32("B", 3, 29)},
            {"B": (0, 3)},
            over(B=[3, 1, 0]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("pool_ceil", Ceil, {"x": f32("B", 2, 13, 16)}, {"B": (1, 3)}, over(B=[3, 1])),
    Case("pool_ceil_small", CeilSmall, {"x": f32("B", 2, 2, 3)}, {"B": (1, 3)}, over(B=[3, 1])),
    Case("max_pool2d_i64", Max, {"x": i64("B", 3, "H", "W")}, DIMS, SWEEP[:2]),
    Case("avg_pool2d_bf16", Mean, {"x": bf16("B", 3, "H", "W")}, DIMS, SWEEP[:2], tolerance=1.6e-2),
]
