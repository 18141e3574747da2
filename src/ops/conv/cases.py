"""Convolutions over one and two dims: case O, and every option of torch's, at live sizes."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, bf16, f16, f32, over, variants
from torch import nn


class Many(nn.Module):
    """Several convolutions of one input, a tuple of results: one export covers them."""

    def __init__(self, *convolutions):
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)

    def forward(self, x):
        return tuple(conv(x) for conv in self.convolutions)


class Causal(nn.Module):
    """Zeros before the first step, as streaming models pad; dense and by channel."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(6, 10, 4, dilation=2)
        self.each = nn.Conv1d(6, 6, 4, groups=6)

    def forward(self, x):
        pad = nn.functional.pad
        return self.mix(pad(x, (6, 0))), self.each(pad(x, (3, 0)))


class Unbatched(nn.Module):
    """[C, L] and [C, H, W]; and weights that are no constants."""

    def forward(self, line, image, weight):
        f = nn.functional
        return f.conv1d(line, weight[:, :, 0], padding=2), f.conv2d(image, weight, stride=2)


class Layouts(nn.Module):
    """Channels last, a transpose and a slice: images that are not dense."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(5, 18, 3, padding=1)
        self.point = nn.Conv2d(5, 18, 1)

    def forward(self, x):
        last = x.permute(0, 3, 1, 2)
        return self.conv(last), self.point(last), self.conv(last[:, :, 1:].transpose(2, 3))


def weight_normed():
    norm = nn.utils.parametrizations.weight_norm
    return Many(
        norm(nn.Conv1d(6, 8, 4, groups=2, padding=2), dim=2),
        norm(nn.Conv1d(6, 5, 3)),
        norm(nn.ConvTranspose1d(6, 5, 3), dim=1),
    )


def transposed():
    return Many(
        nn.ConvTranspose2d(6, 5, 3),
        nn.ConvTranspose2d(6, 4, 2, stride=2, bias=False),
        nn.ConvTranspose2d(6, 8, (4, 3), stride=(2, 3), padding=(1, 0), output_padding=(1, 2)),
        nn.ConvTranspose2d(6, 9, 3, stride=2, groups=3, dilation=(1, 2), padding=1),
        nn.ConvTranspose2d(6, 3, 1, padding=1, stride=3, output_padding=2),  # cuts pixels off
    )


def transposed_lines():
    return Many(
        nn.ConvTranspose1d(6, 5, 4, stride=2, padding=1),
        nn.ConvTranspose1d(6, 4, 3, stride=3, groups=2, output_padding=1, dilation=2),
    )


def two_dims():
    return Many(
        nn.Conv2d(8, 20, 3, padding=1),
        nn.Conv2d(8, 33, 1, bias=False),
        nn.Conv2d(8, 16, (5, 3), stride=(2, 3), padding=(2, 0)),
        nn.Conv2d(8, 16, 7, stride=2, padding=3, bias=False),
        nn.Conv2d(8, 6, 3, dilation=(2, 1), padding=2),
        nn.Conv2d(8, 12, 3, groups=4, padding=1),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.Conv2d(8, 16, 5, stride=2, groups=8, padding=2, bias=False),
        nn.Conv2d(8, 4, (4, 3), padding="same"),
        nn.Conv2d(8, 4, 3, padding="valid"),
    )


def many_channels():
    """Channels enough for tiles of 2 x 2 in all but tiny images: 3 x 3 by one pixel and by two,
    larger windows, taps that are apart."""
    return Many(
        nn.Conv2d(24, 40, 3, padding=1),
        nn.Conv2d(24, 16, 3, padding=(0, 2), bias=False),
        nn.Conv2d(24, 40, 3, stride=2, padding=1),
        nn.Conv2d(24, 16, 3, stride=2, padding=(2, 1), bias=False),
        nn.Conv2d(24, 16, 5, padding=2),
        nn.Conv2d(24, 16, (4, 7), padding=(1, 3), bias=False),
        nn.Conv2d(24, 16, 3, dilation=(3, 2), padding=(3, 4)),
    )


def one_dim():
    return Many(
        nn.Conv1d(6, 24, 5, stride=2, padding=2),
        nn.Conv1d(6, 6, 3, groups=6, stride=3, dilation=2, padding=4),
        nn.Conv1d(6, 9, 4, groups=3, padding="same", dilation=3),
        nn.Conv1d(6, 70, 1),
        nn.Conv1d(6, 8, 3, bias=False),
    )


IMAGES = {"B": (0, 3), "H": (7, 40), "W": (7, 300)}
PLACES = [
    {"B": 2, "H": 9, "W": 300},
    {"B": 1, "H": 40, "W": 17},
    {"B": 3, "H": 7, "W": 7},
    {"B": 0, "H": 8, "W": 9},
]
CASES = [
    *variants(
        Case(
            "conv_weight_norm",
            weight_normed,
            {"x": f32("B", 6, "S")},
            {"B": (0, 3), "S": (4, 40)},
            over(B=[3], S=[40, 4]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "conv_transpose2d",
            transposed,
            {"x": f32("B", 6, "H", "W")},
            IMAGES,
            PLACES,
            covers="X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "conv_transpose1d",
            transposed_lines,
            {"x": f32("B", 6, "S")},
            {"B": (0, 3), "S": (1, 40)},
            over(B=[3, 0], S=[40, 7, 1]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "conv1d",
            lambda: nn.Conv1d(16, 32, 3, padding=1),
            {"input": f32(2, 16, "S")},
            {"S": (1, 16)},
            over(S=[16, 9, 5, 16, 1]),
            covers="O",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("conv2d", two_dims, {"x": f32("B", 8, "H", "W")}, IMAGES, PLACES, covers="S X3"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "conv2d_channels",
        many_channels,
        {"x": f32("B", 24, "H", "W")},
        {"B": (0, 3), "H": (4, 30), "W": (4, 240)},
        [
            {"B": 3, "H": 15, "W": 21},
            {"B": 2, "H": 30, "W": 53},
            {"B": 1, "H": 4, "W": 240},
            *over(B=[1], H=[4, 30], W=[4]),
        ],
        covers="S X1",
    ),
    *variants(
        Case(
            "conv1d_options",
            one_dim,
            {"x": f32("B", 6, "S")},
            {"B": (0, 3), "S": (5, 700)},
            [{"B": 2, "S": 700}, *over(B=[3, 1], S=[5, 64]), {"B": 0, "S": 6}],
            covers="S X3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "conv1d_causal",
            Causal,
            {"x": f32("B", 6, "S")},
            {"B": (1, 3), "S": (1, 64)},
            over(B=[3, 1], S=[64, 1, 2]),
            covers="O",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "conv_unbatched",
        Unbatched,
        {"line": f32(3, "S"), "image": f32(3, "S", 11), "weight": f32(5, 3, 2, 4)},
        {"S": (4, 40)},
        over(S=[40, 4, 13]),
    ),
    Case(
        "conv_layouts",
        Layouts,
        {"x": f32("B", "H", "W", 5)},
        {"B": (1, 3), "H": (3, 20), "W": (3, 20)},
        [{"B": 3, "H": 20, "W": 5}, {"B": 1, "H": 3, "W": 3}, {"B": 2, "H": 7, "W": 20}],
    ),
    *(
        Case(
            f"conv2d_{name}",
            lambda dtype=dtype: two_dims().to(dtype),
            {"x": make("B", 8, "H", "W")},
            IMAGES,
            PLACES[:3],
            tolerance=tolerance,
        )
        for name, dtype, make, tolerance in (
            ("f16", torch.float16, f16, 2e-3),
            ("bf16", torch.bfloat16, bf16, 1.6e-2),
        )
    ),
]
