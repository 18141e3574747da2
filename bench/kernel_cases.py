"""What bench/kernels_bench.py measures: modules as users write them, at sizes of real models."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)  # every process makes the same weights


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] == k.shape[2])


def rows(*shape, dtype=torch.float32, count=1):
    return lambda n: [torch.randn(n, *shape).to(dtype) for _ in range(count)]


def heads(h, s, t, d):
    return lambda n: [torch.randn(n, h, s, d), torch.randn(n, h, t, d), torch.randn(n, h, t, d)]


def groups(h, g, s, d):
    return lambda n: [torch.randn(n, heads, s, d) for heads in (h, g, g)]


def conv(cin, cout, kernel, size, **options):
    return nn.Conv2d(cin, cout, kernel, **options), rows(cin, size, size)


def conv1d(cin, cout, kernel, length, **options):
    return nn.Conv1d(cin, cout, kernel, **options), rows(cin, length)


def depthwise(channels, kernel, size, **options):
    return conv(channels, channels, kernel, size, groups=channels, **options)


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def grouped(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def pointwise(name, function, inputs=1, dtype=torch.float32):
    made = rows(4096, dtype=dtype, count=inputs)
    return (f"{name} [n, 4096]", Apply(function), made, [16, 256])


def chain(x, y):
    return F.silu(x) * y + x


# name, module, inputs for a first dim of n, the values of n
COMMON = [
    ("softmax [n, 1024]", Apply(lambda x: x.softmax(-1)), rows(1024), [16, 256, 4096]),
    ("softmax [n, 128]", Apply(lambda x: x.softmax(-1)), rows(128), [128, 8192]),
    ("layer norm [n, 768]", nn.LayerNorm(768), rows(768), [32, 512, 4096]),
    ("rms norm [n, 1024]", nn.RMSNorm(1024), rows(1024), [16, 256, 4096]),
    (
        "add [n, 4096]",
        Apply(lambda x, y: x + y),
        rows(4096, count=2),
        [4, 64, 1024],
    ),
    (
        "silu(x) * y + x [n, 4096]",
        Apply(chain),
        rows(4096, count=2),
        [4, 64, 1024],
    ),
    ("gelu erf [n, 4096]", nn.GELU(), rows(4096), [4, 64, 1024]),
    ("gelu tanh [n, 4096]", nn.GELU("tanh"), rows(4096), [4, 64, 1024]),
    ("exp [n, 4096]", Apply(torch.exp), rows(4096), [4, 64, 1024]),
    ("tanh [n, 4096]", Apply(torch.tanh), rows(4096), [4, 64, 1024]),
    ("sum of rows [n, 4096]", Apply(lambda x: x.sum(-1)), rows(4096), [16, 1024]),
    ("sum of columns [n, 4096]", Apply(lambda x: x.sum(0)), rows(4096), [16, 1024]),
    ("attention prefill [n, 12, 256, 64]", Apply(attention), heads(12, 256, 256, 64), [1, 4]),
    ("attention decode [n, 12, 1 of 1024, 64]", Apply(attention), heads(12, 1, 1024, 64), [1, 8]),
    ("linear 1024 -> 1024", nn.Linear(1024, 1024), rows(1024), [1, 16, 128, 1024]),
    ("linear 1024 -> 4096", nn.Linear(1024, 4096), rows(1024), [1, 8, 128, 512]),
    (
        "matmul [n, 256, 256] @ same",
        Apply(torch.matmul),
        rows(256, 256, count=2),
        [4, 16],
    ),
    (
        "transpose [n, 256, 256]",
        Apply(lambda x: x.transpose(1, 2).contiguous()),
        rows(256, 256),
        [4, 64],
    ),
    (
        "cat [n, 4096] twice",
        Apply(lambda x, y: torch.cat([x, y], 1)),
        rows(4096, count=2),
        [4, 64, 1024],
    ),
    ("conv 3x3 64 -> 64, 56", *conv(64, 64, 3, 56, padding=1), [1, 4]),
    ("conv 3x3 256 -> 256, 14", *conv(256, 256, 3, 14, padding=1), [1, 4]),
    ("conv 1x1 256 -> 64, 56", *conv(256, 64, 1, 56), [1, 4]),
    ("conv 7x7 / 2, 3 -> 64, 224", *conv(3, 64, 7, 224, stride=2, padding=3), [1]),
    ("conv 3x3 / 2, 64 -> 128, 56", *conv(64, 128, 3, 56, stride=2, padding=1), [1, 4]),
    ("conv depthwise 3x3 128, 56", *conv(128, 128, 3, 56, padding=1, groups=128), [1, 4]),
    (
        "conv depthwise 3x3 / 2, 128, 56",
        *conv(128, 128, 3, 56, stride=2, padding=1, groups=128),
        [1, 4],
    ),
    ("max pool 3x3 / 2, 64, 112", nn.MaxPool2d(3, 2, 1), rows(64, 112, 112), [1, 4]),
]

# What else models are made of.
WIDE = [
    ("softmax [n, 8]", Apply(lambda x: x.softmax(-1)), rows(8), [4096, 131072]),
    ("softmax [n, 32]", Apply(lambda x: x.softmax(-1)), rows(32), [1024, 32768]),
    ("softmax [n, 77]", Apply(lambda x: x.softmax(-1)), rows(77), [512, 8192]),
    ("softmax [n, 30000]", Apply(lambda x: x.softmax(-1)), rows(30000), [4, 64]),
    ("softmax over 64 of [n, 64, 256]", Apply(lambda x: x.softmax(1)), rows(64, 256), [4, 64]),
    ("log softmax [n, 1000]", Apply(lambda x: x.log_softmax(-1)), rows(1000), [32, 1024]),
    (
        "softmax f16 [n, 1024]",
        Apply(lambda x: x.softmax(-1)),
        rows(1024, dtype=torch.float16),
        [64, 1024],
    ),
    ("layer norm [n, 64]", nn.LayerNorm(64), rows(64), [512, 16384]),
    ("layer norm [n, 4096]", nn.LayerNorm(4096), rows(4096), [8, 512]),
    (
        "layer norm bf16 [n, 768]",
        nn.LayerNorm(768).bfloat16(),
        rows(768, dtype=torch.bfloat16),
        [64, 1024],
    ),
    ("rms norm [n, 128]", nn.RMSNorm(128), rows(128), [256, 8192]),
    ("rms norm [n, 4096]", nn.RMSNorm(4096), rows(4096), [8, 512]),
    ("batch norm [n, 64, 56, 56]", nn.BatchNorm2d(64), rows(64, 56, 56), [1, 8]),
    ("group norm in 8 [n, 64, 32, 32]", nn.GroupNorm(8, 64), rows(64, 32, 32), [1, 8]),
    pointwise("mul", lambda x, y: x * y, 2),
    pointwise("div", lambda x, y: x / y, 2),
    pointwise("relu", torch.relu),
    pointwise("sigmoid", torch.sigmoid),
    pointwise("silu", F.silu),
    pointwise("abs", torch.abs),
    pointwise("neg", torch.neg),
    pointwise("floor", torch.floor),
    pointwise("sqrt(abs)", lambda x: x.abs().sqrt()),
    pointwise("rsqrt(abs)", lambda x: x.abs().rsqrt()),
    pointwise("log(abs)", lambda x: x.abs().log()),
    pointwise("log1p(abs)", lambda x: x.abs().log1p()),
    pointwise("sin", torch.sin),
    pointwise("cos", torch.cos),
    pointwise("atan", torch.atan),
    pointwise("erf", torch.erf),
    pointwise("x ** 2", lambda x: x**2),
    pointwise("abs ** 0.3", lambda x: x.abs() ** 0.3),
    pointwise("abs ** y", lambda x, y: x.abs() ** y, 2),
    pointwise("clamp", lambda x: x.clamp(-1, 1)),
    pointwise("where(x > 0, x, y)", lambda x, y: torch.where(x > 0, x, y), 2),
    pointwise("x > y", lambda x, y: x > y, 2),
    pointwise("leaky relu", F.leaky_relu),
    pointwise("hardswish", F.hardswish),
    pointwise("softplus", F.softplus),
    pointwise("add f16", lambda x, y: x + y, 2, torch.float16),
    pointwise("add bf16", lambda x, y: x + y, 2, torch.bfloat16),
    pointwise("gelu f16", F.gelu, 1, torch.float16),
    pointwise("silu bf16", F.silu, 1, torch.bfloat16),
    pointwise("f32 to f16", lambda x: x.half()),
    pointwise("f16 to f32", lambda x: x.float(), 1, torch.float16),
    pointwise("x + 1 of i64", lambda x: x + 1, 1, torch.int64),
    ("add a row [n, 1024]", Apply(lambda x: x + torch.arange(1024.0)), rows(1024), [32, 1024]),
    (
        "scale rows [n, 1024]",
        Apply(lambda x, y: x * y),
        lambda n: [torch.randn(n, 1024), torch.randn(n, 1)],
        [32, 1024],
    ),
    (
        "scale rows [n, 100]",
        Apply(lambda x, y: x * y),
        lambda n: [torch.randn(n, 100), torch.randn(n, 1)],
        [256, 8192],
    ),
    (
        "scale channels [n, 64, 56, 56]",
        Apply(lambda x: x * torch.arange(64.0)[:, None, None]),
        rows(64, 56, 56),
        [1, 8],
    ),
    (
        "add transposed [n, 256, 256]",
        Apply(lambda x, y: x + y.transpose(1, 2)),
        rows(256, 256, count=2),
        [4, 32],
    ),
    ("mean of [n, 256, 14, 14]", Apply(lambda x: x.mean((2, 3))), rows(256, 14, 14), [1, 16]),
    ("mean of rows [n, 1024]", Apply(lambda x: x.mean(-1)), rows(1024), [32, 4096]),
    ("maximum of rows [n, 1024]", Apply(lambda x: x.amax(-1)), rows(1024), [32, 4096]),
    ("variance of rows [n, 1024]", Apply(lambda x: x.var(-1)), rows(1024), [32, 1024]),
    ("sum of all [n, 4096]", Apply(lambda x: x.sum()), rows(4096), [16, 1024]),
    ("attention [n, 8, 512, 64]", Apply(attention), heads(8, 512, 512, 64), [1, 4]),
    ("attention [n, 8, 1024, 128]", Apply(attention), heads(8, 1024, 1024, 128), [1]),
    ("attention [n, 4, 64, 32]", Apply(attention), heads(4, 64, 64, 32), [2, 16]),
    ("attention [n, 8, 16 of 512, 64]", Apply(attention), heads(8, 16, 512, 64), [1, 8]),
    ("attention [n, 32, 1 of 4096, 128]", Apply(attention), heads(32, 1, 4096, 128), [1]),
    (
        "attention, masked [n, 12, 128, 64]",
        Apply(masked),
        lambda n: [*heads(12, 128, 128, 64)(n), torch.randn(n, 1, 128, 128)],
        [1, 8],
    ),
    (
        "attention, padded [n, 12, 197, 64]",
        Apply(masked),
        lambda n: [*heads(12, 197, 197, 64)(n), torch.rand(n, 1, 1, 197) < 0.8],
        [1, 8],
    ),
    ("attention [n, 8, 256 of 77, 80]", Apply(attention), heads(8, 256, 77, 80), [1, 4]),
    ("attention of 4 [n, 32, 128, 128]", Apply(grouped), groups(32, 8, 128, 128), [1]),
    ("conv1d 3, 256 -> 256, 512", *conv1d(256, 256, 3, 512, padding=1), [1, 4]),
    ("conv1d 3, 80 -> 384, 1000", *conv1d(80, 384, 3, 1000, padding=1), [1]),
    ("conv1d depthwise 31, 512, 500", *conv1d(512, 512, 31, 500, padding=15, groups=512), [1, 4]),
    ("conv 3x3 by 2 apart 64 -> 64, 56", *conv(64, 64, 3, 56, padding=2, dilation=2), [1, 4]),
    ("conv 5x5 32 -> 64, 28", *conv(32, 64, 5, 28, padding=2), [1, 8]),
    ("conv 3x3 in 32 groups 256, 28", *conv(256, 256, 3, 28, padding=1, groups=32), [1, 4]),
    ("conv 1x1 / 2, 256 -> 512, 56", *conv(256, 512, 1, 56, stride=2), [1, 4]),
    ("conv 1x1 512 -> 2048, 7", *conv(512, 2048, 1, 7), [1, 8]),
    ("conv 1x1 2048 -> 512, 7", *conv(2048, 512, 1, 7), [1, 8]),
    ("conv 1x1 64 -> 256, 56", *conv(64, 256, 1, 56), [1, 4]),
    ("conv 1x1 32 -> 192, 112", *conv(32, 192, 1, 112), [1]),
    ("conv 3x3 / 2, 3 -> 32, 224", *conv(3, 32, 3, 224, stride=2, padding=1), [1, 4]),
    ("conv 3x3 / 2, 256 -> 512, 14", *conv(256, 512, 3, 14, stride=2, padding=1), [1, 4]),
    ("conv 3x3 3 -> 64, 224", *conv(3, 64, 3, 224, padding=1), [1]),
    ("conv 3x3 16 -> 16, 32", *conv(16, 16, 3, 32, padding=1), [4, 32]),
    ("conv 3x3 128 -> 128, 28", *conv(128, 128, 3, 28, padding=1), [1, 4]),
    ("conv 3x3 512 -> 512, 7", *conv(512, 512, 3, 7, padding=1), [1, 8]),
    ("conv 16x16 / 16, 3 -> 768, 224", *conv(3, 768, 16, 224, stride=16), [1, 4]),
    ("conv depthwise 5x5 240, 28", *depthwise(240, 5, 28, padding=2), [1, 8]),
    ("conv depthwise 5x5 / 2, 96, 56", *depthwise(96, 5, 56, stride=2, padding=2), [1, 4]),
    ("conv depthwise 7x7 96, 56", *depthwise(96, 7, 56, padding=3), [1, 4]),
    ("conv depthwise 3x3 512, 14", *depthwise(512, 3, 14, padding=1), [1, 8]),
    ("conv depthwise 3x3 960, 7", *depthwise(960, 3, 7, padding=1), [1, 16]),
    ("average pool 2x2 / 2, 64, 56", nn.AvgPool2d(2), rows(64, 56, 56), [1, 8]),
    ("max pool 2x2 / 2, 64, 56", nn.MaxPool2d(2), rows(64, 56, 56), [1, 8]),
    ("max pool 2x2 / 2, 256, 14", nn.MaxPool2d(2), rows(256, 14, 14), [1, 8]),
    ("average pool 3x3 / 2, 64, 56", nn.AvgPool2d(3, 2, 1), rows(64, 56, 56), [1, 8]),
]
CASES = COMMON + WIDE
