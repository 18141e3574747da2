"""What `liveshape compile --quant q8|q4` stores, as a formula in torch: goldens are made with it.

    dequantise_weights(ep, "q4")    # an ExportedProgram now computes with what q4 leaves

Groups of 32 along K share a scale; a last group may be short. For q4, in f32,
scale = f16(max|w| / 7), q = clamp(round_half_even(w / scale), -8, 7) with the rounded scale,
and 0 where the scale is 0. For q8, 127 and -128.
"""

from __future__ import annotations

from typing import Any

import torch

GROUP = 32
MOST = {"q8": 127, "q4": 7}

# Weight argument of each reader, and the dim that is K.
READERS = {
    "aten.linear.default": (1, 1),
    "aten.embedding.default": (0, 1),
    "aten.matmul.default": (1, 0),
    "aten.mm.default": (1, 0),
    "aten.addmm.default": (2, 0),
}
TRANSPOSES = ("aten.t.default", "aten.permute.default", "aten.transpose.int")


def dequantised(weight: torch.Tensor, quant: str, dim: int = -1) -> torch.Tensor:
    """q * scale, in the weight's dtype."""
    most = MOST[quant]
    groups = []
    for group in weight.float().split(GROUP, dim):
        scale = (group.abs().amax(dim, keepdim=True) / most).half().float()
        q = torch.round(group / scale).clamp(-most - 1, most)
        groups.append(torch.where(scale == 0, 0.0, q * scale))
    return torch.cat(groups, dim).to(weight.dtype)


def quantised_weights(ep: Any) -> dict[str, int]:
    """Name in the state dict -> the dim that is K, of what linear and embedding read."""
    signature = ep.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found = {}
    for node in ep.graph.nodes:
        if (reader := READERS.get(str(node.target))) is None:
            continue
        weight, dim = node.args[reader[0]], reader[1]
        if str(weight.target) in TRANSPOSES:
            weight, dim = weight.args[0], 1 - dim
        if weight.name in names and weight.meta["val"].dim() == 2:
            found[names[weight.name]] = dim
    return found


def dequantise_weights(ep: Any, quant: str) -> None:
    """In place, a weight that two names share once."""
    done = set()
    for name, dim in quantised_weights(ep).items():
        weight = ep.state_dict[name]
        if weight.data_ptr() not in done:
            done.add(weight.data_ptr())
            with torch.no_grad():
                weight.copy_(dequantised(weight, quant, dim))
