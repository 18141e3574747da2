"""`liveshape.verify`: does the artifact compute what the eager model does, at every live shape?"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from liveshape.session import Artifact

TOLERANCE = 1e-5

Point = dict[str, int]


@dataclass(frozen=True)
class Row:
    """One live shape in one session; `why` says what is wrong."""

    point: Point
    session: str  # "fresh" or "reused"
    max_abs_diff: float
    allowed: float
    why: str = ""

    @property
    def ok(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class Verification:
    """What `verify` saw. `ok` if every row is; str() is the table."""

    rows: list[Row] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return bool(self.rows) and all(row.ok for row in self.rows)

    @property
    def max_abs_diff(self) -> float:
        return max((row.max_abs_diff for row in self.rows), default=0.0)

    def __str__(self) -> str:
        cells = [("live shape", "session", "max abs diff", "allowed", "verdict")]
        for row in self.rows:
            shape = " ".join(f"{name}={value}" for name, value in row.point.items()) or "static"
            diff, allowed = f"{row.max_abs_diff:.2e}", f"{row.allowed:.2e}"
            cells.append((shape, row.session, diff, allowed, row.why or "ok"))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            "  ".join(f"{c:{w}}" for c, w in zip(line, widths, strict=True)).rstrip()
            for line in cells
        )


def verify(
    model: Any,
    artifact: Artifact,
    sweep: Sequence[Point],
    *,
    inputs: Callable[[Point], Sequence[Any]] | None = None,
    ints: Mapping[str, tuple[int, int]] | None = None,
    tolerance: float = TOLERANCE,
    backend: str = "cpu",
    show: bool = True,
) -> Verification:
    """Run the eager model and the artifact at every point, and compare.

    >>> S = torch.export.Dim("S", min=1, max=128)
    >>> model = torch.nn.Linear(8, 4)
    >>> artifact = liveshape.export(model, (torch.randn(3, 8),), dynamic_shapes=({0: S},))
    >>> result = liveshape.verify(model, artifact, [{"S": n} for n in (1, 17, 128)], show=False)
    >>> result.ok, len(result.rows)
    (True, 8)

    Each point runs in a fresh session, and all of them in one session from the largest to the
    smallest and back; both must agree with torch (max|a-b| <= tolerance * max(1, max|b|), integers
    exactly) and with each other, bit for bit. `inputs(point)` makes the inputs of a point in the
    artifact's order; without it they are random, integers within `ints`: {"tokens": (0, 255)}. The
    eager model is copied for each point, so that states begin anew. A table is printed unless
    show=False.
    """
    points = sorted(sweep, key=lambda p: [-value for value in p.values()])
    data = {_key(p): _inputs(artifact, p, inputs, ints or {}) for p in points}
    wanted = {key: _eager(model, artifact, values) for key, values in data.items()}
    fresh = {key: artifact.session(backend).run(values) for key, values in data.items()}
    reused = artifact.session(backend)
    rows = [_row(p, "fresh", fresh[_key(p)], wanted[_key(p)], tolerance) for p in points]
    for point in [*points, *reversed(points[:-1])]:
        key = _key(point)
        reused.states.reset()
        results = reused.run(data[key])
        row = _row(point, "reused", results, wanted[key], tolerance)
        if row.ok and not all(map(_same_bits, results, fresh[key])):
            row = Row(point, "reused", row.max_abs_diff, row.allowed, "differs from fresh")
        rows.append(row)
    result = Verification(rows)
    if show:
        print(result)
    return result


def _key(point: Point) -> tuple:
    return tuple(sorted(point.items()))


def _inputs(artifact: Artifact, point: Point, make: Any, ints: Mapping) -> list[Any]:
    import torch

    if make is not None:
        return list(make(point))
    values = artifact.core.random_inputs(point, dict(ints))
    return [value if isinstance(value, int) else torch.from_dlpack(value) for value in values]


def _eager(model: Any, artifact: Artifact, values: Sequence[Any]) -> list[Any]:
    """By keyword where `forward` has the inputs' names, else by position."""
    import torch
    from torch.utils import _pytree

    own = copy.deepcopy(model)
    names = [port.name for port in artifact.inputs]
    try:
        known = set(inspect.signature(own.forward).parameters)
    except (AttributeError, TypeError, ValueError):
        known = set()
    # In-place models must not write to what the artifact will read.
    values = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
    with torch.no_grad():
        if set(names) <= known:
            result = own(**dict(zip(names, values, strict=True)))
        else:
            result = own(*values)
    leaves = [leaf for leaf in _pytree.tree_leaves(result) if leaf is not None]
    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves]


def _row(
    point: Point, session: str, got: Sequence[Any], want: Sequence[Any], tolerance: float
) -> Row:
    diff, allowed, why = 0.0, tolerance, ""
    if len(got) != len(want):
        why = f"{len(got)} outputs, torch has {len(want)}"
    for i, (a, b) in enumerate(zip(got, want, strict=False)):
        seen, limit, wrong = _compare(a, b, tolerance)
        diff, allowed = max(diff, seen), max(allowed, limit)
        if wrong and not why:
            why = f"output {i}: {wrong}"
    return Row(point, session, diff, allowed, why)


def _compare(a: Any, b: Any, tolerance: float) -> tuple[float, float, str]:
    """(largest difference, the allowed one, what is wrong). NaN matches NaN."""
    import torch

    a, b = torch.as_tensor(a), torch.as_tensor(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return 0.0, tolerance, f"{a.dtype}{list(a.shape)}, torch has {b.dtype}{list(b.shape)}"
    if not b.is_floating_point():
        return 0.0, tolerance, "" if torch.equal(a, b) else "differs"
    if b.numel() == 0:
        return 0.0, tolerance, ""
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    diff = torch.where(same, 0.0, (a - b).abs()).max().item()
    scale = b[b.isfinite()].abs().max().item() if b.isfinite().any() else 0.0
    limit = tolerance * max(1.0, scale)
    return diff, limit, "" if diff <= limit else "differs"


def _same_bits(a: Any, b: Any) -> bool:
    import torch

    a, b = torch.as_tensor(a).contiguous(), torch.as_tensor(b).contiguous()
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
