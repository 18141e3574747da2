"""compile --quant of nothing, and of what has no scale; the formula on known numbers."""

import json
import os
import subprocess
from pathlib import Path

import liveshape
import pytest
import torch
from liveshape.quantise import dequantised, quantised_weights
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


class Readers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        names = ["linear", "product", "both", "shown", "tied", "vector"]
        for name in names:
            setattr(self, name, torch.nn.Parameter(torch.randn(8, 8)))
        self.embedding = torch.nn.Embedding(8, 8)
        self.embedding.weight = self.tied
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, ids):
        y = torch.nn.functional.linear(x, self.linear) @ self.product
        y = torch.nn.functional.linear(y, self.both) @ self.both  # two K: stays as it is
        y = torch.nn.functional.linear(y, self.shown)  # an output too
        y = torch.nn.functional.linear(y, self.tied) + self.embedding(ids) + self.vector[0]
        return self.attention(y, y, y, need_weights=False)[0], self.shown


@pytest.mark.parametrize("decompose", [False, True])
def test_the_same_weights_as_compile_takes(decompose, tmp_path):
    S = torch.export.Dim("S", min=0, max=64)
    inputs = (torch.randn(3, 5, 8), torch.arange(5))
    ep = torch.export.export(Readers(), inputs, dynamic_shapes=({1: S}, {0: S}))
    ep = ep.run_decompositions() if decompose else ep
    liveshape.save(ep, tmp_path / "model.pt2")
    command = [CLI, "compile", tmp_path / "model.pt2", "-o", tmp_path / "model.live"]
    done = subprocess.run([*command, "--quant", "q8", "--json"], capture_output=True, timeout=60)
    taken = {weight["name"] for weight in json.loads(done.stdout)["quantised"]["weights"]}
    ours = quantised_weights(ep)
    assert {name: ours[name] for name in ("linear", "product")} == {"linear": 1, "product": 0}
    assert (
        taken
        == set(ours) - {"embedding.weight"}
        == {
            *("linear", "product", "tied"),
            *("attention.in_proj_weight", "attention.out_proj.weight"),
        }
    )


def test_formula():
    weight = torch.tensor([[7, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.49, 3.51, *[0] * 23, 1e-9]])
    expected = torch.tensor([[7, 0, 2, 2, 0, -2, -2, 3, 4, *[0] * 23, 0]])
    assert torch.equal(dequantised(weight, "q4"), expected.float())
    assert torch.equal(dequantised(weight.T, "q4", 0), expected.float().T)
    assert torch.equal(dequantised(weight / 7 * 127, "q8")[0, 0], torch.tensor(127.0))
