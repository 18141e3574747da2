"""Embedding rows by int64 and int32 ids, of any rank, also of quantised and of tied weights."""

import torch
from liveshape.testing import Case, i32, i64, over
from torch import nn


class Embedding(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(50, 24, **options)

    def forward(self, ids):
        return self.table(ids)


class Tied(nn.Module):
    """An embedding whose weight is the output head's: stored once."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 40)
        self.head = nn.Linear(40, 50, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.table(ids) * 0.2)


class Corners(nn.Module):
    """Weights at the corners of the formula: rows come out as they were quantised, to the bit."""

    def __init__(self, most):
        super().__init__()
        weight = torch.randn(50, 75)
        weight[1] = 0
        # max|w| / most is 0.5, so w / 0.5 is a half: ties go to the even side, both ways.
        weight[2] = (torch.arange(75) % (2 * most) - most + 0.5) * 0.5
        weight[2, ::32] = most * 0.5
        weight[3] = torch.randn(75) * 2.0**-22 * most / 7  # the scale is a denormal of f16
        weight[4] = torch.randn(75) * 2.0**-26 * most  # a few scales round to 0
        weight[5] = torch.randn(75) * 2.0**-140  # denormals of f32
        weight[6] = torch.randn(75).clamp(-3, 3) / 3 * 65504 * most  # up to f16's largest
        weight[7, :32] = -8.0  # the lowest q is never reached by symmetric scales
        self.table = nn.Embedding.from_pretrained(weight)

    def forward(self, ids):
        return self.table(ids)


DIMS = {"B": (1, 4), "N": (0, 16)}
SWEEP = over(B=[4, 1], N=[16, 8, 1, 0])
CASES = [
    Case("embedding", Embedding, {"ids": i64("B", "N", high=49)}, DIMS, SWEEP),
    Case("embedding_i32", Embedding, {"ids": i32("N", high=49)}, {"N": (0, 16)}, over(N=[16, 1])),
    Case(
        "embedding_padding",
        lambda: Embedding(padding_idx=3),
        {"ids": i64("B", "N", high=49)},
        DIMS,
        SWEEP,
    ),
    *(
        Case(
            f"embedding_{quant}{name}",
            module,
            {"ids": i64("N", high=49)},
            {"N": (1, 16)},
            over(N=[16, 8, 1]),
            covers="K",
            quant=quant,
        )
        for quant, name, module in [
            ("q4", "", Embedding),
            ("q8", "", Embedding),
            ("q4", "_tied", Tied),
            ("q8", "_tied", Tied),
            ("q4", "_f16", lambda: Embedding().half()),
            ("q4", "_bf16", lambda: Embedding().bfloat16()),
        ]
    ),
    *(
        Case(
            f"embedding_{quant}_corners",
            lambda most=most: Corners(most),
            {"ids": i64("N", high=49)},
            {"N": (1, 50)},
            over(N=[50]),
            make=lambda point, rng: {"ids": torch.arange(point["N"])},
            tolerance=0,
            quant=quant,
        )
        for quant, most in [("q8", 127), ("q4", 7)]
    ),
]
