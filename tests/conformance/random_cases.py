"""A random program as data, and how one is drawn: lines of random_ops.py over inputs and states."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from liveshape.testing import eval_dim
from random_ops import NAME, Draw, line

DTYPES = ("float32",) * 7 + ("float16", "bfloat16", "float64")
DTYPES += ("int64", "int64", "int64", "int32", "int8", "uint8", "bool", "bool")


@dataclass(frozen=True)
class Spec:
    """An input or a state. style: "plain", "ties" (few values), "special" (NaN, extremes, -0.0)."""

    dtype: str
    dims: tuple[int | str, ...]
    style: str = "plain"

    def make(self, sizes: dict[str, int], rng: torch.Generator) -> torch.Tensor:
        shape = [eval_dim(dim, sizes) for dim in self.dims]
        dtype = getattr(torch, self.dtype)
        few = torch.randint(-3, 4, shape, generator=rng)
        if dtype == torch.bool:
            return few > 0
        if self.style == "ties":
            return few.to(dtype)
        if dtype.is_floating_point:
            info, values = torch.finfo(dtype), torch.randn(shape, generator=rng).to(dtype)
            extremes = [float("nan"), float("inf"), -float("inf"), -0.0, info.tiny, 5e4, -3e3]
        else:
            info, values = torch.iinfo(dtype), (few * 5 + 1).to(dtype)
            extremes = [info.min, info.max, 0, info.max // 2 + 1]
        if self.style == "special":
            which = torch.randint(0, len(extremes), shape, generator=rng)
            rare = torch.rand(shape, generator=rng) < 0.25
            values = torch.where(rare, torch.tensor(extremes, dtype=dtype)[which], values)
        return values


@dataclass(frozen=True)
class Case:
    """A program; `lines` are (variable, expression)."""

    seed: int
    dims: dict[str, tuple[int, int]]
    inputs: dict[str, Spec]
    states: dict[str, Spec]
    lines: tuple[tuple[str, str], ...] = ()
    outputs: tuple[str, ...] = ()
    decompose: bool = False
    points: tuple[dict[str, int], ...] = ()

    def source(self) -> str:
        body = [f"{name} = self.{name}" for name in self.states]
        body += [f"{name} = {text}" for name, text in self.lines]
        body.append(f"return ({', '.join(self.outputs)},)")
        return f"def forward(self, {', '.join(self.inputs)}):\n    " + "\n    ".join(body) + "\n"

    def module(self) -> torch.nn.Module:
        scope: dict[str, Any] = {"torch": torch}
        exec(self.source(), scope)
        module = type("Drawn", (torch.nn.Module,), {"forward": scope["forward"]})()
        for name, value in self.initial().items():
            module.register_buffer(name, value)
        return module

    def initial(self) -> dict[str, torch.Tensor]:
        rng = torch.Generator().manual_seed(self.seed)
        return {name: spec.make({}, rng) for name, spec in self.states.items()}

    def example(self) -> dict[str, int]:
        """Distinct primes where the range has them."""
        primes = zip(self.dims.items(), (5, 7, 11), strict=False)
        return {name: min(prime, high) for (name, (_, high)), prime in primes}

    def values(self, point: dict[str, int], step: int = 0) -> dict[str, torch.Tensor]:
        rng = torch.Generator().manual_seed(self.seed * 8 + step)
        return {name: spec.make(point, rng) for name, spec in self.inputs.items()}

    def export(self) -> tuple[torch.export.ExportedProgram, Any]:
        dims = {n: torch.export.Dim(n, min=low, max=high) for n, (low, high) in self.dims.items()}
        shapes = {
            name: {i: eval_dim(d, dims) for i, d in enumerate(s.dims) if isinstance(d, str)}
            for name, s in self.inputs.items()
        }
        args = tuple(self.values(self.example()).values())
        program = torch.export.export(self.module(), args, dynamic_shapes=shapes)
        return (program.run_decompositions() if self.decompose else program), shapes

    def __str__(self) -> str:
        inputs = [f"{n}: {s.dtype}{list(s.dims)} {s.style}" for n, s in self.inputs.items()]
        states = [f"{n}: {s.dtype}{list(s.dims)} {s.style}" for n, s in self.states.items()]
        about = ["# " + "; ".join([*inputs, *states]), f"# dims {self.dims}, points {self.points}"]
        return "\n".join([*about, "# decomposed" if self.decompose else "# raw", self.source()])


def draw(seed: int, attempt: int = 0) -> Case:
    rng = random.Random(seed * 1000 + attempt)
    names = "STU"[: rng.choice((0, 1, 1, 2, 2, 3))]
    dims = {name: (rng.choice((0, 0, 1, 2)), rng.choice((8, 13, 24, 24, 70))) for name in names}
    base = [rng.choice((*names, *names, *names, 1, 2, 3, 4, 35)) for _ in range(rng.randint(1, 4))]

    def spec(shape: Sequence[int | str]) -> Spec:
        taken = shape[rng.randint(0, len(shape)) if rng.random() < 0.3 else 0 :]
        here = [1 if rng.random() < 0.15 else dim for dim in taken]
        if len(here) > 1 and rng.random() < 0.15:
            rng.shuffle(here)
        dtype = rng.choice(DTYPES)
        return Spec(dtype, tuple(here), rng.choice(("plain", "plain", "ties", "special")))

    inputs = {f"x{i}": spec(base) for i in range(rng.randint(1, 3))}
    used = {dim for s in inputs.values() for dim in s.dims}
    dims = {name: bounds for name, bounds in dims.items() if name in used}
    # A state has room for the bound; what is written there may be shorter.
    room = [dims.get(dim, (0, 3))[1] if isinstance(dim, str) else dim for dim in base]
    states = {f"s{i}": spec(room) for i in range(rng.choice((0, 0, 0, 1, 2)))}
    case = Case(seed, dims, inputs, states, decompose=rng.random() < 0.5)
    case = replace(case, points=_points(case, rng))
    lines = _lines(case, rng)
    later = [set(NAME.findall(text)) for _, text in lines]
    unread = [n for i, (n, _) in enumerate(lines) if not any(n in uses for uses in later[i + 1 :])]
    extra = [n for n, _ in lines if n not in unread and rng.random() < 0.15]
    return replace(case, lines=tuple(lines), outputs=(*extra, *unread))


def _points(case: Case, rng: random.Random) -> tuple[dict[str, int], ...]:
    """The bound, the smallest, and some between; 0 and 1 often."""
    points = [{n: high for n, (_, high) in case.dims.items()}, case.example()]
    for _ in range(3 if case.dims else 0):
        points.append(
            {
                n: max(low, rng.choice((0, 1, 2, rng.randint(low, high))))
                for n, (low, high) in case.dims.items()
            }
        )
    points.append({n: low for n, (low, _) in case.dims.items()})
    unique = [p for i, p in enumerate(points) if p not in points[:i]]
    return tuple(sorted(unique, key=lambda p: [-v for v in p.values()]))


def _lines(case: Case, rng: random.Random) -> list[tuple[str, str]]:
    """Drawn one by one; each has to work in torch at two live shapes."""
    drawing = Draw(rng)
    scopes = []
    for sizes in (case.example(), {n: max(low, 3) for n, (low, _) in case.dims.items()}):
        scopes.append({**case.values(sizes), **case.initial()})
    drawing.values = scopes[0]
    lines: list[tuple[str, str]] = []
    wanted = rng.randint(2, 10)
    for _ in range(200):
        if len(lines) == wanted:
            break
        name = f"v{len(lines)}"
        try:
            text = line(drawing)
            results = [_evaluate(text, scope) for scope in scopes]
        except (LookupError, RuntimeError, TypeError, ValueError, NotImplementedError):
            continue
        if all(map(_fits, results)):
            lines.append((name, text))
            for scope, result in zip(scopes, results, strict=True):
                scope[name] = result
    return lines


def _evaluate(text: str, scope: dict[str, torch.Tensor]) -> Any:
    before = {name: value._version for name, value in scope.items() if name[0] == "x"}
    result = eval(text, {"torch": torch, "max": max}, dict(scope))
    if any(scope[name]._version != version for name, version in before.items()):
        raise ValueError("writes to an input")
    return result


def _fits(value: Any) -> bool:
    served = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool)
    served += (torch.int64, torch.int32, torch.int8, torch.uint8)
    if not isinstance(value, torch.Tensor) or value.dtype not in served:
        return False
    return value.dim() <= 5 and value.numel() <= 20_000


def without(case: Case, name: str, instead: str) -> Case:
    """Line `name` dropped, `instead` read where it was."""
    swap = lambda text: NAME.sub(lambda m: instead if m[0] == name else m[0], text)  # noqa: E731
    lines = tuple((n, swap(text)) for n, text in case.lines if n != name)
    outputs = tuple(dict.fromkeys(map(swap, case.outputs)))
    return replace(case, lines=lines, outputs=outputs)


def pruned(case: Case) -> Case:
    """Without the lines that no output needs; one that writes in place stays."""
    needed, kept = set(case.outputs), []
    for name, text in reversed(case.lines):
        if name in needed or "_(" in text:
            kept.append((name, text))
            needed |= set(NAME.findall(text))
    states = {name: spec for name, spec in case.states.items() if name in needed}
    return replace(case, lines=tuple(reversed(kept)), states=states)
