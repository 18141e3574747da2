"""Indices outside their range: the run fails, naming the node, where torch raises; only there."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))
SIZE = 5
OPS = {
    "index": lambda x, i: x[i],
    "index_put": lambda x, i: x.index_put((i,), x[:2] * 0),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[:, None], x[:2]),
    "scatter_value": lambda x, i: x.scatter(0, i[:, None], 7.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:2]),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "one_hot": lambda x, i: (x, torch.nn.functional.one_hot(i, SIZE)),
}


class Module(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x, i):
        return self.op(x, i)


def cli(*arguments):
    command = [CLI, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", OPS)
def test_fails_where_torch_raises(name, tmp_path):
    module, x = Module(OPS[name]), torch.randn(SIZE, 3)
    program = torch.export.export(module, (x, torch.tensor([0, 1])))
    torch.export.save(program, tmp_path / "m.pt2")
    done = cli("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.live")
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "x.npy", x.numpy())
    outcomes = set()
    for at in (0, SIZE - 1, -1, -SIZE, -SIZE - 1, SIZE, 2**40, -(2**40)):
        index = torch.tensor([2, at])
        np.save(tmp_path / "i.npy", index.numpy())
        try:
            wanted = module(x, index)
        except (IndexError, RuntimeError):
            wanted = None
        outcomes.add(wanted is None)
        files = [f"--input=x={tmp_path / 'x.npy'}", f"--input=i={tmp_path / 'i.npy'}"]
        run = cli("run", tmp_path / "m.live", *files, "--out", tmp_path / "out")
        if wanted is None:
            assert run.returncode == 2, (at, run.stdout)
            assert "node `" in run.stderr and str(at) in run.stderr, (at, run.stderr)
        else:
            assert run.returncode == 0, (at, run.stderr)
            last = wanted[-1] if isinstance(wanted, tuple) else wanted
            saved = sorted((tmp_path / "out").glob("*.npy"))[-1]
            assert np.array_equal(np.load(saved), last.numpy()), at
    assert outcomes == {True, False}
