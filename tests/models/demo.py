"""The bundled demo model, at single shapes and through its walk on living states."""

import importlib.util
import sys
from pathlib import Path

import torch
from liveshape.testing import Case

MAKER = Path(__file__).resolve().parents[2] / "models" / "demo" / "make_demo.py"
_spec = importlib.util.spec_from_file_location("make_demo", MAKER)
make_demo = sys.modules["make_demo"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_demo)


def steps(point, rng):
    """Point {} is the bundled walk; any other one is a single prefill at that shape."""
    if not point:
        return make_demo.walk(point, rng)
    tokens = torch.randint(0, make_demo.VOCAB, (point["B"], point["S"]), generator=rng)
    return {"tokens": tokens, "pos": torch.tensor(point["P"])}


CASES = [
    Case(
        "demo",
        make_demo.Demo,
        sweep=[{}, {"B": 4, "S": 127, "P": 0}, {"B": 1, "S": 1, "P": 0}, {"B": 2, "S": 9, "P": 0}],
        make=steps,
        export=lambda model: make_demo.export(model),
        names=make_demo.NAMES,
        covers="G4 W5 S",
        eager=False,
    ),
]
