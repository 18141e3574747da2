"""Sizes at which tiles end in the middle: N4 and N7, run on the NPU backend with tiles of 512."""

import torch
from liveshape.testing import Case, f32, over
from torch import nn


class AddSum(nn.Module):
    """The sum proves that no element beside the live ones was added."""

    def forward(self, a, b):
        y = a + b
        return y, y.sum()


class Add(nn.Module):
    def forward(self, a, b):
        return a + b


class NoPadding(nn.Module):
    """All values are negative: a zero of padding would win."""

    def forward(self, x):
        y = -x.abs() - 1
        return y.amax(-1), torch.softmax(y, -1), torch.softmax(y, 0)


class ViewTransposed(nn.Module):
    """view(M, N).T of a flat axis of M*N, straddling tiles."""

    def forward(self, x):
        m, n = x.shape
        flat = x.reshape(-1) * 2
        return flat.view(m, n).T + 1


class Straddle(nn.Module):
    """A flat view of a transpose, which strides cannot express, read by a chain."""

    def forward(self, x, y):
        return x.T.reshape(-1) * 2 + y.reshape(-1)


class Regroup(nn.Module):
    """(A, B, C) -> (C, A*B)."""

    def forward(self, x):
        a, b, c = x.shape
        return x.permute(2, 0, 1).reshape(c, a * b) + 1


CASES = [
    Case(
        "tiles_add",
        AddSum,
        {"a": f32("N"), "b": f32("N")},
        {"N": (1, 2048)},
        over(N=[1024, 2048, 1536, 1000, 1]),
        covers="N4",
    ),
    Case(
        "tiles_add_2d",
        Add,
        {"a": f32("R", "C"), "b": f32("R", "C")},
        {"R": (1, 64), "C": (1, 1024)},
        [{"R": 37, "C": 1000}, {"R": 1, "C": 1}, {"R": 64, "C": 513}],
        covers="N4",
    ),
    Case(
        "tiles_add_3d",
        Add,
        {"a": f32("A", "B", "C"), "b": f32("C")},
        {"A": (1, 8), "B": (1, 256), "C": (1, 128)},
        [{"A": 3, "B": 129, "C": 65}, {"A": 1, "B": 1, "C": 1}, {"A": 8, "B": 2, "C": 128}],
        covers="N4",
    ),
    Case(
        "tiles_no_padding",
        NoPadding,
        {"x": f32("R", "C")},
        {"R": (1, 64), "C": (1, 1024)},
        [{"R": 37, "C": 1000}, {"R": 3, "C": 1}, {"R": 1, "C": 513}],
        covers="N4",
    ),
    Case(
        "tiles_view",
        ViewTransposed,
        {"x": f32("M", "N")},
        {"M": (1, 128), "N": (1, 128)},
        [{"M": 37, "N": 101}, {"M": 127, "N": 3}, {"M": 1, "N": 1}],
        covers="N7",
    ),
    Case(
        "tiles_straddle",
        Straddle,
        {"x": f32("M", "N"), "y": f32("M", "N")},
        {"M": (2, 128), "N": (2, 128)},  # at 1 a static program needs no copy
        [{"M": 37, "N": 101}, {"M": 127, "N": 3}, {"M": 2, "N": 2}],
        covers="N7",
    ),
    Case(
        "tiles_regroup",
        Regroup,
        {"x": f32("A", "B", "C")},
        {"A": (1, 32), "B": (1, 32), "C": (1, 32)},
        [{"A": 7, "B": 11, "C": 13}, {"A": 31, "B": 29, "C": 23}, {"A": 1, "B": 1, "C": 1}],
        covers="N7",
    ),
]
