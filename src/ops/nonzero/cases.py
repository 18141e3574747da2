"""Sizes born from data (X3): counted, checked, and carried on like any other size."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, boolean, f32, i64, over, variants
from torch import nn


class Nonzero(nn.Module):
    def forward(self, x):
        return torch.nonzero(x > 0), torch.nonzero(x.round()), x.abs() > 1


class Selected(nn.Module):
    """What is born here is a size like any other: pointwise, reductions, products, cat."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 3)

    def forward(self, x):
        y = torch.masked_select(x, x > 0)
        rows = x[x[:, 0] > 0]
        return y * 2 + 1, y.sum(), y.cumsum(0), self.proj(rows), torch.cat([rows, x]), rows.T


class Masked(nn.Module):
    def forward(self, x, m):
        return x[m], x[:, m[0]], x[m[:, 1]]


class MaskedWrite(nn.Module):
    """A mask that is written through with one value needs no positions; with many, it does."""

    def forward(self, x, m):
        zeroed = x.clone()
        zeroed[m] = 0.0
        rows = x.clone()
        rows[m[:, 0]] = x[0]
        doubled = x.clone()
        doubled[m] = x[m] * 2 + 1
        return zeroed, rows, doubled


class Positions(nn.Module):
    """The other spellings of nonzero: a tensor a dim, where() with a condition alone, argwhere."""

    def forward(self, x):
        rows, columns = x.nonzero(as_tuple=True)
        i = torch.where(x > 0)
        return rows + columns, x[i], torch.argwhere(x < 0)


class MaskBehind(nn.Module):
    """Masks of a dim that is not the first, of a born size, and one that torch can count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("some", torch.tensor([True, False, True, True, False, True]))

    def forward(self, x):
        rows, columns = x[:, 0] > 0, x.sum(0) > 0
        y = x[rows]
        zeroed, doubled = x.clone(), x[None].expand(2, -1, -1).clone()
        zeroed[:, columns] = 0.0
        doubled[:, rows] = doubled[:, rows] * 2 + 1
        doubled[1, rows] = torch.arange(6.0)
        return y[:, columns], y[:, self.some], x[rows, 1:][:, columns[1:]].T, zeroed, doubled


class Chained(nn.Module):
    """A size that is born from tensors whose size was born: a third stage, and a fourth."""

    def forward(self, x):
        i = torch.nonzero(x)[:, 0]
        y = x[i]
        z = y[y > 0]
        return z, y.shape[0] + z.shape[0], torch.nonzero(z > z.mean())


class Independent(nn.Module):
    """Two that do not depend on each other are read at one stop."""

    def forward(self, x, n):
        a = x[x > 0]
        b = n[n > 100]
        return a.sum(), b.sum(), a, b


class CountedState(nn.Module):
    """The number of rows kept so far is a state; the run that fails must not count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        rows = x[x[:, 0] > 0]
        self.kept.add_(rows.shape[0])
        return rows * 2, self.kept + 0


class At(nn.Module):
    """A 0-d index is a number that data knows; torch makes a symbol for where the result begins."""

    def forward(self, x, n):
        i = torch.count_nonzero(x > 0) % x.shape[1]
        return x[:, i] + 1, x[:, n], x[:, n - 6]


class From(nn.Module):
    """Where a slice begins and ends is data; torch makes a symbol of its size."""

    def forward(self, x, n):
        i = (n.sum() % 4).item()
        tail, head = x[i:] * 2, x[:i]
        rest = torch.nonzero(x[:, 0])[n[0].item() :]
        return tail, head, torch.cat((tail, head)), tail.sum(0), tail.reshape(-1), rest


SIZES = over(S=[64, 17, 2, 1, 0])


def data(point, rng):
    """Many data a shape: all taken, nothing taken, and what chance takes."""
    kinds = (torch.abs, lambda x: -x.abs(), lambda x: x, lambda x: x + 1, lambda x: x - 1)
    return [{"x": kind(torch.randn(point["S"], 6, generator=rng))} for kind in kinds]


def masks(point, rng):
    shape = (point["S"], 6)
    chance = (torch.rand(shape, generator=rng) > p for p in (0.5, 0.9, 0.1))
    kinds = (torch.ones(shape), torch.zeros(shape), torch.eye(*shape), *chance)
    return [{"x": torch.randn(shape, generator=rng), "m": kind.bool()} for kind in kinds]


CASES = [
    *variants(
        Case("nonzero", Nonzero, {"x": f32("S", 6)}, {"S": (0, 64)}, SIZES, data, covers="X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("masked_select", Selected, {"x": f32("S", 6)}, {"S": (0, 64)}, SIZES, data),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "masked_index",
            Masked,
            {"x": f32("S", 6), "m": boolean("S", 6)},
            {"S": (1, 64)},
            over(S=[64, 17, 2, 1]),
            masks,
            covers="X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "masked_write",
            MaskedWrite,
            {"x": f32("S", 6), "m": boolean("S", 6)},
            {"S": (1, 64)},
            over(S=[64, 17, 1]),
            masks,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("nonzero_forms", Positions, {"x": f32("S", 6)}, {"S": (0, 64)}, SIZES, data),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("mask_behind", MaskBehind, {"x": f32("S", 6)}, {"S": (0, 64)}, SIZES, data),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("born_chain", Chained, {"x": f32("S")}, {"S": (2, 64)}, over(S=[64, 33, 2]), covers="X3"),
    Case(
        "born_independent",
        Independent,
        {"x": f32("S"), "n": i64("T")},
        {"S": (0, 64), "T": (0, 32)},
        over(S=[64, 5, 0], T=[32, 1]),
    ),
    *variants(
        Case(
            "born_slice",
            From,
            {"x": f32("S", 6), "n": i64(3, low=-2, high=5)},
            {"S": (1, 64)},
            over(S=[64, 3, 1]),
            lambda point, rng: [
                {"x": torch.randn(point["S"], 6, generator=rng), "n": torch.tensor([a, b, 0])}
                for a, b in ((0, 0), (-1, 2), (2, 5), (5, 1), (-7, 9))
            ],
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "born_index",
            At,
            {"x": f32("S", 6), "n": i64(low=0, high=5)},
            {"S": (1, 64)},
            over(S=[64, 3, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("born_state", CountedState, {"x": f32("S", 6)}, {"S": (1, 64)}, over(S=[64, 3, 1]), data),
]
