"""What a .pte holds beside one delegate: other nodes, several Methods, states, errors."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from liveshape.testing import ROOT, collect
from lowering import (
    LiveshapePartitioner,
    check_step,
    exported,
    golden,
    load,
    lower,
    outside,
    parts,
    save,
)
from torch import nn
from torch.export import Dim, export

S = Dim("S", min=1, max=64)


def rows(model, *, rows=5, width=8):
    """A model of one input [S, width], exported; its parameters are not ones and zeros."""
    return export(model, (torch.randn(rows, width),), dynamic_shapes=({0: S},))


def foreign(x):
    """A node that is ExecuTorch's and not ours, since it also gives a mask at random. This one
    keeps all of x."""
    return torch.native_dropout(x * 2, 0.5, train=False)[0]


class Scores(nn.Module):
    """Ours lie on both sides of what is foreign."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        middle = foreign(self.before(x))
        return self.after(middle).softmax(-1) * x.shape[0], middle.reshape(x.shape[0] * 2, 4)


def test_a_graph_that_is_only_partly_ours(tmp_path):
    torch.manual_seed(0)
    model = Scores().eval()
    edge = lower(rows(model))
    assert outside(edge), "the test wants a node that Liveshape does not have"
    assert parts(edge) == 2
    method = load(save(edge, tmp_path / "m.pte"))
    for size in (64, 1, 7, 64):
        x = torch.randn(size, 8)
        for got, want in zip(method.execute([x]), model(x), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


class ChannelsLast(nn.Module):
    """Tensors of another dim order enter and leave both parts."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 4, 1)

    def forward(self, x):
        middle = foreign(self.first(x.to(memory_format=torch.channels_last)))
        return self.second(middle), middle + 1


def test_memory_formats_change_no_value(tmp_path):
    torch.manual_seed(0)
    model = ChannelsLast().eval()
    x = torch.randn(2, 3, 9, 7)
    edge = lower(export(model, (x,), dynamic_shapes=({0: Dim("B", min=1, max=4)},)))
    assert parts(edge) == 2 and len(outside(edge)) == 1
    method = load(save(edge, tmp_path / "m.pte"))
    for batch in (4, 1, 2):
        x = torch.randn(batch, 3, 9, 7)
        for got, want in zip(method.execute([x]), model(x), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


class Totals(nn.Module):
    """Two delegated parts with a foreign node between them read and write one buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(8))  # ExecuTorch begins its own buffers at zero
        self.register_buffer("calls", torch.full((1,), 0.5))

    def forward(self, x):
        self.calls.add_(1)  # belongs to one part alone
        self.total.add_(x.sum(0))
        middle = foreign(self.total)
        self.total.mul_(0.5)
        return middle * x + self.total + self.calls


def test_a_buffer_of_two_parts_stays_with_executorch(tmp_path):
    edge = lower(rows(Totals()))
    assert parts(edge) == 2
    owned = set(edge.exported_program().graph_signature.buffers_to_mutate.values())
    assert owned == {"total"}, "`calls` is a state of a delegate, `total` is not"
    method, model = load(save(edge, tmp_path / "m.pte")), Totals()
    for size in (5, 1, 64, 2):
        x = torch.randn(size, 8)
        torch.testing.assert_close(method.execute([x])[0], model(x), rtol=1e-5, atol=1e-5)


