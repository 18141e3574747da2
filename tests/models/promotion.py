"""What types become: casts, promotion, Python numbers and sizes beside tensors, exact int64."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    bf16,
    boolean,
    f16,
    f32,
    i8,
    i64,
    over,
    u8,
    variants,
)
from torch import nn


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


class PromoteMore(nn.Module):
    """A 0-d tensor and a Python number lift the category only; i8 with u8 is i16."""

    def forward(self, x, h, n, a, b):
        zero = n[0, 0]
        return (
            h + zero,
            h * 2.5,
            h + x[0, 0],
            h + x,
            a + zero,
            a + 1,
            a * 0.5,
            a + b,
            a + n,
            b - 1,
            b > 1,
            zero + 1.5,
            zero / 2,
            zero // 2,
            zero * a[0, 0],
            x[0, 0] + h[0, 0],
            n * True,
            (a > 0) + a,
            torch.where(a > 0, a, zero),
            torch.where(a > 0, h, 1.0),
            torch.cat((a, b), 1),
            torch.maximum(n, zero),
            a.clamp(max=2.5),
            torch.addcmul(x, b * 40, b, value=2),
            torch.addcmul(x, b * 40, b * 40),
            torch.addcdiv(x, b * 40, x.abs() + 1, value=3),
            torch.addcmul(n, a, b, value=30),
        )


class SymbolicFloats(nn.Module):
    """Sizes as floats: computed in double by the shape program, rounded once."""

    def forward(self, x, h, n):
        s = x.shape[0]
        return (
            x * (s**-0.5),
            x / (s**0.5),
            x + s * 0.3,
            x * (1 / s),
            h * (s**-0.5),
            n * (s / 3),
            n + s,
            x.clamp(max=s / 40),
            torch.where(x > 0, x, s / 3),
            x.masked_fill(x > 0, 1 / s),
            torch.full((3,), s * 0.5),
            x.abs() ** (s / 20),
            x.sum() / s,
            torch.arange(0, s, 0.5),
            torch.arange(0.25, s),
        )


class BesideHalves(nn.Module):
    """torch multiplies and divides by a Python number in f32, and by a 0-d tensor that comes
    second; elsewhere these are halves."""

    def forward(self, h, g):
        arithmetic = h * 0.1, h + 0.3, h / 0.7, 1.1 - h, g * 0.1 + 0.3, g / 3
        reversed = 0.3 / h, 0.3 / g, torch.tensor(0.3) / h, torch.tensor(0.3) / g, 0.7 * g
        scalars = h / torch.tensor(0.3), torch.tensor(0.3) * h, h * torch.tensor(0.3)
        scalars += g / torch.tensor(0.3), torch.tensor(0.3) * g, h + torch.tensor(0.3)
        chosen = h.clamp(max=0.1), torch.where(h > 0.1, h, 0.1), torch.full_like(g, 0.1)
        whole = h // 0.3, g // 0.7, torch.div(h, 0.3, rounding_mode="trunc")
        whole += torch.div(g, 0.7, rounding_mode="trunc"), h % 0.3, torch.fmod(g, 0.7)
        limits = torch.logit(h.abs(), 1e-3), torch.hardshrink(g, 0.3)
        return *arithmetic, *reversed, *scalars, *chosen, *whole, *limits


class Numbers(nn.Module):
    """What a Python number becomes beside bool and narrow integers, and which operand it scales."""

    def forward(self, flag, b, n):
        return (
            flag.masked_fill(n > 0, 2.0),
            flag.masked_fill(n > 0, -1.5),
            torch.full_like(flag, 3),
            torch.full((2,), 0.5, dtype=torch.bool),
            b.masked_fill(n > 0, 200),
            torch.full_like(b, 255) + b,
            torch.square(flag),
            flag**2,
            torch.add(flag, flag, alpha=2),
            torch.add(b, n > 0, alpha=3),
            torch.rsub(n, b, alpha=2),
            torch.rsub(n, 5, alpha=3),
            n.clone().copy_(3),
            torch.isneginf(n),
            flag.clone().copy_(0.25),
        )


class Exact(nn.Module):
    """int64 beyond 2^53 (G9): a detour through double would show."""

    def forward(self, n):
        return n + 1, n * 3, n - (1 << 60), n // 7, n % 1000, n == n + 1, n > (1 << 60)


def huge(point, rng):
    n = torch.randint(1 << 59, (1 << 60) + 99, (point["S"],), generator=rng)
    return {"n": n}


AB = {"R": (0, 9), "C": (0, 70)}
SMALL = [*over(R=[9], C=[70, 1]), {"R": 1, "C": 17}]


CASES = [
    *variants(Case("casts", Casts, {"x": f32("R", "C")}, AB, SMALL), decompose=RAW_AND_DECOMPOSED),
    *variants(
        Case(
            "promote",
            Promote,
            {"x": f32("R", "C"), "n": i64("R", "C", low=-5, high=5), "flag": boolean("R", "C")},
            AB,
            SMALL,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "promote_more",
            PromoteMore,
            {
                "x": f32("R", "C"),
                "h": f16("R", "C"),
                "n": i64("R", "C", low=-5, high=5),
                "a": i8("R", "C", low=-5, high=5),
                "b": u8("R", "C", high=5),
            },
            {"R": (1, 9), "C": (1, 70)},
            SMALL,
            tolerance=1e-3,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "symbolic_floats",
            SymbolicFloats,
            {"x": f32("S"), "h": f16("S"), "n": i64("S", high=9)},
            {"S": (1, 50)},
            over(S=[50, 7, 2, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    # The tolerance is far below the spacing of halves: they must be equal.
    Case(
        "numbers_beside_halves", BesideHalves, {"h": f16("R", "C"), "g": bf16("R", "C")}, AB, SMALL
    ),
    *variants(
        Case(
            "numbers_beside_integers",
            Numbers,
            {"flag": boolean("R", "C"), "b": u8("R", "C"), "n": i64("R", "C", low=-5, high=5)},
            AB,
            SMALL,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "int64_exact", Exact, {"n": i64("S")}, {"S": (0, 50)}, over(S=[50, 1, 0]), huge, covers="G9"
    ),
]
