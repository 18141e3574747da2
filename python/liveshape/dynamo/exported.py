"""An fx graph with fake values as an ExportedProgram, so that the one importer reads it.

ep = to_exported(module, {2: weight})      # placeholder 2 is a weight, the others are inputs
liveshape.save(ep, "region.pt2")
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export import graph_signature as signature
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.utils import _pytree as pytree


def to_exported(module: fx.GraphModule, weights: Mapping[int, torch.Tensor]) -> ExportedProgram:
    """The program of `module`; `weights` are placeholders, by position, that become constants."""
    from torch._export.verifier import Verifier

    module = copy.copy(module)
    inputs = module.graph.find_nodes(op="placeholder")
    outputs = output_nodes(module)
    named = {inputs[i].name: tensor.detach() for i, tensor in weights.items()}
    in_spec = pytree.tree_structure(((0,) * (len(inputs) - len(named)), {}))
    out_spec = pytree.tree_structure((0,) * len(outputs))
    call = ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature.ExportGraphSignature(
            input_specs=[_input(node, named) for node in inputs],
            output_specs=[
                signature.OutputSpec(signature.OutputKind.USER_OUTPUT, _argument(node), None)
                for node in outputs
            ],
        ),
        state_dict=named,
        range_constraints=ranges(module),
        module_call_graph=[ModuleCallEntry("", call)],
        example_inputs=None,
        constants={},
        verifiers=[Verifier],
    )


def output_nodes(module: fx.GraphModule) -> list[fx.Node]:
    (output,) = module.graph.find_nodes(op="output")
    return list(output.args[0])


def ranges(module: fx.GraphModule) -> dict[sympy.Symbol, Any]:
    """What the shape environment knows of each symbol in a size or an integer of the graph."""
    return {
        symbol: value.node.shape_env.var_to_range[symbol]
        for value in _symbolic(module)
        for symbol in value.node.expr.free_symbols
    }


def size_symbols(module: fx.GraphModule) -> set[sympy.Symbol]:
    """Symbols that the size of some tensor depends on: those that need a bound."""
    tensors = (v for v in _values(module) if isinstance(v, torch.Tensor))
    sizes = (size for tensor in tensors for size in tensor.shape)
    return {s for size in sizes if is_symbolic(size) for s in size.node.expr.free_symbols}


def entering_sizes(node: fx.Node) -> Iterator[tuple[int, Any]]:
    """(dim, size) of what a placeholder brings in; dim -1: an integer."""
    value = node.meta["val"]
    yield from enumerate(value.shape) if isinstance(value, torch.Tensor) else [(-1, value)]


def is_symbolic(value: Any) -> bool:
    return isinstance(value, torch.SymInt) and bool(value.node.expr.free_symbols)


def _values(module: fx.GraphModule) -> Iterator[Any]:
    for node in module.graph.nodes:
        yield from pytree.tree_leaves(node.meta.get("val"))


def _symbolic(module: fx.GraphModule) -> Iterator[torch.SymInt]:
    for value in _values(module):
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        yield from (size for size in sizes if is_symbolic(size))


def _input(node: fx.Node, weights: Mapping[str, torch.Tensor]) -> signature.InputSpec:
    if node.name in weights:
        kind = (
            signature.InputKind.BUFFER
        )  # torch wants a Parameter behind PARAMETER; a tensor will do
        return signature.InputSpec(kind, _argument(node), node.name, persistent=True)
    return signature.InputSpec(signature.InputKind.USER_INPUT, _argument(node), None)


def _argument(node: Any) -> Any:
    if not isinstance(node, fx.Node):
        return signature.ConstantArgument("", node)
    if isinstance(node.meta["val"], torch.Tensor):
        return signature.TensorArgument(node.name)
    return signature.SymIntArgument(node.name)