class Counter(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.register_buffer("count", torch.full((1,), float(start)))

    def forward(self, x):
        self.count.add_(x.shape[0])
        return x + self.count


def test_methods_have_states_of_their_own(tmp_path):
    edge = lower({"slow": rows(Counter(0)), "fast": rows(Counter(100))})
    path = save(edge, tmp_path / "m.pte")
    slow, fast, other = load(path, "slow"), load(path, "fast"), load(path, "slow")
    x, y = torch.zeros(3, 8), torch.zeros(1, 8)
    assert slow.execute([x])[0][0, 0] == 3
    assert fast.execute([y])[0][0, 0] == 101
    assert slow.execute([y])[0][0, 0] == 4
    assert other.execute([y])[0][0, 0] == 1, "another loaded Method begins with the file's values"
    assert fast.execute([x])[0][0, 0] == 104


def test_qwen3_static_cache(prepared_case, tmp_path):
    """Prefill, decode and a second sequence, at every step of the walk (G6)."""
    case = prepared_case("static_cache_sdpa_strict")
    edge = lower(exported(case))
    assert outside(edge) == [] and parts(edge) == 1
    assert not edge.exported_program().graph_signature.buffers_to_mutate
    path = save(edge, tmp_path / "m.pte")
    for point in golden(case)["points"]:
        method = load(path)
        for step in point["steps"]:
            check_step(method, case, step, 1e-5)


def test_weights_are_stored_once(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4096, 64)

        def forward(self, ids):
            return self.embed(ids) @ self.embed.weight.T

    ids = torch.arange(5)
    ep = export(Tied(), (ids,), dynamic_shapes=({0: S},))
    weight = 4096 * 64 * 4
    assert weight < save(lower(ep), tmp_path / "f32.pte").stat().st_size < 1.05 * weight
    small = save(lower(ep, quant="q4"), tmp_path / "q4.pte").stat().st_size
    assert small < 0.2 * weight


def test_methods_share_their_weights_and_dump_shows_both(tmp_path):
    class Head(nn.Module):
        def __init__(self, linear, scale):
            super().__init__()
            self.linear, self.scale = linear, scale

        def forward(self, x):
            return self.linear(x) * self.scale

    linear = nn.Linear(256, 512)
    heads = {"plain": Head(linear, 1.0), "twice": Head(linear, 2.0)}
    path = save(lower({n: rows(h, width=256) for n, h in heads.items()}), tmp_path / "m.pte")
    weight = 256 * 512 * 4
    assert weight < path.stat().st_size < 1.1 * weight
    for name, head in heads.items():
        method = load(path, name)
        for size in (64, 3):
            x = torch.randn(size, 256)
            torch.testing.assert_close(method.execute([x])[0], head(x), rtol=0, atol=1e-5)
    cli = ROOT / "build" / "release" / "liveshape"
    said = subprocess.run([cli, "dump", path], capture_output=True, text=True, check=True).stdout
    assert said.count("LiveshapeBackend") >= 2 and said.count(" linear(") == 2
    assert "external `liveshape_" in said


def test_a_shape_out_of_range_is_an_error_of_executorch(tmp_path, capfd):
    model = nn.Linear(8, 8)
    method = load(save(lower(rows(model), bounds={"input_1.0": 32}), tmp_path / "m.pte"))
    x = torch.randn(64, 8)
    with pytest.raises(RuntimeError, match="0x12"):
        method.execute([x[:33]])
    message = "would be 33, above its bound 32"
    assert message in "".join(capfd.readouterr())
    torch.testing.assert_close(method.execute([x[:32]])[0], model(x[:32]), rtol=1e-5, atol=1e-5)


def test_a_failed_run_keeps_states(tmp_path):
    class Gather(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("table", torch.arange(10.0))

        def forward(self, at):
            self.count.add_(1)
            return self.table[at] + self.count

    ep = export(Gather(), (torch.tensor([1, 2, 3]),), dynamic_shapes=({0: S},))
    method = load(save(lower(ep), tmp_path / "m.pte"))
    assert method.execute([torch.tensor([4])])[0].tolist() == [5]
    with pytest.raises(RuntimeError, match="0x12"):
        method.execute([torch.tensor([4, 10])])
    assert method.execute([torch.tensor([4])])[0].tolist() == [6]


def test_a_damaged_blob_is_refused_at_load(tmp_path):
    path = save(lower(rows(nn.Linear(8, 8))), tmp_path / "m.pte")
    data = bytearray(path.read_bytes())
    at = data.index(b"LIVE")
    data[at : at + 4] = b"DEAD"
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match="Failed to load method"):
        load(path)


def test_a_dim_without_a_maximum_is_named():
    ep = export(nn.Linear(8, 8), (torch.randn(5, 8),), dynamic_shapes=({0: Dim("T", min=1)},))
    with pytest.raises(ValueError, match="has no maximum"):
        lower(ep)


def test_bad_options_are_refused_before_anything_runs():
    with pytest.raises(ValueError, match="quant"):
        LiveshapePartitioner(quant="q2")
    with pytest.raises(ValueError, match="threads"):
        LiveshapePartitioner(threads=-1)
    with pytest.raises(ValueError, match="no symbol is called `T`"):
        lower(rows(nn.Linear(8, 8)), bounds={"T": 3})


def test_a_library_that_is_not_built_says_how(tmp_path):
    missing = {**os.environ, "LIVESHAPE_EXECUTORCH_LIBRARY": str(tmp_path / "none.so")}
    done = subprocess.run(
        [sys.executable, "-c", "import liveshape.executorch"],
        env={**missing, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "make executorch" in done.stderr.splitlines()[-1]


def test_from_a_cpp_module(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
    path = save(lower(rows(model), threads=2), tmp_path / "m.pte")
    calls, inputs = [], {}
    for i, size in enumerate((64, 1, 65, 7, 64)):
        inputs[i] = torch.randn(size, 8)
        inputs[i].numpy().tofile(tmp_path / f"in{i}")
        calls += [f"{size},8", str(tmp_path / f"in{i}"), str(tmp_path / f"out{i}")]
    program = ROOT / "build" / "release" / "executorch_run_module"
    done = subprocess.run([program, path, "1", *calls], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[2] == "error 0x10", "the input tensor itself is bounded by ExecuTorch"
    for i in (0, 1, 3, 4):
        assert lines[i].split() == [str(len(inputs[i])), "16"]
        got = torch.from_numpy(np.fromfile(tmp_path / f"out{i}", np.float32)).reshape(-1, 16)
        torch.testing.assert_close(got, model(inputs[i]), rtol=1e-5, atol=1e-5)
    # What is given at load outranks the export.
    done = subprocess.run([program, path, "-1", *calls], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "error 0x12" and "threads = -1" in done.stderr


@pytest.fixture
def prepared_case():
    from liveshape.testing import prepare

    def make(name):
        case = collect()[name]
        prepare(case)
        return case

    return make
