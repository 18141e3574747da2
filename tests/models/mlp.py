"""Gated SiLU MLPs with residual, in every float type, and under torch.no_grad()."""

import torch
from liveshape.testing import (
    RAW_AND_DECOMPOSED,
    Case,
    bf16,
    f16,
    f32,
    over,
    variants,
)
from torch import nn


class GatedMlp(nn.Module):
    def __init__(self, width, hidden, dtype=torch.float32):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False, dtype=dtype)
        self.up = nn.Linear(width, hidden, bias=False, dtype=dtype)
        self.down = nn.Linear(hidden, width, bias=False, dtype=dtype)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class GeluMlp(nn.Module):
    def __init__(self, width, hidden, approximate):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.act = nn.GELU(approximate=approximate)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class NoGradInside(nn.Module):
    """The wrapper dissolves: exports carry it as wrap_with_set_grad_enabled."""

    def __init__(self):
        super().__init__()
        self.mlp = GatedMlp(32, 48)

    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            y = self.mlp(y) + x.shape[0]
        return y - x


S16 = {"S": (0, 16)}
CASES = [
    *variants(
        Case(
            "mlp",
            lambda: GatedMlp(64, 128),
            {"x": f32(1, "S", 64)},
            S16,
            over(S=[4, 1, 8, 1, 16, 4, 0]),
            covers="G5 G4",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "mlp_strict",
        lambda: GatedMlp(64, 128),
        {"x": f32(1, "S", 64)},
        S16,
        over(S=[4, 1, 8, 1, 16, 4]),
        covers="G5",
        strict=True,
    ),
    Case("mlp_static", lambda: GatedMlp(64, 128), {"x": f32(1, 16, 64)}, covers="W8"),
    Case(
        "mlp_f16",
        lambda: GatedMlp(64, 96, torch.float16),
        {"x": f16("S", 64)},
        {"S": (1, 64)},
        over(S=[64, 17, 1]),
        tolerance=2e-3,
    ),
    Case(
        "mlp_bf16",
        lambda: GatedMlp(64, 96, torch.bfloat16),
        {"x": bf16("S", 64)},
        {"S": (1, 64)},
        over(S=[64, 17, 1]),
        tolerance=2e-2,
    ),
    *(
        Case(
            f"mlp_gelu_{approximate}",
            lambda approximate=approximate: GeluMlp(32, 64, approximate),
            {"x": f32("B", "S", 32)},
            {"B": (1, 4), "S": (1, 16)},
            over(B=[1, 4], S=[1, 16]) + over(B=[2], S=[7]),
            covers="S",
        )
        for approximate in ("none", "tanh")
    ),
    Case("no_grad_inside", NoGradInside, {"x": f32("S", 32)}, S16, over(S=[16, 5, 1])),
]
