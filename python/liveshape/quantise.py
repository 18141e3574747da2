"""What `liveshape compile --quant q8|q4` stores, as a formula in torch: goldens are made with it.

    dequantise_weights(ep, "q4")    # an ExportedProgram now computes with what q4 leaves

Which weights: those whose every reader is a linear layer or an embedding, with one K, as compile
chooses. What compile computes of weights beforehand (a sum of one, `float()` of a bf16 one) is not
followed.

Groups of 32 along K share a scale; a last group may be short. For q4, in f32,
scale = f16(max|w| / 7), q = clamp(round_half_even(w / scale), -8, 7) with the rounded scale,
and 0 where the scale is 0. For q8, 127 and -128.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

GROUP = 32
MOST = {"q8": 127, "q4": 7}

# Weight argument of each reader, and its dim that is K.
READERS = {
    "aten.linear.default": (1, -1),
    "aten.embedding.default": (0, -1),
    "aten.matmul.default": (1, -2),
    "aten.mm.default": (1, -2),
    "aten.bmm.default": (1, -2),
    "aten.addmm.default": (2, -2),
}
VIEWS = {
    "aten.t.default",
    "aten.permute.default",
    "aten.transpose.int",
    "aten.unsqueeze.default",
    "aten.expand.default",
    "aten.view.default",
    "aten.reshape.default",
}


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
    """Name in the state dict -> the dim that is K, of what linear and embedding alone read."""
    signature = ep.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    found: dict[int, set[int | None]] = {}  # by where a weight lies, as names may share one
    owners = {}
    for node in ep.graph.nodes:
        weight = ep.state_dict.get(names.get(node.name))
        if node.op != "placeholder" or weight is None or weight.dim() != 2:
            continue
        owners[names[node.name]] = weight.data_ptr()
        # Strides that tell the dims from each other, whatever their sizes.
        rows, columns = 4 * weight.shape[1] + 2, 2
        like = torch.empty_strided(weight.shape, (rows, columns), device="meta")
        strides = set(_strides_of_k(node, like))
        found.setdefault(weight.data_ptr(), set()).update(
            {rows: 0, columns: 1}.get(stride) for stride in strides
        )
    return {
        name: dims.pop()
        for name, at in owners.items()
        if len(dims := set(found[at])) == 1 and None not in dims
    }


def _strides_of_k(node: Any, value: torch.Tensor) -> Iterator[int]:
    """The stride of K of each reader of `value`, which `node` gives; 0 of one that is none."""
    for user in node.users:
        target = str(user.target)
        where, k = READERS.get(target, (-1, -1))
        if 0 <= where < len(user.args) and user.args[where] is node and user.args.count(node) == 1:
            # More than one matrix is no weight, but one matrix may be repeated.
            yield 0 if any(value.stride()[:-2]) else value.stride(k)
        elif target in VIEWS:
            sizes = torch.fx.node.map_arg(user.args[1:], _hint)
            try:
                view = user.target(value, *sizes, **user.kwargs)
            except RuntimeError:  # not a view of these strides
                yield 0
            else:
                yield from _strides_of_k(user, view)
        else:
            yield 0


def _hint(size: Any) -> int:
    """What a symbolic size was at export; any will do for one that only data tells."""
    return getattr(getattr(size.meta["val"], "node", None), "hint", None) or 2


def dequantise_weights(ep: Any, quant: str) -> None:
    """In place, a weight that two names share once."""
    done = set()
    for name, dim in quantised_weights(ep).items():
        weight = ep.state_dict[name]
        if weight.data_ptr() not in done:
            done.add(weight.data_ptr())
            with torch.no_grad():
                weight.copy_(dequantised(weight, quant, dim))
