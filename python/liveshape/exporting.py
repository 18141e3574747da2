"""`liveshape.export`: from a torch module to an artifact in one call."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from liveshape import _core
from liveshape.save import save
from liveshape.session import Artifact


class ExportError(ValueError):
    """torch refused the dynamic shapes; the message says which Dim, why, and how to say it."""


def export(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    bounds: Mapping[str, int] | None = None,
    mins: Mapping[str, int] | None = None,
    quant: str = "",
    strict: bool = False,
) -> Artifact:
    """Export `model` with torch.export and compile it.

    >>> S = torch.export.Dim("S", min=1, max=128)
    >>> model = torch.nn.Linear(8, 4)
    >>> artifact = liveshape.export(model, (torch.randn(3, 8),), dynamic_shapes=({0: S},))
    >>> artifact.symbols
    [Symbol(S in [1, 128])]

    `args`, `kwargs`, `dynamic_shapes` and `strict` are torch.export.export's; `model` may also be
    an ExportedProgram. Sizes are called by their Dim's name. `bounds` lowers a maximum, or sets one
    that the export left open, and `mins` replaces a minimum (torch's automatic Dims say 2, its
    operators serve 0 and 1): {"S": 4096}. `quant` is "q8" or "q4".

    >>> liveshape.export(model, (torch.randn(3, 8),), dynamic_shapes=({1: S},))
    Traceback (most recent call last):
    liveshape.exporting.ExportError: torch.export refused the dynamic shapes:
      Dim `S` (input dim 1): the model works at size 8 only; leave this dim out of dynamic_shapes
    """
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        program = model
    else:
        try:
            program = torch.export.export(
                model, tuple(args), kwargs, dynamic_shapes=dynamic_shapes, strict=strict
            )
        except torch._dynamo.exc.UserError as error:
            explained = explain(str(error), dict(_places(model, dynamic_shapes)))
            if explained is None:
                raise
            raise ExportError(explained) from error
    folder = tempfile.TemporaryDirectory(prefix="liveshape-")
    source, path = Path(folder.name) / "model.pt2", Path(folder.name) / "model.live"
    save(program, source, names=dynamic_shapes)
    report = _core.compile(
        str(source),
        str(path),
        bounds=dict(bounds or {}),
        mins=dict(mins or {}),
        quant=quant,
    )
    source.unlink()
    return Artifact(_core.Artifact.load(str(path)), path, report, owner=folder)


# What torch says, and what to do about it. A place is L['x'].size()[0].
PLACE = r"L\['(\w+)'\]\S*?\.size\(\)\[(\d+)\]"
SPECIALISED = re.compile(r"You marked (\S+) as dynamic but your code specialized it.*\((\d+)\)")
EQUAL = re.compile(rf"The values of (\S+) = ({PLACE}) and (\S+) = ({PLACE}) must always be equal")
RELATED = re.compile(
    rf"The values of (\S+) = ({PLACE}) must always be related .* by (\S+) = (.*?)\.?$"
)
GUARD = re.compile(
    rf"Not all values of (\S+) = ({PLACE}) in the specified range .* guard (.*?)\.?$"
)


def explain(message: str, places: Mapping[str, str]) -> str | None:
    """torch's refusal in the terms of the caller's Dims; None if it is about something else.

    `places`: where each Dim stands, as in {"S": "x dim 0"}.
    """
    if not message.startswith("Constraints violated"):
        return None
    head, _, suggested = message.partition("Suggested fixes:")
    lines = dict.fromkeys(
        text
        for line in head.splitlines()
        if (text := _explain_line(line.strip().removeprefix("- "), places))
    )
    fixes = [f.strip() for f in suggested.split("\n\n")[0].splitlines() if "Dim(" in f or "*" in f]
    if fixes:
        lines["as torch suggests: " + "; ".join(fixes)] = None
    return "\n  ".join(["torch.export refused the dynamic shapes:", *lines])


def _explain_line(line: str, places: Mapping[str, str]) -> str | None:
    def dim(name: str) -> str:
        if found := re.fullmatch(PLACE, name):
            return f"{found[1]} dim {found[2]}"
        return f"Dim `{name}` ({places[name]})" if name in places else f"Dim `{name}`"

    if found := SPECIALISED.match(line):
        name, size = found[1], found[2]
        if size == "1":
            return (
                f"{dim(name)}: the example has size 1 there, and torch fixes such a size; export "
                "with an example of 2 or more, or leave this dim out of dynamic_shapes if it is "
                "always 1 (as when it broadcasts)"
            )
        return (
            f"{dim(name)}: the model works at size {size} only; "
            "leave this dim out of dynamic_shapes"
        )
    if found := EQUAL.match(line):
        first, second = found[1], found[5]
        return f"{dim(first)} and {dim(second)} must be equal; use `{second}` in both places"
    if found := RELATED.match(line):
        return f"{dim(found[1])} is always {found[6]}; write `{found[6]}` in its place"
    if found := GUARD.match(line):
        name, place, guard = found[1], found[2], found[5]
        return f"{dim(name)} is not free: {guard.replace(place, name)} must hold"
    if line.startswith(("Constraints violated", "For more")) or not line:
        return None
    return line


def _places(model: Any, shapes: Any) -> Iterator[tuple[str, str]]:
    """(Dim name, "x dim 0"), as the arguments of `forward` are called."""
    import inspect

    if isinstance(shapes, Mapping):
        named = list(shapes.items())
    else:
        try:
            names = list(inspect.signature(model.forward).parameters)
        except (AttributeError, TypeError, ValueError):
            names = []
        names += [f"argument {i}" for i in range(len(names), len(shapes or ()))]
        named = list(zip(names, shapes or (), strict=False))
    for name, shape in named:
        yield from _walk(name, shape)


def _walk(where: str, shape: Any) -> Iterator[tuple[str, str]]:
    items = shape.items() if isinstance(shape, Mapping) else enumerate(shape or ())
    for key, value in items:
        if name := getattr(value, "__name__", ""):
            yield name, f"{where} dim {key}"
        elif isinstance(value, Mapping | list | tuple):
            yield from _walk(f"{where}[{key!r}]", value)
