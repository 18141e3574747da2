"""Group norm and instance norm at live sizes, with and without weights."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, bf16, f32, over, variants
from torch import nn


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.groups, self.plain = nn.GroupNorm(3, 12), nn.GroupNorm(4, 12, eps=0.1, affine=False)
        self.line, self.image = nn.InstanceNorm1d(12, affine=True), nn.InstanceNorm2d(12)
        for norm in (self.groups, self.line):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x):
        line = x.flatten(2)
        return self.groups(x), self.plain(line), self.line(line), self.image(x)


class Running(nn.Module):
    """Instance norm by running statistics is a batch norm."""

    def __init__(self):
        super().__init__()
        self.line = nn.InstanceNorm1d(12, affine=True, track_running_stats=True)
        self.image = nn.InstanceNorm2d(12, track_running_stats=True)
        nn.init.normal_(self.line.weight)
        nn.init.normal_(self.line.bias)
        for norm in (self.line, self.image):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.1, 3)

    def forward(self, x):
        return self.line(x.flatten(2)), self.image(x)


DIMS = {"B": (1, 4), "H": (2, 20), "W": (2, 20)}
SWEEP = over(B=[4, 1], H=[20, 2], W=[9])
CASES = [
    *variants(
        Case("group_norm", Norms, {"x": f32("B", 12, "H", "W")}, DIMS, SWEEP),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("instance_norm_running", Running, {"x": f32("B", 12, "H", "W")}, DIMS, SWEEP),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "group_norm_bf16",
        lambda: Norms().to(torch.bfloat16),
        {"x": bf16("B", 12, "H", "W")},
        DIMS,
        SWEEP[:2],
        tolerance=1.6e-2,
    ),
]
