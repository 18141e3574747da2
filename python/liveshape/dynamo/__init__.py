"""torch.compile with Liveshape: one artifact for all sizes.

    import torch, liveshape.dynamo                     # once installed, torch finds the name itself
    fast = torch.compile(model, backend="liveshape", dynamic=True, options={"bound": 512})
    with torch.no_grad():
        fast(x)                                         # any size from 2 to the bound: one build

Dynamo traces the model with symbols for its sizes; each graph becomes one artifact, built at the
bound and run at the live size. What Liveshape has no op for stays with torch, with one warning that
names it. `stats` counts what happened. Sizes 0 and 1 are graphs of their own: Dynamo's rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo import list_backends, register_backend

from liveshape.dynamo.capture import capture
from liveshape.dynamo.maxima import follow_maxima
from liveshape.dynamo.program import Program, Refused
from liveshape.dynamo.region import Settings
from liveshape.dynamo.stats import Stats, stats

__all__ = ["Stats", "liveshape", "stats"]


def liveshape(
    gm: fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend: torch.compile calls it with each graph that Dynamo makes."""
    settings = Settings.of(options)
    stats.graphs += 1
    if torch.is_grad_enabled() and any(map(_wants_grad, example_inputs)):
        return _eager(gm, "gradients are recorded; call it under torch.no_grad()")
    captured = capture(gm)
    follow_maxima(captured.module)
    weights = {i: example_inputs[i] for i, fixed in enumerate(captured.static) if fixed}
    try:
        program = Program(captured, weights, settings)
    except Refused as refused:
        return _eager(gm, str(refused))
    if program.eager:
        names = sorted({str(node.target) for node in program.eager})
        reasons = sorted(set(program.reasons.values()))
        _warn(f"{', '.join(names)} run in eager", "; ".join(reasons) or "Liveshape has no such op")
    stats.eager.update(str(node.target) for node in program.eager)
    stats.nodes.update(str(target) for region in program.regions for target in region.targets)
    return program


def _wants_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _eager(gm: fx.GraphModule, reason: str) -> Callable[..., Any]:
    stats.eager.update(str(n.target) for n in gm.graph.nodes if n.op.startswith("call_"))
    _warn("a graph runs in eager", reason)
    return gm.forward


def _warn(what: str, reason: str) -> None:
    stats.reasons.append(reason)
    warnings.warn(f"liveshape: {what}: {reason}", stacklevel=3)


# Where the package is installed torch has the name from an entry point, and takes it only once.
if "liveshape" not in list_backends(exclude_tags=()):
    register_backend(liveshape, name="liveshape")
