"""Runs the graph of a .pt2 as torch would, without the guards that torch puts before it.

`ep.module()` refuses live sizes 0 and 1 where tracing assumed >= 2. The operators themselves
recompute rightly there, and that is what Liveshape is measured against; so this interprets the
graph, with weights and states bound by position, and writes states back as the signature says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from liveshape.symbols import NAMES_FILE, ShapeError, SymbolTable


class Program:
    """A freshly loaded archive with its own states.

    program = Program("model.pt2")                     # or an ExportedProgram
    outputs = program.run({"x": torch.randn(4, 64)})   # [(name, tensor)], states move on

    `interpreter` may change what a node gives: an fx.Interpreter of its own.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | torch.export.ExportedProgram,
        interpreter: type[torch.fx.Interpreter] = torch.fx.Interpreter,
    ):
        extra = {NAMES_FILE: ""}
        if isinstance(source, torch.export.ExportedProgram):
            self.ep = source
        else:
            self.ep = torch.export.load(str(source), extra_files=extra)
        # torch leaves the empty string where the archive has no such member.
        self.table = SymbolTable(self.ep, SymbolTable.names_in(extra[NAMES_FILE]))
        self._interpreter = interpreter
        self._specs = self.ep.graph_signature.input_specs
        placeholders = [node for node in self.ep.graph.nodes if node.op == "placeholder"]
        self._names = [node.name for node in placeholders]
        self._bound = [
            None if s.kind.name == "USER_INPUT" else self._tensor(s) for s in self._specs
        ]
        self._stored = [t.clone() if isinstance(t, torch.Tensor) else None for t in self._bound]

    def run(self, inputs: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
        """One step. Inputs are not changed; integers come and go as 0-d int64 tensors."""
        self.table.solve_inputs(inputs)
        flat = [
            self._argument(spec, name, inputs) if spec.kind.name == "USER_INPUT" else bound
            for spec, name, bound in zip(self._specs, self._names, self._bound, strict=True)
        ]
        with torch.no_grad():
            results = self._interpreter(self.ep.graph_module).run(*flat, enable_io_processing=False)
            return self._finish(results)

    def reset(self) -> None:
        """Everything as the archive has it: the same as loading it again, and much faster."""
        with torch.no_grad():
            for bound, stored in zip(self._bound, self._stored, strict=True):
                if stored is not None and not torch.equal(bound, stored):
                    bound.copy_(stored)

    def _tensor(self, spec: Any) -> Any:
        stored = self.ep.state_dict
        return stored[spec.target] if spec.target in stored else self.ep.constants[spec.target]

    def _argument(self, spec: Any, name: str, inputs: Mapping[str, Any]) -> Any:
        if type(spec.arg).__name__ == "ConstantArgument":
            return spec.arg.value
        meta = self.table.inputs[name]
        if not hasattr(meta, "shape"):
            return int(inputs[name])
        value = inputs[name]
        if value.dtype != meta.dtype:
            raise ShapeError(f"input `{name}` is {value.dtype}, want {meta.dtype}")
        return value.clone()

    def _finish(self, results: Any) -> list[tuple[str, torch.Tensor]]:
        """Copy outputs out before states change: an output may be a view of a state."""
        outputs, writes = [], []
        for spec, value in zip(self.ep.graph_signature.output_specs, results, strict=True):
            if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
                writes.append((self._tensor(spec), value.clone()))
            elif spec.kind.name == "USER_OUTPUT" and type(spec.arg).__name__ != "ConstantArgument":
                outputs.append((spec.arg.name, _own(value)))
        for state, value in writes:
            state.copy_(value)
        return outputs


def _own(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    return torch.tensor(int(value), dtype=torch.int64)
