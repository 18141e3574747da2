"""Whether the engine can run a node of an fx graph, as far as its target and its tensors tell.

Whether its arguments are served too is known only by compiling.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from liveshape.session import TORCH_DTYPES

DTYPES = {getattr(torch, name) for name in TORCH_DTYPES.values()}


def tensors(value: Any) -> list[torch.Tensor]:
    """Tensors of a node's value: one, or those of a tuple."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def serves_tensors(node: fx.Node) -> bool:
    """Every tensor that the node reads or makes has a dtype of ours and lies in host memory."""
    return all(
        t.dtype in DTYPES and t.device.type == "cpu" and t.layout == torch.strided
        for around in [node, *node.all_input_nodes]
        for t in tensors(around.meta.get("val"))
    )
