"""Interpolation to live and fixed sizes, by sizes and by scales; channels to pixels and back."""

from liveshape.testing import RAW_AND_DECOMPOSED, Case, bf16, f32, over, u8, variants
from torch import nn

resize = nn.functional.interpolate


class Nearest(nn.Module):
    def forward(self, x):
        return (
            resize(x, (9, 4)),
            resize(x, scale_factor=2),
            resize(x, scale_factor=(1.5, 0.7)),
            resize(x, (x.shape[3], x.shape[2])),
            resize(x, (9, 4), mode="nearest-exact"),
            resize(x, scale_factor=(2.3, 0.5), mode="nearest-exact"),
        )


class Bilinear(nn.Module):
    def forward(self, x):
        return (
            resize(x, (9, 4), mode="bilinear"),
            resize(x, (9, 4), mode="bilinear", align_corners=True),
            resize(x, (1, 7), mode="bilinear", align_corners=True),
            resize(x, scale_factor=2, mode="bilinear"),
            resize(x, scale_factor=(1.5, 0.7), mode="bilinear"),
            resize(x, (x.shape[3], x.shape[2]), mode="bilinear", align_corners=True),
            resize(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        )


class Lines(nn.Module):
    def forward(self, x):
        return (
            resize(x, 9),
            resize(x, scale_factor=1.5, mode="nearest-exact"),
            resize(x, 9, mode="linear"),
            resize(x, scale_factor=3, mode="linear", align_corners=True),
        )


class Shuffle(nn.Module):
    def forward(self, x):
        large = nn.functional.pixel_shuffle(x, 2)
        return large, nn.functional.pixel_unshuffle(large, 2), nn.functional.pixel_shuffle(x[0], 3)


IMAGES = {"x": f32("B", 3, "H", "W")}
DIMS = {"B": (0, 3), "H": (2, 40), "W": (3, 40)}
SWEEP = [*over(B=[3], H=[40, 7, 2], W=[11, 3]), {"B": 0, "H": 5, "W": 5}]
CASES = [
    *variants(
        Case("resize_nearest", Nearest, IMAGES, DIMS, SWEEP, hints=True),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("resize_bilinear", Bilinear, IMAGES, DIMS, SWEEP, hints=True),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("resize_nearest_u8", Nearest, {"x": u8("B", 3, "H", "W")}, DIMS, SWEEP[:2], hints=True),
    Case(
        "resize_bilinear_bf16",
        Bilinear,
        {"x": bf16("B", 3, "H", "W")},
        DIMS,
        SWEEP[:2],
        tolerance=8e-3,
        hints=True,
    ),
    *variants(
        Case(
            "resize_lines",
            Lines,
            {"x": f32("B", 3, "W")},
            {"B": (0, 3), "W": (1, 40)},
            over(B=[3, 0], W=[40, 7, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "pixel_shuffle",
            Shuffle,
            {"x": f32("B", 36, "H", "W")},
            {"B": (1, 3), "H": (1, 9), "W": (1, 9)},
            over(B=[3, 1], H=[9, 1], W=[5]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
