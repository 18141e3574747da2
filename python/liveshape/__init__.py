"""Liveshape: one torch.export artifact, exact results at every live shape below its bound.

>>> import liveshape, numpy, torch
>>> S = torch.export.Dim("S", min=1, max=4096)
>>> model = torch.nn.Linear(8, 4)
>>> artifact = liveshape.export(model, (torch.randn(3, 8),), dynamic_shapes=({0: S},))
>>> session = artifact.session()
>>> [session(numpy.ones((n, 8), numpy.float32)).shape for n in (4096, 1, 17)]
[(4096, 4), (1, 4), (17, 4)]
>>> session.stats
Stats(binds=3, runs=3, rebuilds=0, moved_addresses=0)

`export`, `save` and `verify` need torch; `load` and what it gives need NumPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from liveshape.save import save

if TYPE_CHECKING:
    from liveshape.exporting import ExportError, export
    from liveshape.session import Artifact, Session, load
    from liveshape.verifying import Verification, verify

__all__ = [
    "Artifact",
    "ExportError",
    "Session",
    "Verification",
    "export",
    "load",
    "save",
    "verify",
]

# Found on first use: the tools that make goldens need torch, but not the compiled module.
_HOMES = {
    "Artifact": "session",
    "ExportError": "exporting",
    "Session": "session",
    "Verification": "verifying",
    "export": "exporting",
    "load": "session",
    "verify": "verifying",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"liveshape.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
