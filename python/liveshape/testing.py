"""Cases as data, and the harness that gives them life.

    CASES = [
        Case("rms_norm", lambda: RMSNorm(64), {"x": f32("S", 64)}, dims={"S": (1, 128)},
             sweep=over(S=[128, 64, 8, 1]), covers="A B C"),
    ]

A case says what to export and at which live shapes to look; nothing here knows a backend.
`prepare` exports a case and takes its goldens from torch, once per (source, torch version).
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from liveshape.golden import TOLERANCE, Maker, Point, write_goldens
from liveshape.quantise import dequantise_weights
from liveshape.save import save
from liveshape.symbols import user_inputs

ROOT = Path(__file__).resolve().parents[2]
EXPORTS = ROOT / "build" / "exports"
MAKERS = (
    "golden",
    "program",
    "quantise",
    "save",
    "symbols",
    "testing",
)  # what an export depends on


@dataclass(frozen=True)
class Input:
    """A tensor input; dims are integers or expressions over the case's Dims, like "2*T"."""

    dims: tuple[int | str, ...]
    dtype: torch.dtype
    low: int = 0
    high: int = 1

    def example(self, sizes: Point) -> torch.Tensor:
        shape = [eval_dim(dim, sizes) for dim in self.dims]
        if self.dtype.is_floating_point:
            return torch.randn(shape).to(self.dtype)
        return torch.randint(self.low, self.high + 1, shape).to(self.dtype)

    def dynamic(self, dims: dict[str, Any]) -> dict[int, Any]:
        return {i: eval_dim(d, dims) for i, d in enumerate(self.dims) if isinstance(d, str)}


@dataclass(frozen=True)
class IntInput:
    """A Python integer input that stays a symbol (a SymInt of the graph)."""

    hint: int

    def example(self, sizes: Point) -> int:
        return self.hint

    def dynamic(self, dims: dict[str, Any]) -> Any:
        return torch.export.Dim.DYNAMIC


def f32(*dims: int | str) -> Input:
    return Input(dims, torch.float32)


def f16(*dims: int | str) -> Input:
    return Input(dims, torch.float16)


def bf16(*dims: int | str) -> Input:
    return Input(dims, torch.bfloat16)


def i64(*dims: int | str, low: int = 0, high: int = 255) -> Input:
    return Input(dims, torch.int64, low, high)


def i32(*dims: int | str, low: int = 0, high: int = 255) -> Input:
    return Input(dims, torch.int32, low, high)


def i8(*dims: int | str, low: int = -128, high: int = 127) -> Input:
    return Input(dims, torch.int8, low, high)


def u8(*dims: int | str, low: int = 0, high: int = 255) -> Input:
    return Input(dims, torch.uint8, low, high)


def boolean(*dims: int | str) -> Input:
    return Input(dims, torch.bool)


def eval_dim(dim: int | str, values: dict[str, Any]) -> Any:
    return dim if isinstance(dim, int) else eval(dim, {"__builtins__": {}}, dict(values))


def over(**values: Sequence[int]) -> list[Point]:
    """All combinations: over(S=[1, 2], B=[1, 8])."""
    return [
        dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())
    ]


@dataclass(frozen=True)
class Case:
    name: str
    module: Callable[[], torch.nn.Module]
    inputs: dict[str, Any] = field(default_factory=dict)  # argument name -> (nested) Input
    dims: dict[str, tuple[int, int]] = field(default_factory=dict)  # Dim name -> (min, max)
    sweep: Sequence[Point] = ({},)
    make: Maker | None = None  # inputs or steps of a point, where random ones will not do
    tolerance: float = TOLERANCE
    covers: str = ""  # identifiers of REQUIREMENTS.md
    decompose: bool = False  # run_decompositions() before saving
    strict: bool = False
    hints: bool = False  # Dim.DYNAMIC, not Dim: for graphs whose guards (e != 1) a Dim would refuse
    export: Callable[[torch.nn.Module], Any] | None = None  # where torch.export.export will not do
    names: Any = None  # Dim names, with `export`
    example: Point = field(default_factory=dict)  # sizes at export; primes unless told
    compile_args: tuple[str, ...] = ()  # further flags of `liveshape compile`
    quant: str = ""  # compile --quant; goldens are those of the dequantised weights
    eager: bool = True  # the module itself, run by torch, is valid at every point of the sweep
    source: str = ""  # the file it came from; set by `collect`

    def build(self) -> torch.nn.Module:
        torch.manual_seed(0)
        return self.module().eval()

    def exported(self) -> tuple[Any, Any]:
        """(ExportedProgram, names for liveshape.save)."""
        model = self.build()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.export:
                ep, names = self.export(model), self.names
            else:
                ep, names = self._export(model)
            return (ep.run_decompositions() if self.decompose else ep), names

    def _export(self, model: torch.nn.Module) -> tuple[Any, Any]:
        sizes = self.example_sizes()
        dims = {name: self._dim(name, *bounds) for name, bounds in self.dims.items()}
        examples = pytree.tree_map(lambda i: i.example(sizes), self.inputs, is_leaf=_is_input)
        shapes = pytree.tree_map(lambda i: i.dynamic(dims), self.inputs, is_leaf=_is_input)
        dynamic = shapes if dims or _ints(self) else None
        args = tuple(examples.values())
        ep = torch.export.export(model, args, dynamic_shapes=dynamic, strict=self.strict)
        return ep, self._places() if self.hints else shapes

    def _dim(self, name: str, low: int, high: int) -> Any:
        if self.hints:
            return torch.export.Dim.DYNAMIC(min=low, max=high)
        return torch.export.Dim(name, min=low, max=high)

    def _places(self) -> dict[str, str]:
        """Where each Dim enters: a hint has no name of its own to record."""
        tensors = [(name, i.dims) for name, i in self.inputs.items() if isinstance(i, Input)]
        return {f"{n}.{i}": d for n, dims in tensors for i, d in enumerate(dims) if d in self.dims}

    def compile_flags(self) -> list[str]:
        """Flags of `liveshape compile`. A hint exports with a minimum of 2, whatever was asked."""
        low = {name: bounds[0] for name, bounds in self.dims.items()} if self.hints else {}
        flags = [flag for n, m in low.items() if m < 2 for flag in ("--min", f"{n}={m}")]
        quant = ["--quant", self.quant] if self.quant else []
        return [*flags, *quant, *self.compile_args]

    def example_sizes(self) -> Point:
        """Distinct primes, so that no size equals another, or a constant, by chance."""
        primes = iter([5, 7, 11, 13, 17, 19, 23, *range(25, 2000, 2)])
        sizes = {}
        for name, (low, high) in self.dims.items():
            prime = next(primes)
            sizes[name] = self.example.get(name, prime if low <= prime <= high else high)
        return sizes

    def ranges(self, ep: Any) -> dict[str, tuple[int, int]]:
        """Integer ranges by placeholder name, for random inputs."""
        leaves = pytree.tree_leaves(self.inputs, is_leaf=_is_input)
        pairs = zip(user_inputs(ep), leaves, strict=bool(leaves))
        return {name: (i.low, i.high) for (name, _), i in pairs if isinstance(i, Input)}


