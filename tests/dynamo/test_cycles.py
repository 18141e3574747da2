"""Values and cycles of an NPU from torch.compile: one artifact and one lowering for all sizes."""

import json
import os
import subprocess
from pathlib import Path

import liveshape
import numpy as np
import pytest
import torch
from liveshape.dynamo import stats

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", ROOT / "build" / "release" / "liveshape")
EDGE = ROOT / "machines" / "edge.yaml"
SIZES = list(range(2, 52))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    layers = torch.nn.Linear(32, 80), torch.nn.GELU(), torch.nn.Linear(80, 16), torch.nn.Softmax(-1)
    return torch.nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def simulated(model, tmp_path_factory):
    """By size, of an artifact of the same model."""
    path = tmp_path_factory.mktemp("npu") / "model.live"
    shapes = ({0: torch.export.Dim("S", min=1, max=64)},)
    liveshape.export(model, (torch.randn(5, 32),), dynamic_shapes=shapes).save(path)
    sweep = "S=" + ",".join(map(str, SIZES))
    command = [CLI, "simulate", path, "--machine", EDGE, "--sweep", sweep, "--json"]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    runs = json.loads(done.stdout)["runs"]
    return path, {run["shape"]["S"]: run["cycles"] for run in runs}


def test_fifty_shapes_are_computed_and_timed_by_one_artifact(model, simulated):
    stats.reset()
    options = {"backend": "npu", "machine": EDGE, "bound": 64}
    compiled = torch.compile(model, backend="liveshape", dynamic=True, options=options)
    cycles = {}
    with torch.no_grad():
        for size in reversed(SIZES):
            x = torch.randn(size, 32)
            torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=1e-5)
            cycles[size] = stats.last_cycles
    assert (stats.artifacts, stats.rebuilds) == (1, 0) and not stats.eager
    assert cycles == simulated[1]
    assert stats.cycles == sum(cycles.values())


def test_a_session_tells_cycles(simulated):
    path, cycles = simulated
    session = liveshape.load(path, backend="npu", machine=EDGE)
    assert session.stats.cycles == 0
    for size in (51, 2, 51):
        session(np.ones((size, 32), np.float32))
        assert session.stats.cycles == cycles[size]


def test_a_machine_must_be_one(simulated, tmp_path):
    path, _ = simulated
    bad = tmp_path / "bad.yaml"
    bad.write_text(EDGE.read_text().replace("lanes: 32", "lanes: 0"))
    with pytest.raises(ValueError, match=r"bad.yaml:21:10: vector.lanes is 0"):
        liveshape.load(path, backend="npu", machine=bad)
    with pytest.raises(FileNotFoundError, match=r"none\.yaml"):
        liveshape.load(path, backend="npu", machine=tmp_path / "none.yaml")
    with pytest.raises(ValueError, match="a machine is for the backend npu"):
        liveshape.load(path, machine=EDGE)
    for options in ({"backend": "npu", "machine": bad}, {"machine": EDGE}):
        with pytest.raises(Exception, match=r"lanes is 0|a machine is for backend npu"):
            torch.compile(torch.sin, backend="liveshape", options=options)(torch.ones(3))
