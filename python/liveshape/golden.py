"""Goldens: what torch computes at every shape of a sweep, as .npy files that `verify` reads.

    python -m liveshape.golden model.pt2 --sweep S=1,16,128 --sweep B=1,8 -o golden
    python -m liveshape.golden model.pt2 --sweep "S=4,B=2;S=8,B=1" --int ids=0:255 -o golden
    python -m liveshape.golden model.pt2 --sweep S=8 --inputs steps.py:make -o golden

golden.json: {"version", "model", "tolerance", "points": [{"shape", "steps": [{"shape",
"inputs": [{"name", "file"}], "outputs": [{"name", "file"}]}]}]}. States are as the archive has
them at the start of a point and live on through its steps. Within tolerance means
max|a-b| <= tolerance * max(1, max|b|); NaN matches NaN; integers and bools match exactly.
bfloat16 has no .npy type: it is stored as uint16 with "dtype": "bfloat16" in its entry.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from liveshape.program import Program
from liveshape.symbols import ShapeError

VERSION = 1
TOLERANCE = 1e-5

Point = dict[str, int]
Step = Mapping[str, Any]
Maker = Callable[[Point, torch.Generator], "Step | Sequence[Step]"]


def parse_sweeps(sweeps: Sequence[str]) -> list[Point]:
    """`S=1,2` lists values, `S=4,B=2;S=8,B=1` lists points; several sweeps multiply."""
    axes = [_parse_sweep(text) for text in sweeps]
    points = []
    for choice in itertools.product(*axes):
        point: Point = {}
        for part in choice:
            if twice := set(point) & set(part):
                raise ShapeError(f"--sweep gives `{sorted(twice)[0]}` twice")
            point.update(part)
        points.append(point)
    return points


def _parse_sweep(text: str) -> list[Point]:
    groups = [group.split(",") for group in text.split(";") if group.strip()]
    if len(groups) == 1 and all("=" not in value for value in groups[0][1:]):
        name, _, first = groups[0][0].partition("=")
        groups = [[f"{name}={value}"] for value in (first, *groups[0][1:])]
    return [dict(_parse_assignment(text, item) for item in group) for group in groups]


def _parse_assignment(text: str, item: str) -> tuple[str, int]:
    name, _, value = item.partition("=")
    try:
        if name.strip():
            return name.strip(), int(value)
    except ValueError:
        pass
    raise ShapeError(
        f"--sweep {text!r}: {item!r} is not NAME=INTEGER (write S=1,2 or 'S=1,B=2;S=4,B=1')"
    )


def random_inputs(
    program: Program, point: Point, rng: torch.Generator, ints: Mapping[str, tuple[int, int]]
) -> Step:
    """Normal floats, uniform integers within `ints`, coin-flip bools, at the point's shapes."""
    table = program.table
    step = {}
    for name, shape in table.shapes(table.solve(point)).items():
        meta = table.inputs[name]
        if isinstance(shape, int):
            step[name] = torch.tensor(shape)
        elif meta.dtype.is_floating_point:
            step[name] = torch.randn(shape, generator=rng).to(meta.dtype)
        elif meta.dtype == torch.bool:
            step[name] = torch.randint(0, 2, shape, generator=rng).bool()
        elif name in ints:
            low, high = ints[name]
            step[name] = torch.randint(low, high + 1, shape, generator=rng).to(meta.dtype)
        else:
            raise ShapeError(
                f"input `{name}` is {meta.dtype}: give its range, --int {name}=LOW:HIGH"
            )
    return step


