"""From what Dynamo hands over to one functional ATen graph that still says `linear`.

Dynamo's graph calls torch functions and may write in place. AOTAutograd's export, stopped before
dispatch, gives ATen without mutation and without taking composite ops apart; what the graph wrote
comes out as further outputs, which the caller copies back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx


@dataclass(frozen=True)
class Captured:
    """`module(*inputs)` gives the new value of each input in `mutated`, then the outputs."""

    module: fx.GraphModule
    mutated: list[int]  # positions of inputs that the graph writes
    static: list[bool]  # per input: a weight or buffer of the model, the same tensor at every call


def capture(gm: fx.GraphModule) -> Captured:
    from torch._functorch.aot_autograd import aot_export_module

    _specialise_floats(gm)
    placeholders = gm.graph.find_nodes(op="placeholder")
    fakes = [node.meta["example_value"] for node in placeholders]
    with torch.no_grad():
        module, signature = aot_export_module(gm, fakes, trace_joint=False, pre_dispatch=True)
    inputs = module.graph.find_nodes(op="placeholder")
    position = {node.name: i for i, node in enumerate(inputs)}
    mutated = [position[name] for name in signature.user_inputs_to_mutate.values()]
    static = [_is_static(node) and i not in mutated for i, node in enumerate(placeholders)]
    for node in module.graph.nodes:  # only export asks for them; Dynamo's guards know it all
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
    _rename(inputs, placeholders)
    module.recompile()
    return Captured(module, mutated, static)


def _specialise_floats(gm: fx.GraphModule) -> None:
    """Floats of the model (eps, a scale) come in as tensors under dynamic=True; here they are
    attributes of ops. Reading their value now makes Dynamo guard on it."""
    from torch.fx.experimental.symbolic_shapes import guard_scalar

    for node in gm.graph.find_nodes(op="placeholder"):
        scalar = getattr(node.meta.get("example_value"), "item_memo", None)
        if scalar is None:
            continue
        for user in [u for u in node.users if u.target == "item"]:
            user.replace_all_uses_with(guard_scalar(scalar))
            gm.graph.erase_node(user)
    gm.recompile()


def _is_static(node: fx.Node) -> bool:
    value = node.meta["example_value"]
    marked = (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    return isinstance(value, torch.nn.Parameter) or marked is not None


def _rename(inputs: list[fx.Node], placeholders: list[fx.Node]) -> None:
    """`arg3_1` says nothing in a message; Dynamo's `l_x_` says which argument it was."""
    for node, original in zip(inputs, placeholders, strict=True):
        node.name = node.target = original.name.removeprefix("l_").strip("_") or original.name
