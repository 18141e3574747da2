"""Linear: with and without bias, at ranks 1 to 4, quantised; M routes between GEMV and GEMM."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, Input, f32, over, variants
from torch import nn


class Tied(nn.Module):
    """One weight used twice, once transposed: an embedding and its output head."""

    def __init__(self, rows, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, width) / width**0.5)

    def forward(self, x):
        hidden = nn.functional.linear(x, self.weight)
        return hidden @ self.weight


class Projection(nn.Module):
    """x @ w: the groups of a quantised weight still lie along K."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(75, 40) / 75**0.5)

    def forward(self, input):
        return input @ self.weight


def zero_rows(linear):
    """Rows and groups of zeros: scale 0."""
    with torch.no_grad():
        linear.weight[3] = 0
        linear.weight[:, 32:64] = 0
    return linear


def quantised(name, module, width, quant, dtype=torch.float32, tolerance=1e-5):
    return Case(
        f"linear_{quant}_{name}",
        module,
        {"input": Input(("M", width), dtype)},
        M128,
        over(M=[128, 32, 1, 5, 0]),
        tolerance=tolerance,
        covers="I",
        quant=quant,
    )


M128 = {"M": (0, 128)}
CASES = [
    *variants(
        Case(
            "linear",
            lambda: nn.Linear(96, 80),
            {"input": f32("M", 96)},
            M128,
            over(M=[128, 32, 1, 0, 3, 7, 33]),
            covers="I",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "linear_no_bias",
            lambda: nn.Linear(64, 64, bias=False),
            {"input": f32("B", "S", 64)},
            {"B": (1, 4), "S": (1, 32)},
            over(B=[4, 1], S=[32, 1]) + over(B=[2], S=[16]),
            covers="I S",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("linear_vector", lambda: nn.Linear(33, 17), {"input": f32(33)}, covers="I W8"),
    Case("linear_odd", lambda: nn.Linear(7, 5), {"input": f32("M", 7)}, M128, over(M=[128, 5, 1])),
    Case(
        "linear_rank4",
        lambda: nn.Linear(16, 24),
        {"input": f32("A", 3, "S", 16)},
        {"A": (1, 4), "S": (1, 16)},
        over(A=[4, 1], S=[16, 5, 1]),
    ),
    Case("linear_tied", lambda: Tied(40, 24), {"x": f32("M", 24)}, M128, over(M=[128, 9, 1])),
    *(
        case
        for quant in ("q8", "q4")
        for case in [
            quantised("plain", lambda: nn.Linear(96, 80), 96, quant),
            # K is no multiple of 32, N none of 16
            quantised("odd", lambda: zero_rows(nn.Linear(75, 37, bias=False)), 75, quant),
        ]
    ),
    quantised("matmul", Projection, 75, "q4"),
    # One unit in the last place: torch rounds the dequantised weight to 8 bits too, we do not.
    quantised("bf16", lambda: nn.Linear(96, 80).bfloat16(), 96, "q4", torch.bfloat16, 2**-7),
    quantised("f16", lambda: nn.Linear(96, 80).half(), 96, "q8", torch.float16, 5e-3),
]
