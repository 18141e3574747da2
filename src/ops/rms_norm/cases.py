"""RMS norm as torch has it and as models write it; alone, chained, and with its own input."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, over, variants
from torch import nn


class WrittenOut(nn.Module):
    """As Llama and Qwen write it: pow, mean, rsqrt, two multiplications."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Builtin(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.norm.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x):
        return self.norm(x)


class Twice(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = WrittenOut(width), WrittenOut(width)

    def forward(self, x):
        return self.second(self.first(x))


class PlusInput(WrittenOut):
    def forward(self, x):
        return super().forward(x) + x


class TimesInput(WrittenOut):
    def forward(self, x):
        return super().forward(x) * x


X = {"x": f32("S", 64)}
S128 = {"S": (0, 128)}
CASES = [
    Case("rms_norm", lambda: WrittenOut(64), X, S128, over(S=[128, 64, 8, 1, 0]), covers="A B C"),
    Case("rms_norm_static", lambda: WrittenOut(64), {"x": f32(128, 64)}, covers="D W8"),
    Case("rms_rms", lambda: Twice(64), X, S128, over(S=[128, 32, 1]), covers="F"),
    Case("rms_plus_x", lambda: PlusInput(64), X, S128, over(S=[128, 32, 1]), covers="G"),
    Case("rms_times_x", lambda: TimesInput(64), X, S128, over(S=[128, 32, 1]), covers="H"),
    *variants(
        Case(
            "rms_norm_builtin",
            lambda: Builtin(64),
            {"x": f32("B", "S", 64)},
            {"B": (0, 4), "S": (0, 128)},
            over(B=[4, 1], S=[128, 17, 1]) + over(B=[0], S=[3]),
            covers="A S",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
