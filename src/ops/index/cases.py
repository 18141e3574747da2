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


class Flip(nn.Module):
    def forward(self, x):
        return x.flip(0), x.flip((0, 1)), x.flip(-1) * 2


class Scatter(nn.Module):
    def forward(self, x, columns):
        ones = torch.ones_like(columns, dtype=torch.float32)
        return (
            x.scatter(1, columns, 7.0),
            x.scatter_add(1, columns, x),
            torch.zeros_like(x).scatter(1, columns, ones),
            x.scatter_add(1, columns[:, :1], x),
            nn.functional.one_hot(columns, 9),
            x.scatter_reduce(1, columns, x, "sum"),
            x.index_add(1, torch.tensor([3, 1, 3]), x[:, :3], alpha=2),
        )


def permuted(point, rng):
    """scatter to a repeated place has no defined winner."""
    r, n = point["R"], point["N"]
    rows = [torch.randperm(9, generator=rng)[:n] for _ in range(r)]
    x = torch.randn(r, 9, generator=rng)
    return {"x": x, "columns": torch.stack(rows) if r else torch.zeros(0, n, dtype=torch.long)}


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
    *variants(
        Case(
            "gather",
            Gather,
            {"x": f32("R", 9), "columns": i64("R", "N", high=8)},
            {"R": (0, 12), "N": (0, 9)},
            over(R=[12, 1], N=[9, 1, 0]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("flip", Flip, {"x": f32("R", 4)}, {"R": (0, 30)}, over(R=[30, 1, 0])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "scatter",
            Scatter,
            {"x": f32("R", 9), "columns": i64("R", "N", high=8)},
            {"R": (0, 12), "N": (1, 9)},
            over(R=[12, 1, 0], N=[9, 1]),
            permuted,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "index_written",
            Written,
            {"x": f32("R", 4), "rows": i64("N", high=0)},
            {"R": (1, 30), "N": (0, 30)},
            [{"R": 30, "N": 30}, {"R": 30, "N": 2}, {"R": 1, "N": 1}, {"R": 5, "N": 0}],
            distinct,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