def write_goldens(
    model: str | os.PathLike[str],
    points: Sequence[Point],
    out: str | os.PathLike[str],
    *,
    make: Maker | None = None,
    ints: Mapping[str, tuple[int, int]] | None = None,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    reload: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> None:
    """Run every point on a freshly loaded archive and write the golden directory `out`.

    reload=False resets the states of one loaded archive instead; loading is most of the time.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        entries = []
        program = Program(model)
        for number, point in enumerate(points):
            progress(f"[{number + 1}/{len(points)}] {_spell(point)}")
            if number and reload:
                program = Program(model)
            program.reset()
            # One seed for all points: a point's data does not depend on its neighbours.
            rng = torch.Generator().manual_seed(seed)
            made = make(point, rng) if make else random_inputs(program, point, rng, ints or {})
            steps = [made] if isinstance(made, Mapping) else list(made)
            done = [_run_step(program, s, scratch, f"{number}/{i}") for i, s in enumerate(steps)]
            entries.append({"shape": done[0]["shape"] if done else point, "steps": done})
        golden = {"version": VERSION, "model": Path(model).stem, "tolerance": tolerance}
        (scratch / "golden.json").write_text(json.dumps({**golden, "points": entries}, indent=1))
        scratch.chmod(0o755)
        _replace_directory(scratch, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_step(program: Program, step: Step, root: Path, folder: str) -> dict:
    table = program.table
    shape = table.named(table.solve_inputs(step))
    (root / folder).mkdir(parents=True)
    inputs = [
        _store(root, f"{folder}/in_{i:02d}_{name}.npy", name, torch.as_tensor(step[name]))
        for i, name in enumerate(table.inputs)
    ]
    outputs = [
        _store(root, f"{folder}/out_{i:02d}.npy", name, value)
        for i, (name, value) in enumerate(program.run(step))
    ]
    return {"shape": shape, "inputs": inputs, "outputs": outputs}


def _store(root: Path, file: str, name: str, value: torch.Tensor) -> dict:
    entry = {"name": name, "file": file}
    value = value.detach().contiguous()
    if value.dtype == torch.bfloat16:
        entry["dtype"] = "bfloat16"
        value = value.view(torch.uint16)
    np.save(root / file, value.numpy())
    return entry


def load(root: str | os.PathLike[str], entry: Mapping[str, str]) -> torch.Tensor:
    """The tensor of one entry of golden.json."""
    value = torch.from_numpy(np.load(Path(root) / entry["file"], allow_pickle=False))
    return value.view(torch.bfloat16) if entry.get("dtype") == "bfloat16" else value


def _replace_directory(fresh: Path, target: Path) -> None:
    """Rename `fresh` to `target`; what stood there is moved aside first, then dropped."""
    if target.exists():
        if not (target / "golden.json").exists() and any(target.iterdir()):
            raise ShapeError(f"{target} exists and is not a golden directory; not replacing it")
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        os.replace(target, aside / "old")
        os.replace(fresh, target)
        shutil.rmtree(aside)
    else:
        os.replace(fresh, target)


def _spell(point: Point) -> str:
    return " ".join(f"{name}={value}" for name, value in point.items()) or "static"


def _parse_int(text: str) -> tuple[str, tuple[int, int]]:
    name, _, span = text.partition("=")
    low, colon, high = span.partition(":")
    try:
        bounds = (int(low), int(high))
    except ValueError:
        bounds = None
    if not (name and colon and bounds) or bounds[0] > bounds[1]:
        raise ShapeError(f"--int {text!r}: want NAME=LOW:HIGH, both inclusive")
    return name, bounds


def _load_maker(text: str) -> Maker:
    file, _, function = text.rpartition(":")
    if not file or not Path(file).is_file():
        raise ShapeError(f"--inputs {text!r}: want FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(maker := getattr(module, function, None)):
        raise ShapeError(f"--inputs: {file} has no function `{function}`")
    return maker


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="liveshape.golden",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="a .pt2 of torch.export.save or liveshape.save")
    parser.add_argument("--sweep", action="append", default=[], metavar="S=1,2")
    parser.add_argument("--inputs", metavar="FILE.py:MAKE", help="make(point, rng) -> step(s)")
    parser.add_argument("--int", action="append", default=[], metavar="NAME=LOW:HIGH", dest="ints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("-o", "--out", required=True, metavar="DIR")
    args = parser.parse_args(argv)
    try:
        if not Path(args.model).is_file():
            raise ShapeError(f"{args.model}: no such file")
        write_goldens(
            args.model,
            parse_sweeps(args.sweep),
            args.out,
            make=_load_maker(args.inputs) if args.inputs else None,
            ints=dict(_parse_int(text) for text in args.ints),
            seed=args.seed,
            tolerance=args.tolerance,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except ShapeError as error:
        print(f"golden: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
