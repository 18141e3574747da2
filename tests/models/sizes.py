"""Sizes that are expressions: floor, products, differences, Min, Max, Mod; integers in and out.

`64 - s0` is largest at the smallest s0, so its slot is not its value at the bound. Integer inputs
stay symbols; integer outputs are what the live shape makes of them.
"""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, IntInput, f32, i64, over, variants
from torch import nn


class Affine(nn.Module):
    """s//2, 2*s+1, 64-s, s*s."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(64, 3))

    def forward(self, x):
        s = x.shape[0]
        half = x[: s // 2] * 2
        odd = torch.cat((x, x, x[:1]))
        rest = self.table[s:] + 1
        square = torch.arange(s * s).view(s, s)
        return half, odd, rest, square, torch.full((64 - s, s // 2), 1.0)


class MinMax(nn.Module):
    """Sizes through sym_min and sym_max of two symbols."""

    def forward(self, a, b):
        low, high = torch.sym_min(a.shape[0], b.shape[0]), torch.sym_max(a.shape[0], b.shape[0])
        return (
            torch.arange(low),
            torch.zeros(high, 2),
            torch.full((high - low + 1,), 2.0),
            low,
            high,
        )


class Remainder(nn.Module):
    """Padding up to a multiple of 8: s % 8 and ceil in sizes."""

    def forward(self, x):
        s = x.shape[0]
        missing = (8 - s % 8) % 8
        padded = torch.cat((x, torch.zeros(missing, 4)))
        blocks = (s + 7) // 8
        return padded, torch.zeros(blocks, 2), torch.arange(s % 5), missing


class Integers(nn.Module):
    """Integer inputs as sizes and as values; integers as outputs."""

    def forward(self, x, n: int, k: int):
        torch._check(n >= 0)
        torch._check(n <= 40)
        torch._check(k <= 100)
        return (
            torch.full((n, 2), 1.5),
            x * k + n,
            n * k + x.shape[0],
            x.shape[0] * 2,
            torch.arange(n) * k,
        )


class OfOutput(nn.Module):
    """Only integers leave."""

    def forward(self, x):
        return x.shape[0] + x.shape[1], x.numel()


class Derived(nn.Module):
    """Inputs whose dims are 2*T and T+1: solved backwards at bind."""

    def forward(self, x, y):
        return x.view(2, -1).sum(0) + y[1:], x[::2] * y[:-1]


class Nested(nn.Module):
    """Inputs and outputs in dicts, lists and tuples go by flattened names."""

    def forward(self, d, pair):
        left, right = pair
        return {"sum": d["q"][0] + left, "parts": [right * 2, d["k"]], "size": left.shape[0]}


class Trap31(nn.Module):
    """Exported at S = 31 with constants 31, 32 and 30 all over (G1): none of them is S."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.randn(32, 31))
        self.norm = nn.Linear(31, 31)

    def forward(self, x):
        s = x.shape[0]
        last = 32 - 1
        rows = torch.arange(s).clamp(max=last)
        kept = self.cache[:last] * 31
        return (
            self.norm(x) + self.cache[rows],
            kept.sum(0),
            x.view(-1, 31)[:, :30] + last,
            torch.where(torch.arange(s) == 31 - 1, 31, s),
            torch.full((31, s), 31),
        )


S32 = {"S": (1, 32)}
CASES = [
    *variants(
        Case("sizes_affine", Affine, {"x": f32("S", 3)}, S32, over(S=[32, 9, 2, 1]), hints=True),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "sizes_min_max",
        MinMax,
        {"a": f32("A", 2), "b": f32("B", 2)},
        {"A": (1, 20), "B": (1, 30)},
        over(A=[20, 1], B=[30, 5, 1]),
        covers="X3",
        hints=True,
    ),
    Case(
        "sizes_mod",
        Remainder,
        {"x": f32("S", 4)},
        S32,
        over(S=[32, 9, 8, 1]),
        covers="X3",
        hints=True,
        example={"S": 19},
    ),
    Case(
        "sizes_integers",
        Integers,
        {"x": f32("S"), "n": IntInput(6), "k": IntInput(9)},
        S32,
        [{"S": s, "n": n, "k": k} for s, n, k in ((32, 40, 3), (1, 1, 100), (5, 0, 0), (7, 7, 7))],
        covers="X3",
        compile_args=("--min", "n=0"),  # a dynamic int exports with a minimum of 2
    ),
    Case(
        "sizes_only",
        OfOutput,
        {"x": f32("A", "B")},
        {"A": (0, 9), "B": (0, 9)},
        over(A=[9, 0], B=[9, 1]),
    ),
    Case(
        "sizes_derived",
        Derived,
        {"x": f32("2*T"), "y": f32("T + 1")},
        {"T": (1, 30)},
        over(T=[30, 7, 1]),
        covers="X2",
    ),
    Case(
        "nested",
        Nested,
        {"d": {"q": [f32("S", 2)], "k": i64("S")}, "pair": (f32("S", 2), f32(3, "S"))},
        S32,
        over(S=[32, 1]),
    ),
    *variants(
        Case(
            "trap31",
            Trap31,
            {"x": f32("S", 31)},
            {"S": (1, 31)},
            over(S=[31, 30, 1]),
            covers="G1",
            example={"S": 31},
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