def variants(case: Case, **choices: Sequence[tuple[str, Any]]) -> list[Case]:
    """Copies of a case: variants(c, decompose=[("raw", False), ("dec", True)])."""
    copies = []
    for choice in itertools.product(*choices.values()):
        suffix = "_".join(label for label, _ in choice)
        values = {key: value for key, (_, value) in zip(choices, choice, strict=True)}
        copies.append(replace(case, name=f"{case.name}_{suffix}", **values))
    return copies


RAW_AND_DECOMPOSED = [("raw", False), ("dec", True)]


def _is_input(node: Any) -> bool:
    return isinstance(node, (Input, IntInput))


def _ints(case: Case) -> bool:
    leaves = pytree.tree_leaves(case.inputs, is_leaf=_is_input)
    return any(isinstance(leaf, IntInput) for leaf in leaves)


@cache
def collect() -> dict[str, Case]:
    """Every case of src/ops/*/cases.py and tests/models/*.py, by name."""
    files = [*sorted(ROOT.glob("src/ops/*/cases.py")), *sorted(ROOT.glob("tests/models/*.py"))]
    cases: dict[str, Case] = {}
    for file in files:
        source = str(file.relative_to(ROOT))
        name = "cases_" + source.removesuffix(".py").replace("/", "_")
        spec = importlib.util.spec_from_file_location(name, file)
        module = sys.modules[name] = importlib.util.module_from_spec(
            spec
        )  # strict export looks here
        spec.loader.exec_module(module)
        for case in getattr(module, "CASES", []):
            if case.name in cases:
                raise ValueError(
                    f"two cases called {case.name}: {cases[case.name].source}, {source}"
                )
            cases[case.name] = replace(case, source=source)
    return cases


def prepare(case: Case) -> Path:
    """build/exports/<case>/ with model.pt2 and golden/, made anew only if its key changed."""
    folder = EXPORTS / case.name
    if fresh(case):
        return folder
    key = _key(case)  # of the source as it is now, lest an edit during the export goes unseen
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "key").unlink(missing_ok=True)
    ep, names = case.exported()
    save(ep, folder / "model.pt2", names=names)
    ints, tolerance = case.ranges(ep), case.tolerance
    answers = folder / "model.pt2"
    if case.quant:
        answers = folder / "dequantised.pt2"
        dequantise_weights(ep, case.quant)
        save(ep, answers, names=names)
    write_goldens(
        answers,
        case.sweep,
        folder / "golden",
        make=case.make,
        ints=ints,
        tolerance=tolerance,
        reload=False,
    )
    (folder / "key").write_text(key)
    return folder


def fresh(case: Case) -> bool:
    key = EXPORTS / case.name / "key"
    return key.exists() and key.read_text() == _key(case)


def _key(case: Case) -> str:
    """A case is as fresh as its file, this package and the libraries that export it."""
    versions = f"{torch.__version__} {version('transformers')} {case.name}"
    digest = hashlib.sha256(versions.encode())
    package = [Path(__file__).parent / f"{part}.py" for part in MAKERS]
    for file in [ROOT / case.source, *package]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def threads(count: int = 1) -> None:
    """Tests share two cores with each other; torch would take both for every tiny op."""
    os.environ.setdefault("OMP_NUM_THREADS", str(count))
    torch.set_num_threads(count)
