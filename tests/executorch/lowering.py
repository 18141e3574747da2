"""A case of the conformance suite as a .pte, and its goldens through one loaded Method."""

from __future__ import annotations

import json
import operator
import warnings
from pathlib import Path

import numpy as np
import torch
from liveshape.golden import load as load_golden
from liveshape.testing import EXPORTS, Case

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.backend.utils import get_delegates, get_non_lowered_nodes
    from executorch.runtime import Runtime
    from liveshape.executorch import LiveshapePartitioner


def lower(programs, **options):
    """An EdgeProgramManager with what LiveshapePartitioner(**options) takes delegated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_edge_transform_and_lower(programs, partitioner=[LiveshapePartitioner(**options)])


def outside(edge, method="forward") -> list[str]:
    """Nodes that ExecuTorch itself would run, by name of their op. Taking one of several results is
    none."""
    nodes = get_non_lowered_nodes(edge.exported_program(method).graph)
    return [str(n.target) for n in nodes if n.target is not operator.getitem]


def parts(edge, method="forward") -> int:
    return len(get_delegates(edge.exported_program(method).graph))


def save(edge, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge.to_executorch().save(str(path))
    return path


def load(path: Path, method="forward"):
    """A freshly loaded Method, with its own states."""
    return Runtime.get().load_program(str(path)).load_method(method)


def exported(case: Case):
    return torch.export.load(str(EXPORTS / case.name / "model.pt2"))


def golden(case: Case) -> dict:
    return json.loads((EXPORTS / case.name / "golden" / "golden.json").read_text())


def check_step(method, case: Case, step: dict, tolerance: float) -> None:
    folder = EXPORTS / case.name / "golden"
    # numpy gives an empty array other strides than torch does, and ExecuTorch aborts on them.
    inputs = [
        torch.empty_like(t).copy_(t) if t.numel() else torch.empty(t.shape, dtype=t.dtype)
        for t in (load_golden(folder, entry) for entry in step["inputs"])
    ]
    results = method.execute(inputs)
    assert len(results) == len(step["outputs"]), step["shape"]
    for entry, result in zip(step["outputs"], results, strict=True):
        check_close(result, load_golden(folder, entry), tolerance, f"{step['shape']} {entry}")


def check_close(result: torch.Tensor, want: torch.Tensor, tolerance: float, where: str) -> None:
    """As `verify` does: shapes and integers exactly, floats relative to the largest, NaN as NaN."""
    assert result.shape == want.shape, f"{where}: shape {tuple(result.shape)}"
    assert result.dtype == want.dtype, f"{where}: {result.dtype}"
    if not want.dtype.is_floating_point:
        assert torch.equal(result, want), where
        return
    got, expected = result.double().numpy(), want.double().numpy()
    assert np.array_equal(np.isnan(got), np.isnan(expected)), f"{where}: NaN"
    finite = ~np.isnan(expected)
    if not finite.any():
        return
    with np.errstate(invalid="ignore"):
        difference = np.where(got == expected, 0.0, np.abs(got - expected))[finite].max()
    largest = np.abs(expected[finite & np.isfinite(expected)]).max(initial=1.0)
    assert difference <= tolerance * max(1.0, largest), f"{where}: {difference}"
