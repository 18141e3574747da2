"""Which nodes of an edge program are ours, and who owns the data they read."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from executorch.exir.backend.partitioner import (
    DelegationSpec,
    Partitioner,
    PartitionResult,
)
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from liveshape import _core
from liveshape.executorch.edge import is_size, overload, target_name
from liveshape.executorch.library import BACKEND
from liveshape.executorch.preprocess import QUANT, make_specs
from liveshape.support import serves_tensors
from liveshape.symbols import SymbolTable

MINS = "liveshape_mins"  # in a placeholder's meta["custom"], which survives every retracing


class LiveshapePartitioner(Partitioner):
    """Delegates every node that Liveshape can run, in as few parts as the graph allows.

    to_edge_transform_and_lower(ep, partitioner=[LiveshapePartitioner(quant="q4", threads=2)])

    quant: "q8" or "q4" for weights of linear and embedding. threads: 0 is one a core. bounds:
    symbol (torch's name, or where it enters: "x.0") -> a maximum below the export's.
    """

    def __init__(
        self,
        *,
        quant: str = "",
        threads: int = 0,
        bounds: Mapping[str, int] | None = None,
        backend: str = "cpu",
    ):
        super().__init__()
        if quant not in QUANT:
            raise ValueError(f"quant={quant!r}: one of {QUANT}")
        if not 0 <= threads <= 1024:
            raise ValueError(f"threads={threads}: 0 (one per core) to 1024")
        self._options = {"quant": quant, "threads": threads, "backend": backend}
        self._bounds = dict(bounds or {})

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Notes the minimum of each symbol: 0 and 1 become 2 when the program is traced again."""
        ranges = {str(key): bounds for key, bounds in exported_program.range_constraints.items()}
        mins = {name: int(b.lower) for name, b in ranges.items() if b.lower < 2}
        # In place: a copied graph may have other names than its signature. Nothing else reads it.
        for node in exported_program.graph.nodes:
            if node.op == "placeholder" and mins:
                node.meta["custom"] = {**node.meta.get("custom", {}), MINS: mins}
        return exported_program

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list, None]:
        """Ops whose every node here is ours: what is kept and not delegated is an error.

        Aliasing ops are left to ExecuTorch, which makes views copies.
        """
        kept: dict[object, bool] = {}
        for node in ep.graph.nodes:
            op = overload(node)
            if isinstance(op, torch._ops.OpOverload) and not is_size(node):
                plain = not op._schema.is_mutable and all(
                    r.alias_info is None for r in op._schema.returns
                )
                kept[op] = kept.get(op, True) and plain and is_supported(node)
        return [op for op, ours in kept.items() if ours], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        specs = make_specs(
            **self._options,
            bounds=self._resolve_bounds(exported_program),
            mins=_mins(exported_program),
        )
        tags = {}
        for partition in propose(exported_program.graph_module):
            tag = f"liveshape_{partition.id}"
            tags[tag] = DelegationSpec(BACKEND, specs)
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        tag_states(exported_program)
        return PartitionResult(exported_program, tags)

    def _resolve_bounds(self, ep: ExportedProgram) -> dict[str, int]:
        table = SymbolTable(ep)
        return {str(table.resolve(name)): bound for name, bound in self._bounds.items()}


def is_supported(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[0], torch.fx.Node) and is_supported(node.args[0])
    return _core.is_supported(target_name(node)) and serves_tensors(node)


class _Support(OperatorSupportBase):
    def __init__(self, refused: set[torch.fx.Node]):
        self.refused = refused

    def is_node_supported(self, submodules: Mapping, node: torch.fx.Node) -> bool:
        return node not in self.refused and is_supported(node)


def propose(module: torch.fx.GraphModule) -> list[Partition]:
    """The largest parts. A delegate returns tensors only: a size that others read stays outside."""
    refused: set[torch.fx.Node] = set()
    while True:
        found = CapabilityBasedPartitioner(
            module, _Support(refused), allows_single_node_partition=True
        ).propose_partitions()
        leaks = {
            node
            for partition in found
            for node in partition.nodes
            if is_size(node) and any(user not in partition.nodes for user in node.users)
        }
        idle = {node for p in found if all(is_size(node) for node in p.nodes) for node in p.nodes}
        if not leaks | idle:
            return found
        refused |= leaks | idle


def tag_states(ep: ExportedProgram) -> None:
    """A mutated buffer belongs to the one part that reads and writes it, else to ExecuTorch.

    ExecuTorch's own tag_mutated_buffer would give a buffer of two parts to one of them.
    """
    signature = ep.graph_signature
    writers = {buffer: name for name, buffer in signature.buffers_to_mutate.items()}
    nodes = {node.name: node for node in ep.graph.nodes}
    for node in ep.graph.nodes:
        buffer = signature.inputs_to_buffers.get(node.name) if node.op == "placeholder" else None
        if buffer not in writers:
            continue
        writer = nodes[writers[buffer]]
        tags = {n.meta.get("delegation_tag") for n in [writer, *node.users]}
        returned = [spec.arg.name for spec in signature.output_specs].count(writer.name) > 1
        # A delegate that owns a buffer cannot also return its new value.
        if len(tags) == 1 and None not in tags and not returned:
            node.meta["delegation_tag"] = tags.pop()


def _mins(ep: ExportedProgram) -> dict[str, int]:
    notes = [n.meta.get("custom", {}) for n in ep.graph.nodes if n.op == "placeholder"]
    return next((note[MINS] for note in notes if MINS in note), {})
