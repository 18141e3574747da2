"""Every pointwise op over every type it takes; broadcasting, promotion, and fused chains."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    bf16,
    boolean,
    f16,
    f32,
    i32,
    i64,
    over,
    variants,
)
from torch import nn


class Outputs(nn.Module):
    """One output for each function of the list."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, *inputs):
        return tuple(function(*inputs) for function in self.functions)


class Unary(Outputs):
    def forward(self, x):
        return tuple(function(x) for function in self.functions)


class Binary(Outputs):
    def forward(self, a, b):
        return tuple(function(a, b) for function in self.functions)


def smooth():
    return Unary(
        torch.neg,
        torch.abs,
        torch.exp,
        torch.sigmoid,
        torch.tanh,
        torch.sin,
        torch.cos,
        torch.erf,
        torch.relu,
        nn.functional.silu,
        nn.functional.gelu,
        lambda x: nn.functional.gelu(x, approximate="tanh"),
        lambda x: torch.rsqrt(x.abs() + 0.1),
        lambda x: torch.sqrt(x.abs()),
        lambda x: torch.log(x.abs() + 0.1),
        lambda x: torch.reciprocal(x.abs() + 0.5),
        lambda x: x.pow(3),
        lambda x: x.clamp(-0.5, 0.7),
        lambda x: 2 - x / 3 + 1.5,
    )


def arithmetic():
    return Binary(
        torch.add,
        torch.sub,
        torch.mul,
        lambda a, b: a / (b.abs() + 1),
        torch.maximum,
        torch.minimum,
        lambda a, b: torch.add(a, b, alpha=2),
        lambda a, b: torch.sub(a, b, alpha=0.5),
    )


def whole():
    return Binary(
        torch.add,
        torch.sub,
        torch.mul,
        lambda a, b: a // b,
        torch.remainder,
        lambda a, b: a / b,
        lambda a, b: -a,
        lambda a, b: a.clamp(min=-3, max=5),
        torch.bitwise_and,
        torch.bitwise_or,
        torch.bitwise_xor,
        lambda a, b: ~a,
        torch.maximum,
        lambda a, b: a.abs(),
    )


def compared():
    return Binary(torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, lambda a, b: a >= 0)


def logic():
    return Binary(
        torch.logical_and,
        torch.logical_or,
        torch.logical_xor,
        lambda a, b: torch.logical_not(a),
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: ~a,
        lambda a, b: a ^ b,
        lambda a, b: a.to(torch.float32) * 2 + b,
    )


class Chain(nn.Module):
    """Long enough to fuse, with a value used twice, a scalar, a row and a column."""

    def forward(self, x, row, column):
        y = torch.sigmoid(x * 2 + row) - column
        return torch.tanh(y * y) + y / (x.abs() + 1), y


class Casts(nn.Module):
    def forward(self, x):
        whole = (x * 10).to(torch.int64)
        return (
            whole,
            x.to(torch.float16),
            x.to(torch.bfloat16),
            x.to(torch.bool),
            (x * 10).to(torch.int32),
            whole.to(torch.float32),
            x.to(torch.float32),
        )


class Promote(nn.Module):
    """int + float tensor, bool + int, 0-d against dims: torch's promotion, not ours."""

    def forward(self, x, n, flag):
        return x + n, n + flag, x * flag, n / 2, n * 2.5, x + torch.tensor(2.0)


class Exact(nn.Module):
    """int64 beyond 2^53 (G9): a detour through double would show."""

    def forward(self, n):
        return n + 1, n * 3, n - (1 << 60), n // 7, n % 1000, n == n + 1, n > (1 << 60)


def huge(point, rng):
    n = torch.randint(1 << 59, (1 << 60) + 99, (point["S"],), generator=rng)
    return {"n": n}


AB = {"R": (0, 9), "C": (0, 70)}
SWEEP = [*over(R=[9, 1], C=[70, 33, 1]), {"R": 0, "C": 3}, {"R": 3, "C": 0}]
SMALL = [*over(R=[9], C=[70, 1]), {"R": 1, "C": 17}]


def two(kind, **options):
    return {"a": kind("R", "C", **options), "b": kind("R", "C", **options)}


CASES = [
    *variants(
        Case("unary", smooth, {"x": f32("R", "C")}, AB, SWEEP, covers="X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("unary_f16", smooth, {"x": f16("R", "C")}, AB, SMALL, tolerance=2e-3),
    Case("unary_bf16", smooth, {"x": bf16("R", "C")}, AB, SMALL, tolerance=2e-2),
    Case("binary", arithmetic, two(f32), AB, SWEEP),
    Case("binary_f16", arithmetic, two(f16), AB, SMALL, tolerance=2e-3),
    Case("binary_bf16", arithmetic, two(bf16), AB, SMALL, tolerance=2e-2),
    Case("integer_i64", whole, two(i64, low=1, high=9), AB, SWEEP, covers="G3"),
    Case("integer_i32", whole, two(i32, low=1, high=9), AB, SMALL, covers="G3"),
    Case("integer_negative", whole, two(i64, low=-9, high=-1), AB, SMALL, covers="G3"),
    Case("compare_f32", compared, two(f32), AB, SMALL, covers="G3"),
    Case("compare_i64", compared, two(i64, low=-2, high=2), AB, SWEEP, covers="G3"),
    Case("logic", logic, two(boolean), AB, SWEEP, covers="G3"),
    Case(
        "logic_of_ints",
        lambda: Binary(torch.logical_and, torch.logical_or),
        two(i64, high=1),
        AB,
        SMALL,
        covers="G3",
    ),
    *variants(
        Case(
            "chain",
            Chain,
            {"x": f32("R", "C"), "row": f32("C"), "column": f32("R", 1)},
            AB,
            SWEEP,
            covers="S X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("casts", Casts, {"x": f32("R", "C")}, AB, SMALL),
    Case(
        "promote",
        Promote,
        {"x": f32("R", "C"), "n": i64("R", "C", low=-5, high=5), "flag": boolean("R", "C")},
        AB,
        SMALL,
    ),
    Case(
        "int64_exact", Exact, {"n": i64("S")}, {"S": (0, 50)}, over(S=[50, 1, 0]), huge, covers="G9"
    ),
]
