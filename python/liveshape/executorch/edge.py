"""An edge program as a plain ATen program, for the importer that reads every other .pt2.

Edge overloads wrap ATen's. A dim_order op is a copy or a cast that also names a memory layout; no
value depends on that, so inside a delegate nothing is left of it, and at its border the runtime
reads and writes whatever order a tensor has.
"""

from __future__ import annotations

import copy
import io
import operator
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, SymIntArgument

from liveshape.support import tensors

aten = torch.ops.aten
# What remains of a dim_order op: (target, its keywords).
DIM_ORDER_OPS = {
    "dim_order_ops._to_dim_order_copy.default": (aten._to_copy.default, ("dtype",)),
    "dim_order_ops._clone_dim_order.default": (aten.clone.default, ()),
}


def overload(node: torch.fx.Node) -> Any:
    """The ATen op or Python function that a node calls."""
    target = node.target
    return target._op if isinstance(target, EdgeOpOverload) else target


def target_name(node: torch.fx.Node) -> str:
    """As a .pt2 spells it: `torch.ops.aten.add.Tensor`, `_operator.mul`; dim_order ops as ATen."""
    target = overload(node)
    if isinstance(target, torch._ops.OpOverload):
        plain, _ = DIM_ORDER_OPS.get(str(target), (target, ()))
        return f"torch.ops.{plain}"
    return f"{getattr(target, '__module__', '?')}.{getattr(target, '__name__', target)}"


def is_size(node: torch.fx.Node) -> bool:
    """Whether a node computes a size, not a tensor."""
    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def as_aten(edge: ExportedProgram) -> ExportedProgram:
    """The same program over ATen ops. Weights are shared, the graph is a copy."""
    module = copy.deepcopy(edge.graph_module)
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        node.target = overload(node)
        if plain := DIM_ORDER_OPS.get(str(node.target)):
            node.target, kept = plain
            node.kwargs = {k: v for k, v in node.kwargs.items() if k in kept and v is not None}
    module.recompile()
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=_signature(edge),
        state_dict=edge.state_dict,
        range_constraints=_ranges(edge),
        module_call_graph=edge.module_call_graph,
        example_inputs=None,
        constants=edge.constants,
        verifiers=[torch._export.verifier.Verifier],
    )


def symbols(nodes: Iterable[torch.fx.Node]) -> set[str]:
    """Symbols in the sizes of what these nodes make."""
    found = set()
    for node in nodes:
        value = node.meta.get("val")
        sizes = [size for tensor in tensors(value) for size in tensor.shape]
        for size in [*sizes, value]:
            if isinstance(size, torch.SymInt):
                found |= {str(symbol) for symbol in size.node.expr.free_symbols}
    return found


def _ranges(edge: ExportedProgram) -> dict:
    """A part of a program is given the symbols of the whole, and could not solve the others.

    A key may also be a number: what is left of a symbol that torch has solved.
    """
    mine = symbols(edge.graph.nodes)
    return {
        key: bounds
        for key, bounds in edge.range_constraints.items()
        if key.free_symbols and {str(symbol) for symbol in key.free_symbols} <= mine
    }


def _signature(edge: ExportedProgram) -> ExportGraphSignature:
    """With integers that enter a part of a program called so: ExecuTorch calls them tensors."""
    placeholders = [node for node in edge.graph.nodes if node.op == "placeholder"]
    specs = [
        replace(spec, arg=SymIntArgument(name=node.name)) if is_size(node) else spec
        for spec, node in zip(edge.graph_signature.input_specs, placeholders, strict=True)
    ]
    return ExportGraphSignature(specs, edge.graph_signature.output_specs)


def as_pt2(edge: ExportedProgram) -> bytes:
    """The bytes of a .pt2 with that program."""
    archive = io.BytesIO()
    torch.export.save(as_aten(edge), archive)
    return archive.getvalue()
