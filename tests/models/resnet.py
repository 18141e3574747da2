"""Tiny ResNets from `transformers`, exported unmodified: batch, height and width live."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, variants


def resnet(layer: str) -> torch.nn.Module:
    """Random weights, and statistics that a lost or misfolded batch norm would not survive."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        num_channels=3,
        embedding_size=16,
        hidden_sizes=[16, 32, 48],
        depths=[1, 2, 1],
        layer_type=layer,
        num_labels=10,
    )
    model = ResNetForImageClassification(config).eval()
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.normal_(std=0.2)
            norm.running_var.uniform_(0.5, 2)
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            torch.nn.init.normal_(norm.bias, std=0.2)
    return model


class Logits(torch.nn.Module):
    """Only unpacks the output object."""

    def __init__(self, layer):
        super().__init__()
        self.model = resnet(layer)

    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values).logits


CASES = [
    copy
    for layer in ("bottleneck", "basic")
    for copy in variants(
        Case(
            f"resnet_{layer}",
            lambda layer=layer: Logits(layer),
            {"pixel_values": f32("B", 3, "H", "W")},
            {"B": (1, 4), "H": (32, 96), "W": (32, 96)},
            [
                {"B": 4, "H": 96, "W": 96},
                {"B": 1, "H": 33, "W": 64},
                {"B": 2, "H": 32, "W": 47},
            ],
            covers="S",
        ),
        decompose=RAW_AND_DECOMPOSED,
    )
]
