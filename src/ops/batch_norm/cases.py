"""Batch norm in inference: alone at several ranks, and after a convolution, where it folds away."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f16, f32, over, variants
from torch import nn


def shaken(module):
    """Statistics and weights of no round number."""
    for norm in module.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.1, 3)
            if norm.affine:
                nn.init.normal_(norm.weight)
                nn.init.normal_(norm.bias)
    return module


class Ranks(nn.Module):
    def __init__(self):
        super().__init__()
        self.flat, self.line = nn.BatchNorm1d(7), nn.BatchNorm1d(7, affine=False)
        self.image = nn.BatchNorm2d(7, eps=0.1)

    def forward(self, x):
        return self.flat(x[:, :, 0]), self.line(x), self.image(x[..., None])


class OfTheBatch(nn.Module):
    """Without running statistics, in inference too."""

    def __init__(self):
        super().__init__()
        self.line = nn.BatchNorm1d(7, track_running_stats=False)
        self.image = nn.BatchNorm2d(7, affine=False, track_running_stats=False)
        nn.init.normal_(self.line.weight)
        nn.init.normal_(self.line.bias)

    def forward(self, x):
        return self.line(x), self.line(x[:, :, 0]), self.image(x[..., None])


class AfterConv(nn.Module):
    """The last one must not fold: the convolution's own result is used as well."""

    def __init__(self):
        super().__init__()
        self.line = nn.Sequential(nn.Conv1d(7, 9, 3), nn.BatchNorm1d(9), nn.ReLU())
        self.plain = nn.Sequential(nn.Conv1d(9, 5, 1, bias=False), nn.BatchNorm1d(5))
        self.shared, self.norm = nn.Conv1d(9, 4, 3, padding=1), nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.line(x)
        shared = self.shared(y)
        return self.plain(y), self.norm(shared), shared


X = {"x": f32("B", 7, "S")}
DIMS = {"B": (0, 4), "S": (4, 40)}
SWEEP = [*over(B=[4, 1], S=[40, 4]), {"B": 0, "S": 5}]
CASES = [
    *variants(
        Case("batch_norm", lambda: shaken(Ranks()), X, DIMS, SWEEP), decompose=RAW_AND_DECOMPOSED
    ),
    *variants(
        Case("batch_norm_folded", lambda: shaken(AfterConv()), X, DIMS, SWEEP),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "batch_norm_of_the_batch",
            OfTheBatch,
            X,
            {"B": (2, 4), "S": (4, 40)},
            over(B=[4, 2], S=[40, 4]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "batch_norm_f16",
        lambda: shaken(Ranks()).to(torch.float16),
        {"x": f16("B", 7, "S")},
        DIMS,
        SWEEP[:2],
        tolerance=2e-3,
    ),
]
