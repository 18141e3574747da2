"""A part of a graph that Liveshape runs: compiled once at its bound, then called at live sizes.

    region = Region(module, weights={2: weight}, settings=Settings(bound=512))
    y, z = region(x, 7, weight)                    # sizes of x may differ from call to call

Sizes enter as symbols of Dynamo's shape environment, weights are part of the artifact. A size above
its bound, or a weight that was changed since, costs one rebuild, which is counted and warned of.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils._sympy.numbers import int_oo

from liveshape import _core
from liveshape.dynamo.exported import (
    entering_sizes,
    is_symbolic,
    output_nodes,
    ranges,
    size_symbols,
    to_exported,
)
from liveshape.dynamo.stats import stats
from liveshape.save import save

# Memory is reserved at the bound but touched at the live size, so a generous bound costs addresses,
# not bytes: 2048 holds what most callers send, and three such symbols still fit the address space.
DEFAULT_BOUND = 2048


@dataclass(frozen=True)
class Settings:
    """options= of torch.compile."""

    bound: int = 0  # of every size that has no maximum of its own; 0: DEFAULT_BOUND
    quant: str = ""  # weights in 8 or 4 bits: "q8", "q4"
    threads: int = 0  # 0: as many as torch uses
    backend: str = "cpu"
    machine: str | os.PathLike[str] = ""  # of the backend npu: a file that describes one

    @staticmethod
    def of(options: Mapping[str, Any] | None) -> Settings:
        known = [f.name for f in fields(Settings)]
        for name in options or {}:
            if name not in known:
                raise ValueError(f"options: no `{name}` is known; there are {', '.join(known)}")
        settings = Settings(**(options or {}))
        if settings.machine:  # a mistake there is the caller's, not an op to be left to torch
            if settings.backend != "npu":
                raise ValueError(f"options: a machine is for backend npu, not {settings.backend}")
            _core.read_machine(os.fspath(settings.machine))
        return settings


class Region(torch.nn.Module):
    """Called like the graph module it was made from: a list of outputs for its inputs."""

    def __init__(
        self, module: fx.GraphModule, weights: Mapping[int, torch.Tensor], settings: Settings
    ):
        super().__init__()
        self.targets = [n.target for n in module.graph.nodes if n.op == "call_function"]
        self._module = module
        self._settings = settings
        self._weights = dict(weights)
        self._inputs = module.graph.find_nodes(op="placeholder")
        self._one_output = _as_tuple(module)
        self._outputs = output_nodes(module)
        self._live = [i for i in range(len(self._inputs)) if i not in self._weights]
        self._bounds = _first_bounds(module, settings)
        self._sizes = _size_inputs(self._inputs, self._bounds)
        self._lock = threading.Lock()  # a session serves one call at a time
        self._build()

    def forward(self, *args: Any) -> Any:
        with self._lock:
            self._follow_weights(args)
            self._follow_sizes(args)
            results = self._run([_dense(args[i]) for i in self._live])
        return results[0] if self._one_output else results

    def _run(self, inputs: list[Any]) -> list[Any]:
        """Outputs go straight into tensors of torch's, made once their live dims are known."""
        results: list[Any] = [None] * len(self._outputs)

        def make(i: int, dims: tuple[int, ...]) -> torch.Tensor | None:
            value = self._outputs[i].meta["val"]
            if isinstance(value, torch.Tensor):
                results[i] = torch.empty(dims, dtype=value.dtype)
            return results[i]

        self._session.run(inputs, make)
        if self._settings.machine:
            stats.count_cycles(self._session.stats.cycles)
        for i, result in enumerate(results):
            if result is None:  # an integer, or a size that only the data told
                result = torch.from_dlpack(self._session.output(i))
                whole = not isinstance(self._outputs[i].meta["val"], torch.Tensor)
                results[i] = result.item() if whole else result.clone()
        return results

    def _build(self) -> None:
        """The artifact is a file that is mapped and then unlinked: nothing is left behind."""
        with tempfile.TemporaryDirectory(prefix="liveshape-") as folder:
            exported, live = Path(folder) / "region.pt2", Path(folder) / "region.live"
            save(to_exported(self._module, self._weights), exported)
            bounds = {str(symbol): bound for symbol, bound in self._bounds.items()}
            try:
                _core.compile(str(exported), str(live), bounds=bounds, quant=self._settings.quant)
            except (
                ValueError,
                NotImplementedError,
            ) as error:  # the path means nothing to the caller
                raise type(error)(str(error).removeprefix(f"{exported}: ")) from None
            artifact = _core.Artifact.load(str(live))
        self._session = _core.Session(
            artifact,
            backend=self._settings.backend,
            threads=self._settings.threads or torch.get_num_threads(),
            machine=os.fspath(self._settings.machine),
        )
        self._versions = {i: _version(tensor) for i, tensor in self._weights.items()}
        stats.artifacts += 1

    def _rebuild(self) -> None:
        stats.rebuilds += 1
        self._build()

    def _follow_weights(self, args: tuple) -> None:
        """Weights live in the artifact; torch may have written or replaced them since."""
        for i, version in self._versions.items():
            if args[i] is not self._weights[i] or _version(args[i]) != version:
                self._weights = {i: args[i] for i in self._weights}
                warnings.warn(
                    f"liveshape: weight `{self._inputs[i].name}` changed: the artifact is rebuilt",
                    stacklevel=2,
                )
                self._rebuild()
                return

    def _follow_sizes(self, args: tuple) -> None:
        for i, dim, symbol in self._sizes:
            size = args[i] if dim < 0 else args[i].shape[dim]
            if size > self._bounds[symbol]:
                self._bounds[symbol] = 1 << (size - 1).bit_length()
                where = self._inputs[i].name + (f" dim {dim}" if dim >= 0 else "")
                warnings.warn(
                    f"liveshape: `{where}` is {size}, above its bound: the artifact is rebuilt for"
                    f" {self._bounds[symbol]} (torch._dynamo.mark_dynamic(tensor, dim, max=N) or"
                    " options={'bound': N} spares this)",
                    stacklevel=2,
                )
                self._rebuild()


def _as_tuple(module: fx.GraphModule) -> bool:
    """A program returns a tuple; True where the module returned its only output bare."""
    (output,) = module.graph.find_nodes(op="output")
    bare = isinstance(output.args[0], fx.Node)
    if bare:
        output.args = ((output.args[0],),)
        module.recompile()
    return bare


def _first_bounds(module: fx.GraphModule, settings: Settings) -> dict[Any, int]:
    known = ranges(module)
    sizes = sorted(size_symbols(module), key=str)
    bound = settings.bound or DEFAULT_BOUND
    return {s: bound for s in sizes if known[s].upper is int_oo}


def _size_inputs(inputs: list[fx.Node], bounds: Mapping[Any, int]) -> list[tuple[int, int, Any]]:
    """(position, dim, symbol) where a bounded symbol enters as itself; dim -1: an integer input."""
    found: dict[Any, tuple[int, int, Any]] = {}
    for i, node in enumerate(inputs):
        for dim, size in entering_sizes(node):
            if is_symbolic(size) and size.node.expr in bounds:
                found.setdefault(size.node.expr, (i, dim, size.node.expr))
    return list(found.values())


def _dense(value: Any) -> Any:
    return value.detach().contiguous() if isinstance(value, torch.Tensor) else int(value)


def _version(tensor: torch.Tensor) -> int:
    """Counts writes in place; inference tensors do not count, and may not be written either."""
    return -1 if tensor.is_inference() else tensor._version
