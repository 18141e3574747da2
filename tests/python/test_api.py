"""liveshape.export, load, Session and verify, as users meet them."""

import subprocess
import sys
from pathlib import Path

import liveshape
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "models" / "demo"
S = torch.export.Dim("S", min=1, max=64)
T = torch.export.Dim("T", min=1, max=64)


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Halve(torch.nn.Module):
    def forward(self, x):
        return x.reshape(-1, 2, x.shape[1]).sum(1)


class Shift(torch.nn.Module):
    def forward(self, x, y):
        return x[1:] + y


class Several(torch.nn.Module):
    """Two tensors, one integer, keyword inputs."""

    def forward(self, x, *, scale):
        return x * scale, x.sum(0), x.shape[0] * 2


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return x + self.total


@pytest.fixture(scope="module")
def several():
    shapes = {"x": {0: S}, "scale": None}
    arguments = (torch.randn(3, 4),), {"scale": torch.randn(4)}
    return liveshape.export(Several(), *arguments, dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def cache():
    return liveshape.export(Cache(), (torch.randn(3, 4),), dynamic_shapes=({0: S},))


REFUSED = {
    "specialised": (
        torch.nn.Linear(4, 4),
        (torch.randn(3, 4),),
        ({1: S},),
        r"Dim `S` \(input dim 1\): the model works at size 4 only; leave this dim out",
    ),
    "related": (
        Add(),
        (torch.randn(5, 6), torch.randn(5, 6)),
        ({0: S}, {0: T}),
        r"Dim `T` \(y dim 0\) and Dim `S` \(x dim 0\) must be equal; use `S` in both places",
    ),
    "one against many": (
        Add(),
        (torch.randn(5, 6), torch.randn(1, 6)),
        {"x": {0: S}, "y": {0: T}},
        r"Dim `T` \(y dim 0\): the example has size 1 there.*example of 2 or more",
    ),
    "shifted": (
        Shift(),
        (torch.randn(6, 2), torch.randn(5, 2)),
        ({0: S}, {0: T}),
        r"Dim `S` \(x dim 0\) is always T \+ 1; write `T \+ 1` in its place",
    ),
    "even": (
        Halve(),
        (torch.randn(6, 3),),
        ({0: S},),
        r"(?s)Dim `S` \(x dim 0\) is not free: \(\(3\*S\) % 6\) == 0 must hold.*S = 2\*_S",
    ),
    "hint": (
        torch.nn.Linear(4, 4),
        (torch.randn(3, 4),),
        ({1: torch.export.Dim.DYNAMIC},),
        r"input dim 1: the model works at size 4 only",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_dim_is_named_with_what_to_write(kind):
    model, example, shapes, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message) as caught:
        liveshape.export(model, example, dynamic_shapes=shapes)
    assert "TORCH_LOGS" not in str(caught.value)
    assert type(caught.value.__cause__).__name__ == "UserError"


def test_doing_what_the_message_says_works():
    half = torch.export.Dim("H", min=1, max=32)
    liveshape.export(Halve(), (torch.randn(6, 3),), dynamic_shapes=({0: 2 * half},))
    liveshape.export(
        Shift(), (torch.randn(6, 2), torch.randn(5, 2)), dynamic_shapes=({0: T + 1}, {0: T})
    )
    liveshape.export(Add(), (torch.randn(5, 6), torch.randn(5, 6)), dynamic_shapes=({0: S}, {0: S}))


def test_other_failures_stay_what_they_are():
    class Bad(torch.nn.Module):
        def forward(self, x):
            return x @ x

    with pytest.raises(RuntimeError):
        liveshape.export(Bad(), (torch.randn(3, 4),))


def test_bounds_mins_and_quant():
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    model = torch.nn.Linear(64, 64)
    artifact = liveshape.export(
        model,
        (torch.randn(3, 64),),
        dynamic_shapes=shapes,
        bounds={"input.0": 50},
        mins={"input.0": 0},
        quant="q8",
    )
    (symbol,) = artifact.symbols
    assert (symbol.min, symbol.max) == (0, 50)
    assert artifact.report["quantised"]["encoding"] == "q8"
    session = artifact.session(threads=1)
    assert session(np.zeros((0, 64), np.float32)).shape == (0, 64)
    with pytest.raises(IndexError, match="above its bound 50"):
        session(np.zeros((51, 64), np.float32))


def test_an_exported_program_is_taken_too():
    program = torch.export.export(Add(), (torch.randn(5), torch.randn(5)))
    session = liveshape.export(program).session(threads=1)
    assert session(np.ones(5, np.float32), np.ones(5, np.float32)).tolist() == [2] * 5


def test_inputs_by_position_by_name_and_by_dict(several):
    session = several.session(threads=1)
    x, scale = np.arange(12, dtype=np.float32).reshape(3, 4), np.full(4, 2, np.float32)
    by_position = session(x, scale)
    for other in (
        session(x, scale=scale),
        session(scale=scale, x=x),
        session.run({"scale": scale, "x": x}),
        session.run([x, scale]),
    ):
        for a, b in zip(by_position, other, strict=True):
            np.testing.assert_array_equal(a, b)
    product, total, twice = by_position
    np.testing.assert_array_equal(product, x * 2)
    np.testing.assert_array_equal(total, x.sum(0))
    assert twice == 6 and type(twice) is int


def test_torch_in_torch_out(several):
    product, total, twice = several.session(threads=1)(torch.ones(2, 4), np.ones(4, np.float32))
    assert isinstance(product, torch.Tensor) and isinstance(total, torch.Tensor) and twice == 4


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda s, x: s(x), ValueError, "1 inputs given, the model has 2"),
        (lambda s, x: s(x, x=x), TypeError, "by position and by name"),
        (lambda s, x: s.run({"x": x}), KeyError, "`scale` is missing"),
        (lambda s, x: s.run({"x": x, "z": x}), KeyError, "no input is called `z`"),
        (lambda s, x: s.run([x, x[0]], out=[None]), ValueError, "the model has 3 outputs"),
        (lambda s, x: s.run([x, x[0]], out={"y": x}), KeyError, "no output is called `y`"),
        (lambda s, x: s.bind(Q=1), KeyError, "no symbol `Q`"),
        (lambda s, x: s.bind(S=65), IndexError, "above its bound 64"),
        (lambda s, x: liveshape.nothing, AttributeError, "nothing"),
    ],
)
def test_wrong_calls(several, call, error, message):
    with pytest.raises(error, match=message):
        call(several.session(threads=1), np.ones((3, 4), np.float32))


