"""Layer norm over one dim and over two; with and without weight and bias."""

from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, over, variants
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, shape, affine=True, bias=True):
        super().__init__()
        self.norm = nn.LayerNorm(shape, elementwise_affine=affine, bias=bias)
        for parameter in self.parameters():
            nn.init.normal_(parameter, mean=0.5, std=0.3)

    def forward(self, x):
        return self.norm(x + 3)  # a mean far from 0 shows a one-pass variance


X = {"x": f32("B", "S", 48)}
DIMS = {"B": (0, 4), "S": (1, 64)}
SWEEP = [*over(B=[4, 1], S=[64, 9, 1]), {"B": 0, "S": 3}]
CASES = [
    *variants(
        Case("layer_norm", lambda: LayerNorm(48), X, DIMS, SWEEP, covers="S"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("layer_norm_no_bias", lambda: LayerNorm(48, bias=False), X, DIMS, SWEEP),
    Case("layer_norm_bare", lambda: LayerNorm(48, affine=False), X, DIMS, SWEEP),
    Case(
        "layer_norm_two_dims",
        lambda: LayerNorm((6, 8)),
        {"x": f32("B", "S", 6, 8)},
        DIMS,
        SWEEP,
    ),
]
