"""Pads of every mode, positive and negative, by a live amount, and of every kind of dtype."""

from liveshape.testing import RAW_AND_DECOMPOSED, Case, boolean, f16, f32, i64, over, variants
from torch import nn

pad = nn.functional.pad


class Constant(nn.Module):
    def forward(self, x):
        return (
            pad(x, (1, 2)),
            pad(x, (0, 0, 3, 1), value=-1.5),
            pad(x, (2, -3, -1, 4, 1, 0)),
            pad(x, (0, 70 - x.shape[2]), value=float("-inf")),
        )


class Repeating(nn.Module):
    def forward(self, x):
        return (
            pad(x, (2, 3), mode="reflect"),
            pad(x, (4, 1), mode="replicate"),
            pad(x, (2, -2), mode="replicate"),
            pad(x, (3, 2), mode="circular"),
        )


class Cut(nn.Module):
    """A negative side cuts off; what is cut off does not come back on the other."""

    def forward(self, x):
        s = x.shape[2]
        return (
            pad(x, (-2, 1), mode="circular"),
            pad(x, (2, -2), mode="circular"),
            pad(x[None], (-1, 2, 3, -2), mode="circular"),
            pad(x, (-1, -2), mode="circular"),
            pad(x, (-2, 1), mode="reflect"),
            pad(x, (3 - s, 2), value=5),
            pad(x, (4, -4, -5, 1)),
        )


class Images(nn.Module):
    def forward(self, x):
        return pad(x, (2, 1, 0, 3), mode="reflect"), pad(x, (1, 0, 5, 2), mode="replicate")


class Small(nn.Module):
    def forward(self, half, ids, mask):
        return pad(half, (1, 1), value=0.1), pad(ids, (0, 3, 2, 0), value=-7), pad(mask, (2, 1))


DIMS = {"B": (0, 4), "S": (4, 64)}
SWEEP = [*over(B=[4, 1], S=[64, 4, 17]), {"B": 0, "S": 5}]
CASES = [
    *variants(
        Case("pad_constant", Constant, {"x": f32("B", 5, "S")}, DIMS, SWEEP, covers="X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "pad_repeating",
            Repeating,
            {"x": f32("B", 5, "S")},
            {"B": (1, 4), "S": (4, 64)},
            SWEEP[:-1],
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "pad_cut",
            Cut,
            {"x": f32("B", 5, "S")},
            {"B": (0, 4), "S": (6, 64)},
            over(B=[4, 1, 0], S=[64, 6, 17]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("pad_images", Images, {"x": f32(2, 3, "S", 7)}, {"S": (4, 64)}, over(S=[64, 4])),
    Case(
        "pad_dtypes",
        Small,
        {"half": f16("B", "S"), "ids": i64("B", "S"), "mask": boolean("B", "S")},
        DIMS,
        SWEEP,
    ),
]