def test_out_and_views(several):
    session = several.session(threads=1)
    x, scale = np.ones((3, 4), np.float32), np.full(4, 3, np.float32)
    mine = np.zeros((3, 4), np.float32)
    results = session.run([x, scale], out=[mine, None, None])
    assert results[0] is mine and (mine == 3).all() and (results[1] == 3).all()
    kept = session.run([x, scale])
    views = session.run([x, scale], copy=False)
    session.run([x * 5, scale], copy=False)
    assert (kept[0] == 3).all() and (views[0] == 15).all(), "a view shows what the next run wrote"


def test_sizes_that_only_data_tells():
    class Pick(torch.nn.Module):
        def forward(self, x):
            return x[x > 0]

    artifact = liveshape.export(Pick(), (torch.randn(9),), dynamic_shapes=({0: S},))
    session = artifact.session(threads=1)
    x = np.array([1, -1, 2, 3], np.float32)
    first = session(x)
    assert session(-x).tolist() == [1] and first.tolist() == [1, 2, 3]
    assert session(torch.from_numpy(x)).tolist() == [1, 2, 3]
    mine = np.zeros(3, np.float32)
    assert session.run([x], out=[mine])[0] is mine and mine.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="given"):
        session.run([x], out=[np.zeros(5, np.float32)])


def test_states_travel_through_safetensors(cache, tmp_path):
    session = cache.session(threads=1)
    x = np.ones((2, 4), np.float32)
    session(x)
    save_file(dict(session.states), tmp_path / "states.safetensors")
    want = session(x)
    other = cache.session(threads=1)
    for name, value in load_file(tmp_path / "states.safetensors").items():
        other.states[name] = value
    np.testing.assert_array_equal(other(x), want)
    with pytest.raises(KeyError, match="no state `none`"):
        session.states["none"]


def test_a_saved_artifact_is_the_same_file(cache, tmp_path):
    cache.save(tmp_path / "a.live")
    liveshape.Artifact.load(tmp_path / "a.live").save(tmp_path / "b.live")
    assert (tmp_path / "a.live").read_bytes() == (tmp_path / "b.live").read_bytes()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a.live", "b.live"]
    with pytest.raises(FileNotFoundError):
        liveshape.load(tmp_path / "c.live")


def test_verify_agrees_and_prints_a_table(cache, capsys):
    result = liveshape.verify(Cache(), cache, [{"S": n} for n in (1, 64, 7)])
    assert result.ok and result.max_abs_diff < 1e-5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["live", "shape"] and len(lines) == 1 + 3 + 5
    assert [row.point["S"] for row in result.rows if row.session == "reused"] == [64, 7, 1, 7, 64]


def test_verify_sees_a_wrong_model(several):
    class Wrong(Several):
        def forward(self, x, *, scale):
            return x * scale + (x.shape[0] == 2) * 1e-3, x.sum(0), x.shape[0] * 2

    sweep = [{"S": n} for n in (1, 2, 3)]
    assert liveshape.verify(Several(), several, sweep, show=False).ok
    result = liveshape.verify(Wrong(), several, sweep, show=False)
    assert not result.ok
    assert {row.point["S"] for row in result.rows if not row.ok} == {2}
    assert "output 0: differs" in str(result)


def test_verify_sees_a_wrong_shape_and_count(several):
    class Short(Several):
        def forward(self, x, *, scale):
            return x[1:], x.sum(0)

    result = liveshape.verify(Short(), several, [{"S": 3}], show=False)
    assert not result.ok and "3 outputs, torch has 2" in str(result)
    assert not liveshape.verify(Several(), several, [], show=False).ok, "nothing was looked at"


def test_torch_is_needed_only_to_export(tmp_path):
    """With torch impossible to import, load and run."""
    path = tmp_path / "demo.live"
    subprocess.run(
        [ROOT / "build/release/liveshape", "compile", DEMO / "demo.pt2", "-o", path],
        check=True,
        capture_output=True,
    )
    code = f"""
import sys
sys.modules["torch"] = sys.modules["sympy"] = None
import liveshape, numpy as np
session = liveshape.load({str(path)!r}, threads=1)
assert session(np.zeros((2, 5), np.int64), 0).shape == (2, 256)
assert session.states and session.shape["S"] == 5
"""
    env = {"PYTHONPATH": str(ROOT / "python"), "PATH": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
