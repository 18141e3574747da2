"""Gathers by integer tensors: index.Tensor in its forms, index_select, gather, advanced writes."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i64, over, variants
from torch import nn


class Index(nn.Module):
    def forward(self, x, rows):
        return x[rows], x[:, rows % 4], torch.index_select(x, 0, rows), x[rows, rows % 4]


class Table(nn.Module):
    """A constant table read at live positions, as a learned position embedding is."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(33, 6))

    def forward(self, rows):
        return self.table[rows], self.table[-rows - 1]


class Gather(nn.Module):
    def forward(self, x, columns):
        return torch.gather(x, 1, columns)


class Written(nn.Module):
    """index_put and index_copy on an intermediate: no state is involved."""

    def forward(self, x, rows):
        y = x.clone()
        y[rows] = 7.0
        z = torch.index_copy(x, 0, rows, torch.ones(rows.shape[0], 4))
        return y, z, torch.index_put(x, (rows,), x[rows] * 2)


def distinct(point, rng):
    """index_copy at a repeated row has no defined winner."""
    x = torch.randn(point["R"], 4, generator=rng)
    return {"x": x, "rows": torch.randperm(point["R"], generator=rng)[: point["N"]]}


def inside(point, rng):
    x = torch.randn(point["R"], 4, generator=rng)
    return {"x": x, "rows": torch.randint(0, point["R"], (point["N"],), generator=rng)}


DIMS = {"R": (1, 30), "N": (0, 40)}
SWEEP = [*over(R=[30, 1], N=[40, 1, 0]), {"R": 7, "N": 3}]
CASES = [
    *variants(
        Case(
            "index",
            Index,
            {"x": f32("R", 4), "rows": i64("N", high=0)},
            DIMS,
            SWEEP,
            inside,
            covers="G2",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "index_table",
        Table,
        {"rows": i64("B", "S", high=32)},
        {"B": (1, 3), "S": (0, 33)},
        over(B=[3, 1], S=[33, 1, 0]),
    ),
    Case(
        "gather",
        Gather,
        {"x": f32("R", 9), "columns": i64("R", "N", high=8)},
        {"R": (0, 12), "N": (0, 9)},
        over(R=[12, 1], N=[9, 1, 0]),
    ),
    Case(
        "index_written",
        Written,
        {"x": f32("R", 4), "rows": i64("N", high=0)},
        {"R": (1, 30), "N": (0, 30)},
        [{"R": 30, "N": 30}, {"R": 30, "N": 2}, {"R": 1, "N": 1}, {"R": 5, "N": 0}],
        distinct,
    ),
]
