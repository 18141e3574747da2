"""Every pointwise op over every type it takes; broadcasting and fused chains."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    bf16,
    boolean,
    f16,
    f32,
    i8,
    i32,
    i64,
    over,
    u8,
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


def activations():
    f = nn.functional
    return Unary(
        torch.sigmoid,
        f.gelu,
        lambda x: f.gelu(x, approximate="tanh"),
        f.relu6,
        f.leaky_relu,
        lambda x: f.leaky_relu(x, 0.2),
        f.elu,
        lambda x: f.elu(x, 0.7),
        f.selu,
        lambda x: f.celu(x, 1.3),
        f.hardtanh,
        lambda x: f.hardtanh(x, -0.3, 0.4),
        f.hardswish,
        f.hardsigmoid,
        f.mish,
        lambda x: f.softplus(x * 10),
        lambda x: f.softplus(x, 2.0, 1.0),
        f.logsigmoid,
        lambda x: f.glu(torch.cat((x, x + 1), 0), 0),
        f.softsign,
        f.hardshrink,
        lambda x: f.softshrink(x, 0.3),
        lambda x: f.threshold(x, 0.1, 2.0),
        lambda x: f.prelu(x[:, None, :], torch.tensor([0.25], dtype=x.dtype)),
    )


def functions():
    return Unary(
        torch.tan,
        lambda x: torch.asin(x.clamp(-1, 1)),
        lambda x: torch.acos(x.clamp(-1, 1)),
        torch.atan,
        torch.sinh,
        torch.cosh,
        lambda x: torch.atan2(x, x - 0.3),
        torch.exp2,
        torch.expm1,
        lambda x: torch.log1p(x.abs()),
        lambda x: torch.log2(x.abs() + 0.1),
        lambda x: torch.log10(x.abs() + 0.1),
        torch.square,
        lambda x: torch.addcmul(x, x, x, value=0.5),
        lambda x: torch.addcdiv(x, x, x.abs() + 1),
        lambda x: x**4,
        lambda x: x**-1,
        lambda x: x**-2,
        lambda x: x.abs() ** 1.5,
        lambda x: x**1.5,
        lambda x: x[..., None] ** torch.arange(-2, 4),
        lambda x: (-2) ** x.round(),
        lambda x: torch.pow(x.round().long(), 3),
        lambda x: torch.pow(x.round().long(), torch.arange(4)[:, None, None]),
        lambda x: x.abs() ** x,
        lambda x: 2**x,
        lambda x: x**0.5,
        torch.asinh,
        lambda x: torch.asinh(x * 1e-4) * 1e4,
        lambda x: torch.asinh(x * 1e25),
        lambda x: torch.acosh(x.abs() + 1),
        lambda x: torch.acosh(x.abs() * 1e25 + 1),
        lambda x: torch.atanh(x.clamp(-0.9, 0.9)),
        torch.erfc,
        lambda x: torch.erfc(x.abs() + 3) * 1e5,
        lambda x: torch.logit(x, 1e-3),
        torch.deg2rad,
        torch.rad2deg,
        torch.signbit,
        lambda x: torch.asinh(x.round().long()),
    )


def rounding():
    return Unary(
        torch.floor,
        torch.ceil,
        torch.round,
        torch.trunc,
        torch.sign,
        torch.abs,
        torch.neg,
        torch.isnan,
        torch.isinf,
        torch.isfinite,
        torch.isposinf,
        torch.isneginf,
        torch.positive,
        torch.logical_not,
        torch.relu,
        lambda x: torch.maximum(x, -x),
        lambda x: torch.minimum(x, torch.ones_like(x)),
        lambda x: x.clamp(-1, 1),
        lambda x: x.clamp(min=0.5),
        lambda x: x.clamp(max=x * 0.5),
        lambda x: x.clamp(min=-x, max=x),
        lambda x: x.clamp(3, -3),
        lambda x: x == x,
        lambda x: x < 1,
        lambda x: x != x,
        lambda x: x.to(torch.bool),
        lambda x: torch.remainder(x, 3),
        lambda x: torch.fmod(x, 3),
        lambda x: torch.remainder(x, -0.7),
        lambda x: torch.fmod(x, -0.7),
        lambda x: x // 0.7,
        lambda x: torch.div(x, -3, rounding_mode="floor"),
        lambda x: torch.div(x, 3, rounding_mode="trunc"),
    )


def special(point, rng):
    """NaN, infinities, halves and signed zeros: what rounding and comparisons trip over."""
    r, c = point["R"], point["C"]
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.0, -7.0, float("nan")]
    values += [float("inf"), -float("inf"), 1e-30, 8388609.0, -3.0, 0.7]
    pick = torch.randint(0, len(values), (r, c), generator=rng)
    return {"x": torch.tensor(values)[pick]}


def beside_special(point, rng):
    return {"a": special(point, rng)["x"], "b": torch.randn(point["R"], point["C"], generator=rng)}


def arithmetic():
    return Binary(
        torch.add,
        torch.sub,
        torch.mul,
        lambda a, b: a / (b.abs() + 1),
        torch.maximum,
        torch.minimum,
        torch.max,  # of two tensors: a name of its own
        torch.min,
        lambda a, b: torch.add(a, b, alpha=2),
        lambda a, b: torch.sub(a, b, alpha=0.5),
    )


def second_names():
    """Of ops that have two."""
    return Binary(
        torch.multiply,
        lambda a, b: torch.subtract(a, b, alpha=2),
        lambda a, b: torch.divide(a, b.abs() + 1, rounding_mode="floor"),
        torch.greater,
        torch.less_equal,
        torch.not_equal,
        torch.arctan2,
        lambda a, b: torch.clip(a, b - 1, b + 1),
        lambda a, b: a.clone().multiply_(2) + torch.negative(b),
        lambda a, b: torch.special.expit(torch.absolute(a)),
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


def narrow():
    """What every integer type does: wraps, keeps its type, divides downwards."""
    return Binary(
        torch.add,
        torch.sub,
        torch.mul,
        lambda a, b: a + 7,
        lambda a, b: a * 3 - 1,
        lambda a, b: -a,
        lambda a, b: a.abs(),
        lambda a, b: a.sign(),
        lambda a, b: a.square(),
        lambda a, b: a**3,
        lambda a, b: a // (b | 1),
        lambda a, b: a % (b | 1),
        lambda a, b: torch.fmod(a, b | 1),
        lambda a, b: torch.div(a, b | 1, rounding_mode="trunc"),
        lambda a, b: a / (b | 1),
        lambda a, b: a & b,
        lambda a, b: a | 5,
        lambda a, b: a ^ b,
        lambda a, b: ~a,
        lambda a, b: a << 2,
        lambda a, b: a >> 1,
        lambda a, b: 1 << (b & 3),
        torch.maximum,
        torch.minimum,
        lambda a, b: a.clamp(2, 9),
        lambda a, b: a.floor() + a.round(),
        lambda a, b: a.relu(),
        lambda a, b: a > b,
        lambda a, b: a == 3,
        lambda a, b: a != b,
        lambda a, b: torch.where(a > b, a, b),
        lambda a, b: a.masked_fill(a < b, 1),
        lambda a, b: torch.logical_and(a, b),
        lambda a, b: torch.logical_xor(a, b),
        lambda a, b: torch.sin(a),
        lambda a, b: a.to(torch.float32) * 0.5,
        lambda a, b: a.to(torch.int32) * b.to(torch.int64),
        lambda a, b: a.to(torch.bool),
        lambda a, b: torch.cat((a, b)),
        lambda a, b: a.unsqueeze(0) + b,
        lambda a, b: a.t().contiguous(),
        lambda a, b: torch.ones_like(a) + torch.full_like(b, 3),
        lambda a, b: a[torch.arange(a.shape[0])],
    )


def edges():
    """A row or column of x beside x: of an empty x there is none, so that its size is Min(S, 1)."""
    return Unary(
        lambda x: x + x[:1],
        lambda x: x * x[-1:],
        lambda x: x[:, :1] * x - 1,
        lambda x: x[:1] + x[:, -1:],
        lambda x: x[:1, :1] / x[-1:, -1:],
        lambda x: torch.where(x > x[:1], x, x[:, :1]),
        lambda x: x.masked_fill(x[-1:] > 0, 2.0),
        lambda x: (x + x[:1]).relu().sum(0) * x[:1],
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


class Composed(nn.Module):
    """Several instructions each; NaN, infinities and halves of integers among the inputs."""

    def forward(self, a, b):
        numbers = torch.nan_to_num(a), torch.nan_to_num(a, 1.5, 2.0, -3.0), torch.nan_to_num(b, 9.0)
        between = torch.lerp(b, b * 3, 0.3), torch.lerp(b, b * 3, 0.7), torch.lerp(b, -b, b.abs())
        rounded = torch.round(b, decimals=2), torch.round(b * 100, decimals=-1), torch.frac(b)
        signs = torch.copysign(b, a), torch.copysign(a, -2.0), torch.signbit(a)
        chosen = torch.fmax(a, b), torch.fmin(b, a), torch.heaviside(a, b)
        lengths = torch.hypot(a, b), torch.hypot(b * 1e3, b)
        return (
            *numbers,
            *between,
            *rounded,
            torch.true_divide(b, 3),
            *signs,
            *chosen,
            *lengths,
            torch.xlogy(a, b.abs()),
            torch.xlogy(b, a.abs()),
        )


class Buckets(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([-2.5, -0.5, 0.0, 0.5, 0.5, 7.0]))

    def forward(self, a, b):
        edges = self.edges.to(a.dtype)
        return (
            torch.bucketize(a, edges),
            torch.bucketize(a, edges, right=True),
            torch.bucketize(b, edges, out_int32=True),
        )


class Large(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


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
    *variants(
        Case("activations", activations, {"x": f32("R", "C")}, AB, SWEEP, covers="M"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("activations_f16", activations, {"x": f16("R", "C")}, AB, SMALL, tolerance=2e-3),
    Case("activations_bf16", activations, {"x": bf16("R", "C")}, AB, SMALL, tolerance=2e-2),
    *variants(
        Case("functions", functions, {"x": f32("R", "C")}, AB, SMALL),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("rounding", rounding, {"x": f32("R", "C")}, AB, SWEEP, special),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "gelu_large",
        Large,
        {"x": f32("R", 4096)},
        {"R": (1, 4096)},
        [{"R": 4096}],
        tolerance=1e-4,
        covers="P",
    ),
    *variants(
        Case("narrow_i8", narrow, two(i8), AB, SMALL, covers="G3"), decompose=RAW_AND_DECOMPOSED
    ),
    *variants(
        Case("narrow_u8", narrow, two(u8), AB, SMALL, covers="G3"), decompose=RAW_AND_DECOMPOSED
    ),
    Case("narrow_i32", narrow, two(i32, low=-2000, high=2000), AB, SMALL, covers="G3"),
    *variants(
        Case("composed", Composed, two(f32), AB, SWEEP, beside_special),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("composed_f16", Composed, two(f16), AB, SMALL, tolerance=2e-3),
    Case("buckets", Buckets, two(f32), AB, SWEEP, beside_special, covers="G3"),
    *variants(Case("binary", arithmetic, two(f32), AB, SWEEP), decompose=RAW_AND_DECOMPOSED),
    *variants(
        Case("second_names", second_names, two(f32), AB, SMALL), decompose=RAW_AND_DECOMPOSED
    ),
    Case("binary_f16", arithmetic, two(f16), AB, SMALL, tolerance=2e-3),
    Case("binary_bf16", arithmetic, two(bf16), AB, SMALL, tolerance=2e-2),
    *variants(
        Case("integer_i64", whole, two(i64, low=1, high=9), AB, SWEEP, covers="G3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("integer_i32", whole, two(i32, low=1, high=9), AB, SMALL, covers="G3"),
    *variants(
        Case("integer_negative", whole, two(i64, low=-9, high=-1), AB, SMALL, covers="G3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("compare_f32", compared, two(f32), AB, SMALL, covers="G3"),
    *variants(
        Case("compare_i64", compared, two(i64, low=-2, high=2), AB, SWEEP, covers="G3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("logic", logic, two(boolean), AB, SWEEP, covers="G3"), decompose=RAW_AND_DECOMPOSED
    ),
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
    *variants(
        Case(
            "broadcast_edges",
            edges,
            {"x": f32("S", "T")},
            {"S": (0, 9), "T": (0, 7)},
            over(S=[9, 2, 1, 0], T=[7, 1, 0]),
            covers="X3",
        ),
        hints=[("dim", False), ("hint", True)],
        decompose=RAW_AND_DECOMPOSED,
    ),
]
