"""Products of two live matrices: batched, broadcast, transposed, with a live or empty K."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, over, variants
from torch import nn


class Product(nn.Module):
    def __init__(self, transpose=False):
        super().__init__()
        self.transpose = transpose

    def forward(self, a, b):
        return a @ (b.transpose(-1, -2) if self.transpose else b)


class AddMM(nn.Module):
    def forward(self, c, a, b):
        return torch.addmm(c, a, b, beta=0.5, alpha=2.0), torch.mm(a, b)


class Batched(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


class Edges(nn.Module):
    """The first or last of a live batch against all; of an empty batch there is none."""

    def forward(self, a):
        return a @ a[:1].transpose(1, 2), a[-1:] @ a.transpose(1, 2)


class EqualColumns(nn.Module):
    """A matrix that is not only repeated for each of the batch."""

    def forward(self, a):
        column = torch.arange(8).float()[:, None]
        columns, rows = column.expand(a.shape[0], 8, 5), column[2:3].expand(a.shape[0], 8, 3)
        return torch.bmm(a, columns), torch.bmm(a, rows)


class Einsum(nn.Module):
    """Operands of every sort: batches, outer products, sums of one, `...`, sizes of 1."""

    def forward(self, x, y, w, v):
        return (
            torch.einsum("bqhd,bkhd->bhqk", x, y),
            torch.einsum("bhqd,bhkd->bhqk", x.transpose(1, 2), y.transpose(1, 2)),
            torch.einsum("bqhd,hde->bqe", x, w),
            torch.einsum("bqhd,de->bqhe", x, w[0]),
            torch.einsum("...d,de", x, w[1]),
            torch.einsum("bqhd->bq", x),
            torch.einsum("b q h d -> d q b h", x),
            torch.einsum("bqhd,d->qh", x, v),
            torch.einsum("d,e->de", v, v),
            torch.einsum("bqhd,bqhd->bqh", x, x),
            torch.einsum("bqhd,bqhd->", x, x),
            torch.einsum("bqhd,bkhd,hde->bqke", x, y, w),
            torch.einsum("b...d,bkhd->b...k", x[:, :, 0], y[:, :, :1]),
            torch.einsum("bqhd,bqhd->bqhd", x, x[:, :, :1]),
        )


M, K, N = "M", "K", "N"
DIMS = {"M": (0, 40), "K": (0, 48), "N": (0, 56)}
SWEEP = [
    *over(M=[40, 1], K=[48, 1], N=[56, 1]),
    {"M": 13, "K": 17, "N": 19},
    {"M": 4, "K": 0, "N": 3},  # an empty sum is 0
    {"M": 0, "K": 3, "N": 2},
]
CASES = [
    *variants(
        Case(
            "einsum",
            Einsum,
            {"x": f32("B", "Q", 3, 8), "y": f32("B", "K", 3, 8), "w": f32(3, 8, 5), "v": f32(8)},
            {"B": (0, 3), "Q": (0, 20), "K": (0, 20)},
            [
                *over(B=[3, 1], Q=[20, 1], K=[20, 7]),
                {"B": 2, "Q": 0, "K": 4},
                {"B": 0, "Q": 2, "K": 3},
            ],
            covers="X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("matmul", Product, {"a": f32(M, K), "b": f32(K, N)}, DIMS, SWEEP, covers="X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "matmul_transposed",
        lambda: Product(transpose=True),
        {"a": f32(M, K), "b": f32(N, K)},
        DIMS,
        SWEEP,
    ),
    Case("addmm", AddMM, {"c": f32(N), "a": f32(M, K), "b": f32(K, N)}, DIMS, SWEEP),
    Case(
        "bmm",
        Batched,
        {"a": f32("B", M, 16), "b": f32("B", 16, N)},
        {"B": (0, 5), "M": (1, 40), "N": (1, 56)},
        over(B=[5, 1, 0], M=[40, 1], N=[56, 7]),
    ),
    *variants(
        Case(
            "matmul_broadcast",
            Product,
            {"a": f32("B", 3, M, 8), "b": f32(3, 8, N)},
            {"B": (1, 4), "M": (1, 20), "N": (1, 20)},
            over(B=[4, 1], M=[20, 1], N=[20, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "matmul_edges",
            Edges,
            {"a": f32("B", M, 8)},
            {"B": (0, 4), "M": (0, 20)},
            over(B=[4, 2, 1, 0], M=[20, 1, 0]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "bmm_equal_columns",
            EqualColumns,
            {"a": f32("B", M, 8)},
            {"B": (0, 4), "M": (0, 20)},
            over(B=[4, 1, 0], M=[20, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("matvec", Product, {"a": f32(M, 24), "b": f32(24)}, {"M": (0, 40)}, over(M=[40, 3, 1, 0])),
]
