"""Cuts a graph into the regions that Liveshape runs and the nodes that stay with torch.

    module, refused = cut(captured.module, refused={})     # call_module nodes `liveshape_0`, ...

A node is ours when its target has a form in the importer and its tensors are of a kind that the
engine has. Whether its arguments are served too is known only by compiling; a node that was refused
there is named in `refused`, and the graph is cut anew around it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from liveshape import _core
from liveshape.support import serves_tensors, tensors

NAME = "liveshape_"


class _Ours(OperatorSupportBase):
    def __init__(self, refused: Collection[str]):
        self.refused = refused

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        if node.op != "call_function" or node.name in self.refused:
            return False
        if not _computes(node):
            return True
        return _core.is_supported(f"torch.ops.{node.target}") and serves_tensors(node)


def returned_views(module: fx.GraphModule) -> set[str]:
    """Nodes that make an output which is a view of an input: torch makes them, since the caller
    may write through the one and read through the other."""
    inputs = {id: n for n in module.graph.find_nodes(op="placeholder") for id in _storages(n)}
    (output,) = module.graph.find_nodes(op="output")
    views: set[str] = set()
    for node in output.all_input_nodes:
        while node.op == "call_function" and not inputs.keys().isdisjoint(_storages(node)):
            views.add(node.name)
            node = node.all_input_nodes[0]
    return views


def _storages(node: fx.Node) -> set[int]:
    return {t.untyped_storage()._cdata for t in tensors(node.meta.get("val"))}


def cut(module: fx.GraphModule, refused: Collection[str]) -> fx.GraphModule:
    """A copy of `module` in which each region is one call of a submodule."""
    copied = fx.GraphModule(module, fx.Graph())
    copied.graph.output(copied.graph.graph_copy(module.graph, {}))
    partitioner = CapabilityBasedPartitioner(
        copied, _Ours(refused), allows_single_node_partition=True
    )
    partitions = [p for p in partitioner.propose_partitions() if any(map(_computes, p.nodes))]
    return partitioner.fuse_partitions(partitions, prefix=NAME)


def regions(module: fx.GraphModule) -> list[fx.Node]:
    calls = module.graph.find_nodes(op="call_module")
    return [node for node in calls if str(node.target).startswith(NAME)]


def eager_nodes(module: fx.GraphModule) -> list[fx.Node]:
    """What stays with torch although it computes."""
    return [n for n in module.graph.nodes if n.op == "call_function" and _computes(n)]


def _computes(node: fx.Node) -> bool:
    """Not arithmetic on sizes, nor one result picked out of its producer's several."""
    makes_tensors = len(tensors(node.meta.get("val"))) > 0
    return makes_tensors and node.target is not operator.getitem
