"""The ahead-of-time half of the backend: an edge program in, an artifact as delegate blob out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from liveshape import _core
from liveshape.executorch.edge import as_pt2, symbols

QUANT = ("", "q8", "q4")
SHARED_BYTES = 1024  # below this a name and its alignment cost about as much as the bytes


def make_specs(
    *, quant: str, threads: int, backend: str, bounds: dict[str, int], mins: dict[str, int]
) -> list[CompileSpec]:
    """What the compiler and, through the .pte, the runtime shall know. Defaults leave no trace."""
    values = {
        "quant": quant,
        "threads": str(threads) if threads else "",
        "backend": backend if backend != "cpu" else "",
        "bounds": json.dumps(bounds) if bounds else "",
        "mins": json.dumps(mins) if mins else "",
    }
    return [CompileSpec(key, value.encode()) for key, value in values.items() if value]


class LiveshapeBackend(BackendDetails):
    """Its name is the delegate's id in a .pte. Specs: quant, threads, backend, bounds, mins."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """As it is: preprocess changes nothing of it, and a copy would copy the weights."""
        return edge_program

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: Sequence[CompileSpec]
    ) -> PreprocessResult:
        specs = {spec.key: bytes(spec.value).decode() for spec in compile_specs}
        unknown = set(specs) - {"quant", "threads", "backend", "bounds", "mins"}
        if unknown:
            raise ValueError(f"liveshape: no compile spec is called {sorted(unknown)}")
        weights = NamedDataStore()
        blob, _ = _core.compile_bytes(
            as_pt2(edge_program),
            detach=lambda name, data: _keep(weights, data),
            quant=specs.get("quant", ""),
            bounds=_within(edge_program, json.loads(specs.get("bounds", "{}"))),
            mins=_within(edge_program, json.loads(specs.get("mins", "{}"))),
        )
        return PreprocessResult(
            processed_bytes=blob, data_store_output=weights.get_named_data_store_output()
        )


def _keep(weights: NamedDataStore, data: bytes) -> str | None:
    """Weights go into the named data of the program under the hash of their bytes: Methods with
    the same ones share them. The alignment lets the delegate read them where they lie."""
    if len(data) < SHARED_BYTES:
        return None
    key = f"liveshape_{hashlib.sha256(data).hexdigest()[:32]}"
    weights.add_named_data(key, data, alignment=64)
    return key


def _within(edge: ExportedProgram, values: dict[str, int]) -> dict[str, int]:
    """Those of the symbols that this part of the program has."""
    mine = symbols(edge.graph.nodes)
    return {name: value for name, value in values.items() if name in mine}
