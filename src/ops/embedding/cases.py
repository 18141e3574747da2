"""Embedding rows by int64 and int32 ids, of any rank; with a padding id it is the same op."""

from liveshape.testing import Case, i32, i64, over
from torch import nn


class Embedding(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(50, 24, **options)

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
]
