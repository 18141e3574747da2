"""compile --quant of nothing, and of what has no scale; the formula on known numbers."""

import os
import subprocess
from pathlib import Path

import liveshape
import torch
from liveshape.quantise import dequantised
from liveshape.testing import ROOT

BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))


def quantise(model, folder):
    ep = torch.export.export(model, (torch.randn(3, 8),))
    liveshape.save(ep, folder / "model.pt2")
    command = [CLI, "compile", folder / "model.pt2", "-o", folder / "model.live", "--quant", "q4"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_to_quantise(tmp_path):
    done = quantise(torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.ReLU()), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "q4: nothing was quantised" in done.stdout


def test_weights_that_are_not_finite_are_named(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 5))
    with torch.no_grad():
        model[0].weight[2, 6] = float("inf")
    done = quantise(model, tmp_path)
    assert done.returncode == 2, done.stdout
    assert "constant `0.weight` cannot be quantised" in done.stderr
    assert "element [2, 6] is inf" in done.stderr
    assert not (tmp_path / "model.live").exists()


def test_formula():
    weight = torch.tensor([[7, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.49, 3.51, *[0] * 23, 1e-9]])
    expected = torch.tensor([[7, 0, 2, 2, 0, -2, -2, 3, 4, *[0] * 23, 0]])
    assert torch.equal(dequantised(weight, "q4"), expected.float())
    assert torch.equal(dequantised(weight.T, "q4", 0), expected.float().T)
    assert torch.equal(dequantised(weight / 7 * 127, "q8")[0, 0], torch.tensor(127.0))
