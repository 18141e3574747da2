"""Arguments that torch would never export are refused at compile, soon and with the node named."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from pt2_programs import Fn, R
from test_pt2_refusals import MODEL, edit_json, rewritten

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))
MANY = 1 << 62


def split(x):
    return x.tensor_split(3, 1)


def norm(x):
    return torch.nn.functional.layer_norm(x, (6,))


# The program, the argument of its first node, the value it gets, what is said of it.
EDITS = {
    "diff": (lambda x: x.diff(n=2), "n", {"as_int": MANY}, f"{MANY} differences"),
    "chunk": (lambda x: x.chunk(2, 0), "chunks", {"as_int": MANY}, f"{MANY} pieces"),
    "tensor_split": (split, "sections", {"as_int": MANY}, f"{MANY} pieces"),
    "roll": (
        lambda x: x.roll((1, 2), (0, 1)),
        "dims",
        {"as_ints": [7, 1]},
        "dim 7 is out of range",
    ),
    "movedim": (
        lambda x: x[None].movedim((0, 1), (1, 2)),
        "destination",
        {"as_ints": [1, 1]},
        "is named twice",
    ),
    "flip": (lambda x: x.flip(0, 1), "dims", {"as_ints": [1, -1]}, "dim -1 is named twice"),
    "layer_norm": (norm, "normalized_shape", {"as_ints": [5]}, "normalized_shape has 5"),
}


def edited(function, edit, folder):
    """The program of one live dim, with its JSON changed."""
    dims = ({0: torch.export.Dim.AUTO(max=64)},)
    program = torch.export.export(Fn(function), (R(8, 6),), dynamic_shapes=(dims,))
    torch.export.save(program, folder / "m.pt2")
    return rewritten(folder / "m.pt2", folder / "edited.pt2", edit_json(MODEL, edit))


def inputs_of(model):
    return [i for n in model["graph_module"]["graph"]["nodes"] for i in n["inputs"]]


def cli(*arguments):
    return subprocess.run([CLI, *arguments], capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("name", EDITS)
def test_is_refused(name, tmp_path):
    function, argument, value, message = EDITS[name]

    def edit(model):
        (found,) = (i for i in inputs_of(model) if i["name"] == argument)
        assert set(found["arg"]) == set(value)
        found["arg"] = value

    done = cli("compile", edited(function, edit, tmp_path), "-o", tmp_path / "m.live")
    assert done.returncode == 2, done.stderr
    assert f"node `{name}" in done.stderr and message in done.stderr, done.stderr


def test_an_argument_is_given_once(tmp_path):
    def edit(model):
        inputs = model["graph_module"]["graph"]["nodes"][0]["inputs"]
        inputs.append({**inputs[1], "arg": {"as_int": 1}})

    bad = edited(lambda x: x.cumsum(0), edit, tmp_path)
    done = cli("compile", bad, "-o", tmp_path / "m.live")
    assert done.returncode == 2 and "argument `dim` is given twice" in done.stderr, done.stderr


def test_a_far_diagonal_keeps_all(tmp_path):
    """`row + diagonal` would be beyond an int64."""

    def edit(model):
        (found,) = (i for i in inputs_of(model) if i["name"] == "diagonal")
        found["arg"] = {"as_int": 2**63 - 1}

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    np.save(tmp_path / "x.npy", x)
    far, live = edited(lambda x: x.tril(1), edit, tmp_path), tmp_path / "m.live"
    assert cli("compile", far, "-o", live).returncode == 0
    run = cli("run", live, "--input", f"args_0={tmp_path / 'x.npy'}", "--out", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    (out,) = (tmp_path / "out").glob("*.npy")
    assert np.array_equal(np.load(out), x)
