"""repeat_interleave with its repeats in a tensor, and item(): sizes that only data bounds (X3)."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i32, i64, over, variants
from torch import nn


class Interleave(nn.Module):
    def forward(self, x, r):
        return torch.repeat_interleave(r), torch.repeat_interleave(x, r, dim=0) * 2


class Told(nn.Module):
    """The caller says what the repeats sum to: nothing is born, and the claim is checked."""

    def forward(self, x, r):
        return torch.repeat_interleave(x, r, dim=0, output_size=2 * x.shape[0])


class Narrow(nn.Module):
    """Indices are of the dtype of the repeats."""

    def forward(self, x, r):
        return torch.repeat_interleave(r), torch.repeat_interleave(x, r, dim=0)


class Item(nn.Module):
    """A number that was computed becomes a size, an offset and an output."""

    def forward(self, x, k):
        n = k.sum().item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return x[:n] * 2, torch.zeros(n, 3), torch.arange(n), n


class Claimed(nn.Module):
    """Numbers that the export knows to be a size, twice a size, four: the data must agree."""

    def forward(self, x, k):
        same, twice, four, again = k.tolist()
        torch._check(same == x.shape[0])
        torch._check(twice == 2 * x.shape[0])
        torch._check(four == 4)
        torch._check(again == (x > 0).sum().item())
        return torch.ones(same, 3) + x, torch.arange(twice), torch.zeros(four), again


class Flag(nn.Module):
    def forward(self, x):
        n = (x > 0).any().to(torch.int64).item()
        return x + n


def repeats(point, rng):
    s = point["S"]
    kinds = (torch.randint(0, 4, (s,), generator=rng), torch.zeros(s).long(), torch.full((s,), 3))
    return [{"x": torch.randn(s, 4, generator=rng), "r": r} for r in kinds]


def twos(point, rng):
    r = torch.full((point["S"],), 2)
    r[0], r[-1] = 1, 3
    return {"x": torch.randn(point["S"], 4, generator=rng), "r": r}


def counts(point, rng):
    s = point["S"]
    pairs = ([s, 0], [0, 0], [s // 2, 1])
    return [{"x": torch.randn(s, 3, generator=rng), "k": torch.tensor(k)} for k in pairs]


def agreed(point, rng):
    s, x = point["S"], torch.randn(point["S"], 3, generator=rng)
    return {"x": x, "k": torch.tensor([s, 2 * s, 4, int((x > 0).sum())])}


CASES = [
    *variants(
        Case(
            "repeat_interleave",
            Interleave,
            {"x": f32("S", 4), "r": i64("S", low=0, high=3)},
            {"S": (1, 32)},
            over(S=[32, 5, 1]),
            repeats,
            compile_args=("--bound", "u0=96", "--bound", "u1=96"),
            covers="X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "repeat_interleave_told",
        Told,
        {"x": f32("S", 4), "r": i64("S", low=2, high=2)},
        {"S": (2, 32)},
        over(S=[32, 5, 2]),
        twos,
    ),
    *variants(
        Case(
            "item",
            Item,
            {"x": f32("S", 3), "k": i64(2, low=0, high=1)},
            {"S": (2, 64)},
            over(S=[64, 9, 2]),
            counts,
            covers="X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "repeat_interleave_i32",
            Narrow,
            {"x": f32("S", 4), "r": i32("S", low=0, high=3)},
            {"S": (1, 32)},
            over(S=[32, 1]),
            compile_args=("--bound", "u0=96", "--bound", "u1=96"),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "item_claimed",
            Claimed,
            {"x": f32("S", 3), "k": i64(4)},
            {"S": (2, 64)},
            over(S=[64, 9, 2]),
            agreed,
            covers="X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("item_flag", Flag, {"x": f32("S", 3)}, {"S": (1, 64)}, over(S=[64, 1])),
]
