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


def rows(*shape):
    return lambda n: [torch.randn(n, *shape)]


def heads(h, s, t, d):
    return lambda n: [torch.randn(n, h, s, d), torch.randn(n, h, t, d), torch.randn(n, h, t, d)]


def conv(cin, cout, kernel, size, **options):
    return nn.Conv2d(cin, cout, kernel, **options), lambda n: [torch.randn(n, cin, size, size)]


def chain(x, y):
    return F.silu(x) * y + x


# name, module, inputs for a first dim of n, the values of n
CASES = [
    ("softmax [n, 1024]", Apply(lambda x: x.softmax(-1)), rows(1024), [16, 256, 4096]),
    ("softmax [n, 128]", Apply(lambda x: x.softmax(-1)), rows(128), [128, 8192]),
    ("layer norm [n, 768]", nn.LayerNorm(768), rows(768), [32, 512, 4096]),
    ("rms norm [n, 1024]", nn.RMSNorm(1024), rows(1024), [16, 256, 4096]),
    (
        "add [n, 4096]",
        Apply(lambda x, y: x + y),
        lambda n: rows(4096)(n) * 1 + rows(4096)(n),
        [4, 64, 1024],
    ),
    (
        "silu(x) * y + x [n, 4096]",
        Apply(chain),
        lambda n: rows(4096)(n) + rows(4096)(n),
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
        lambda n: rows(256, 256)(n) + rows(256, 256)(n),
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
        lambda n: rows(4096)(n) + rows(4096)(n),
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
