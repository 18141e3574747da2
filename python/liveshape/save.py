"""`liveshape.save`: torch.export.save, plus the Dim names that torch forgets.

    S = torch.export.Dim("S", min=1, max=128)
    shapes = {"x": {0: S}}
    ep = torch.export.export(model, (x,), dynamic_shapes=shapes)
    liveshape.save(ep, "model.pt2", names=shapes)        # or names={"x.0": "S"}

The names go into the archive as extra/liveshape.json, so that every tool and every message can
say `S` where torch says `s77`. An archive without that member still loads everywhere.

`weights=False` leaves the bytes of parameters out (a few MB whatever the model), to measure it
where its weights cannot be brought: `liveshape compile --random-weights SEED` makes some up.
Buffers stay, and parameters that share a storage still do.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = 1


def save(ep: Any, path: str | os.PathLike[str], names: Any = None, *, weights: bool = True) -> None:
    """Save `ep` at `path`. `names`: the dynamic_shapes of the export, or {"input.dim": name}."""
    import torch

    from liveshape.symbols import NAMES_FILE

    path = Path(path)
    description = describe(ep, names)
    if not weights:
        _check_ties_are_known(ep)
        description["weights_dropped"] = True
    extra = {NAMES_FILE: json.dumps(description, indent=1)}
    # torch names the archive's root folder after the file, so the temporary name is a folder's.
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        saved = scratch / path.name
        torch.export.save(ep, str(saved), extra_files=extra)
        if not weights:
            whole = saved.rename(scratch / "whole")
            _drop_parameters(whole, saved)
        os.replace(saved, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_ties_are_known(ep: Any) -> None:
    """torch gives all tensors without memory one storage: nothing tells then which are tied."""
    for name, tensor in ep.state_dict.items():
        if tensor.device.type == "meta" or type(tensor).__name__ == "FakeTensor":
            raise ValueError(
                f"weights=False: `{name}` is on the meta device, where ties are not known;"
                ' give it memory first: model.to_empty(device="cpu"), then set the buffers'
            )


def _drop_parameters(whole: Path, to: Path) -> None:
    """Copy an archive; storages that parameters alone use become empty files."""
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(to, "w") as out:
        members = source.infolist()
        folder = members[0].filename.split("/")[0] + "/data/weights/"
        kept, dropped = set(), set()
        for member in members:
            if member.filename.startswith(folder) and member.filename.endswith("_config.json"):
                for entry in json.loads(source.read(member))["config"].values():
                    (dropped if entry["is_param"] else kept).add(folder + entry["path_name"])
        for member in members:
            copy = zipfile.ZipInfo(member.filename, member.date_time)
            # A mapped tensor must be aligned, as torch aligns it; an extra field is (id, size).
            start = out.fp.tell() + 30 + len(member.filename.encode())
            padding = -(start + 4) % 64
            copy.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            gone = member.filename in dropped - kept
            out.writestr(copy, b"" if gone else source.read(member))


def describe(ep: Any, names: Any = None) -> dict:
    """The content of extra/liveshape.json: Dim names by torch symbol, and the inputs in them."""
    import sympy

    from liveshape.symbols import SymbolTable, as_expr

    table = SymbolTable(ep)
    symbols: dict[str, str] = {}
    for place, dim_name in _places(ep, names):
        expr = next((e.expr for e in table.entries if e.place == place), None)
        if expr is None:
            known = ", ".join(e.place for e in table.entries)
            raise ValueError(f"names: nothing enters at `{place}`; places: {known}")
        _record(symbols, place, expr, dim_name)
    spell = {s: sympy.Symbol(symbols.get(str(s), str(s))) for s in table.symbols}

    def size(value: Any) -> int | str:
        expr = as_expr(value).xreplace(spell)
        return int(expr) if expr.is_Integer else str(expr)

    inputs = [
        {"name": name, "shape": [size(s) for s in value.shape]}
        if hasattr(value, "shape")
        else {"name": name, "value": size(value)}
        for name, value in table.inputs.items()
    ]
    return {"version": VERSION, "symbols": symbols, "inputs": inputs}


def _record(symbols: dict[str, str], place: str, expr: Any, dim_name: str) -> None:
    free = sorted(str(s) for s in expr.free_symbols)
    if not free:
        return  # torch specialised this dim; there is no symbol left to name
    if len(free) > 1:
        raise ValueError(
            f"names: `{place}` is {expr}, of several symbols; name each where it enters"
        )
    (symbol,) = free
    if symbols.setdefault(symbol, dim_name) != dim_name:
        raise ValueError(
            f"names: {symbol} enters at `{place}` as {dim_name}, elsewhere as {symbols[symbol]}"
            " (torch made the two Dims equal; give them one name)"
        )
    clash = [s for s, n in symbols.items() if n == dim_name and s != symbol]
    if clash:
        raise ValueError(f"names: {dim_name} would name both {clash[0]} and {symbol}")


def _places(ep: Any, names: Any) -> list[tuple[str, str]]:
    """(`input.dim`, Dim name) pairs out of either spelling of `names`."""
    if not names:
        return []
    if isinstance(names, Mapping) and all(isinstance(v, str) for v in names.values()):
        return list(names.items())
    spec = ep.call_spec.in_spec
    leaves = [
        arg.name if hasattr(arg := s.arg, "name") else None
        for s in ep.graph_signature.input_specs
        if s.kind.name == "USER_INPUT"
    ]
    args_spec, kwargs_spec = spec.children()
    children = [*args_spec.children(), *kwargs_spec.children()]
    if isinstance(names, Mapping):
        positional = ep.module_call_graph[0].signature.forward_arg_names or []
        keys = [*positional[: args_spec.num_children], *(kwargs_spec.context or [])]
        shapes = [names.get(key) for key in keys]
    else:
        shapes = list(names)
    found: list[tuple[str, str]] = []
    for child, shape in zip(children, shapes, strict=False):  # trailing inputs may be left out
        _walk(child, shape, leaves[: child.num_leaves], found)
        leaves = leaves[child.num_leaves :]
    return found


def _walk(spec: Any, shape: Any, leaves: list[str | None], found: list[tuple[str, str]]) -> None:
    """Walk the tree of an input and its dynamic_shapes side by side, down to Dims."""
    if shape is None:
        return
    if spec.is_leaf():
        _leaf(leaves[0], shape, found)
        return
    keys = list(spec.context) if isinstance(shape, Mapping) else range(spec.num_children)
    for key, child in zip(keys, spec.children(), strict=True):
        here, leaves = leaves[: child.num_leaves], leaves[child.num_leaves :]
        _walk(child, shape[key] if not isinstance(shape, Mapping) else shape.get(key), here, found)


def _leaf(name: str | None, shape: Any, found: list[tuple[str, str]]) -> None:
    if name is None:
        return
    if _dim_name(shape):  # an integer input
        found.append((name, _dim_name(shape)))
        return
    if isinstance(shape, Mapping):
        dims = list(shape.items())
    else:
        dims = list(enumerate(shape)) if isinstance(shape, (tuple, list)) else []
    found += [(f"{name}.{i}", dim) for i, d in dims if (dim := _dim_name(d))]


def _dim_name(dim: Any) -> str | None:
    """A Dim's name; that of its root where derived (2*S); None for AUTO, DYNAMIC, STATIC, ints."""
    import torch

    root = getattr(dim, "root", dim)
    return root.__name__ if isinstance(root, torch.export.Dim) else None
