"""Many symbols (G9): 300 in one graph, each of an input of its own."""

import torch
from liveshape.testing import Case, f32
from torch import nn

COUNT = 300


class Many(nn.Module):
    """The last symbols matter: a symbol kept in a byte would be taken for another."""

    def forward(self, xs):
        sizes = torch.cat([x.sum()[None] for x in xs])
        tail = torch.cat(xs[-4:])
        return sizes, tail, xs[255] * 2, xs[256] + xs[0].shape[0], torch.zeros(xs[299].shape[0], 2)


def point(size):
    return {f"d{i}": size(i) for i in range(COUNT)}


CASES = [
    Case(
        "symbols_300",
        Many,
        {"xs": [f32(f"d{i}") for i in range(COUNT)]},
        {f"d{i}": (0, 400) for i in range(COUNT)},
        [point(lambda i: i % 7), point(lambda i: 1), point(lambda i: (i * 37) % 11)],
        covers="G9",
    ),
]
