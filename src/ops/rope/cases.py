"""Rotary embedding, two outputs (case L): halves as Llama has it, interleaved as Meta had it."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i64, over, variants
from torch import nn

HEAD_DIM = 16


class Half(nn.Module):
    """q, k and a table of cos, sin that is sliced to the live length."""

    def __init__(self, positions=16):
        super().__init__()
        inverse = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        angle = torch.outer(torch.arange(positions).float(), inverse)
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def rotate(self, x, cos, sin):
        left, right = x[..., : HEAD_DIM // 2], x[..., HEAD_DIM // 2 :]
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, q, k):
        s = q.shape[2]
        cos, sin = self.cos[:s], self.sin[:s]
        return self.rotate(q, cos, sin), self.rotate(k, cos, sin)


class FromPositions(Half):
    """As transformers: angles from a tensor of positions, by matmul, batch live too."""

    def __init__(self):
        super().__init__()
        inverse = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        self.register_buffer("inverse", inverse)

    def forward(self, q, k, positions):
        inverse = self.inverse[None, :, None].expand(positions.shape[0], -1, 1)
        angle = (inverse @ positions[:, None].float()).transpose(1, 2)
        angle = torch.cat((angle, angle), dim=-1)[:, None]
        return self.rotate(q, angle.cos(), angle.sin()), self.rotate(k, angle.cos(), angle.sin())


class Interleaved(nn.Module):
    """Pairs of neighbours, through a view of rank 5 and stack."""

    def __init__(self, positions=16):
        super().__init__()
        inverse = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        angle = torch.outer(torch.arange(positions).float(), inverse)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        pairs = x.unflatten(-1, (-1, 2))
        even, odd = pairs[..., 0], pairs[..., 1]
        s = x.shape[1]
        cos, sin = self.cos[None, :s, None], self.sin[None, :s, None]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(3)


QK = {"q": f32("B", 4, "S", HEAD_DIM), "k": f32("B", 2, "S", HEAD_DIM)}
DIMS = {"B": (1, 3), "S": (1, 16)}
SWEEP = over(B=[1, 3], S=[16, 8, 1])
CASES = [
    *variants(Case("rope", Half, QK, DIMS, SWEEP, covers="L W2"), decompose=RAW_AND_DECOMPOSED),
    *variants(
        Case(
            "rope_positions",
            FromPositions,
            QK | {"positions": i64("B", "S", high=63)},
            DIMS,
            SWEEP,
            covers="L",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "rope_interleaved",
        Interleaved,
        {"x": f32("B", "S", 4, HEAD_DIM)},
        DIMS,
        SWEEP,
        covers="L",
    ),
]
