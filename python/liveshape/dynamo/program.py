"""A whole graph as a callable: its regions compiled, the rest left to torch, writes copied back."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from liveshape.dynamo.capture import Captured
from liveshape.dynamo.exported import entering_sizes, is_symbolic, size_symbols
from liveshape.dynamo.partition import cut, eager_nodes, regions, returned_views
from liveshape.dynamo.region import Region, Settings
from liveshape.dynamo.stats import stats

# Reads memory by strides, and a region's outputs are dense whatever torch would have made.
_BY_STRIDES = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default}


class Refused(Exception):
    """The graph cannot be served, not even in part; the message says why."""


class Program:
    """Called with Dynamo's flat inputs; gives the graph's outputs.

    `regions` run here, `eager` are the nodes that torch runs, `reasons` says why by node name.
    """

    def __init__(self, captured: Captured, weights: Mapping[int, torch.Tensor], settings: Settings):
        self.reasons: dict[str, str] = {}
        self._mutated = captured.mutated
        inputs = captured.module.graph.find_nodes(op="placeholder")
        fixed = {inputs[i].name: tensor for i, tensor in weights.items()}
        views = returned_views(captured.module)
        while not self._compile(cut(captured.module, {*self.reasons, *views}), fixed, settings):
            pass
        self.eager = [node for node in eager_nodes(self._module) if node.name not in views]
        if any(node.target in _BY_STRIDES for node in self.eager):
            raise Refused("as_strided depends on how torch lays out what it reads")
        self.regions = [self._module.get_submodule(str(n.target)) for n in regions(self._module)]
        self._call = self._module.forward

    def __call__(self, *args: Any) -> Any:
        stats.last_cycles = 0
        results = self._call(*args)
        if not self._mutated:
            return results
        written = len(self._mutated)
        with torch.no_grad():
            for position, value in zip(self._mutated, results[:written], strict=True):
                args[position].copy_(value)
        return results[written:]

    def _compile(
        self, module: fx.GraphModule, fixed: Mapping[str, torch.Tensor], settings: Settings
    ) -> bool:
        """False where a region was refused: the nodes it names are torch's from now on."""
        for call in regions(module):
            part = module.get_submodule(str(call.target))
            _give_symbols(module, call, part)
            weights = {i: fixed[a.name] for i, a in enumerate(call.args) if a.name in fixed}
            try:
                region = Region(part, weights, settings)
            except (ValueError, NotImplementedError) as error:
                self._leave(part, str(error))
                return False
            module.set_submodule(str(call.target), region)
        module.recompile()
        self._module = module
        return True

    def _leave(self, part: fx.GraphModule, message: str) -> None:
        """The nodes that the message names, or the whole part; a result means its producer."""
        words = set(re.findall(r"`(\w+)`", message))
        calls = [node for node in part.graph.nodes if node.op == "call_function"]
        named = [node for node in calls if node.name in words] or calls
        makers = [n.args[0] if n.target is operator.getitem else n for n in named]
        self.reasons |= dict.fromkeys((node.name for node in makers), message)


def _give_symbols(module: fx.GraphModule, call: fx.Node, part: fx.GraphModule) -> None:
    """A region whose inputs have `s0 + 1` but nowhere `s0` gets the integer itself, so that a size
    can be held against its bound before anything runs. Dynamo has an input for every symbol."""
    inputs = part.graph.find_nodes(op="placeholder")
    plain = {size.node.expr for n in inputs for _, size in entering_sizes(n) if is_symbolic(size)}
    for source in module.graph.find_nodes(op="placeholder"):
        value = source.meta["val"]
        if not is_symbolic(value) or value.node.expr not in size_symbols(part) - plain:
            continue
        with part.graph.inserting_after(part.graph.find_nodes(op="placeholder")[-1]):
            given = part.graph.placeholder(source.name)
        given.meta["val"] = value
        call.args = (*call.args, source)
    part.recompile()
