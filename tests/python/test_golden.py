"""Goldens are what torch computes: against eager modules, at named shapes, on fresh states."""

import json

import numpy as np
import pytest
import torch
from liveshape import golden, testing
from liveshape.golden import main, parse_sweeps
from liveshape.program import Program
from liveshape.symbols import ShapeError
from liveshape.testing import collect, prepare
from torch.utils import _pytree as pytree

testing.threads(1)
EAGER = [
    case.name for case in collect().values() if case.eager and not case.export and not case.quant
]


def points(folder):
    return json.loads((folder / "golden.json").read_text())["points"]


@pytest.fixture(scope="session")
def folder():
    """The export and goldens of a case, by name; made on first use, kept in build/."""
    return lambda name: prepare(collect()[name])


@pytest.mark.parametrize("name", EAGER)
def test_goldens_equal_the_eager_module(name, folder):
    case, root = collect()[name], folder(name) / "golden"
    _, spec = pytree.tree_flatten(case.inputs, is_leaf=testing._is_input)
    for point in points(root):
        model = case.build()
        for step in point["steps"]:
            given = [_argument(root, e, spec, i, case) for i, e in enumerate(step["inputs"])]
            with torch.no_grad():
                got = model(*pytree.tree_unflatten(given, spec).values())
            leaves = [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(got)]
            want = [golden.load(root, entry) for entry in step["outputs"]]
            assert len(leaves) == len(want)
            for mine, torchs in zip(leaves, want, strict=True):
                # Fused and decomposed kernels of torch differ in the last bits among themselves.
                tolerance = max(case.tolerance, 1e-5)
                torch.testing.assert_close(
                    mine, torchs, rtol=tolerance, atol=tolerance, equal_nan=True
                )


def _argument(root, entry, spec, position, case):
    value = golden.load(root, entry)
    leaf = pytree.tree_leaves(case.inputs, is_leaf=testing._is_input)[position]
    return int(value) if isinstance(leaf, testing.IntInput) else value


def test_sweep_syntax():
    assert parse_sweeps(["S=1,2", "B=8"]) == [{"S": 1, "B": 8}, {"S": 2, "B": 8}]
    assert parse_sweeps(["S=4,B=2;S=8,B=1"]) == [{"S": 4, "B": 2}, {"S": 8, "B": 1}]
    assert parse_sweeps(["S=4,B=2", "x.1=3,5"]) == [
        {"S": 4, "B": 2, "x.1": 3},
        {"S": 4, "B": 2, "x.1": 5},
    ]
    assert parse_sweeps([]) == [{}]
    for bad in (["S=a"], ["S"], ["S=1", "S=2"], ["=3"], ["S=1;2"]):
        with pytest.raises(ShapeError):
            parse_sweeps(bad)


@pytest.mark.parametrize("name", ["M", "input.0", "s"])
def test_a_symbol_goes_by_any_of_its_names(name, folder, tmp_path):
    model = folder("linear_raw") / "model.pt2"
    if name == "s":
        name = str(Program(model).table.symbols[0])
    assert main([str(model), "--sweep", f"{name}=3", "-o", str(tmp_path / "golden")]) == 0
    (point,) = points(tmp_path / "golden")
    assert point["shape"] == {"M": 3}
    entry = point["steps"][0]["inputs"][0]
    assert entry["name"] == "input"
    assert golden.load(tmp_path / "golden", entry).shape == (3, 96)


@pytest.mark.parametrize(
    ("case", "arguments", "message"),
    [
        ("sizes_derived", ["--sweep", "x.0=15"], "no whole value"),
        ("sizes_derived", ["--sweep", "x.0=14,y.0=9"], "`y.0` = 9"),
        ("linear_raw", ["--sweep", "M=129"], "outside [0, 128]"),
        ("linear_raw", ["--sweep", "N=1"], "no symbol is called `N`"),
        ("linear_raw", [], "gives no value for `M`"),
        ("linear_raw", ["--sweep", "M=two"], "is not NAME=INTEGER"),
        ("embedding", ["--sweep", "B=1", "--sweep", "N=2"], "--int ids=LOW:HIGH"),
        ("embedding", ["--sweep", "B=1", "--sweep", "N=2", "--int", "ids=3"], "NAME=LOW:HIGH"),
        ("linear_raw", ["--sweep", "M=1", "--inputs", "nowhere.py:make"], "FILE.py:FUNCTION"),
    ],
)
def test_a_bad_point_is_refused(case, arguments, message, folder, tmp_path, capsys):
    model = folder(case) / "model.pt2"
    assert main([str(model), *arguments, "-o", str(tmp_path / "golden")]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_derived_dims_are_solved(folder, tmp_path):
    model = folder("sizes_derived") / "model.pt2"
    assert main([str(model), "--sweep", "x.0=14", "-o", str(tmp_path / "golden")]) == 0
    assert points(tmp_path / "golden")[0]["shape"] == {"T": 7}


def test_states_start_over_at_each_point_and_live_on_between_steps(folder, tmp_path):
    model = folder("state_counter_raw") / "model.pt2"
    maker = tmp_path / "steps.py"
    maker.write_text(
        "import torch\n"
        "def make(point, rng):\n"
        "    return [{'x': torch.ones(point['S'] + i, 4)} for i in range(3)]\n"
    )
    for reload in (True, False):
        make = golden._load_maker(f"{maker}:make")
        golden.write_goldens(model, [{"S": 2}, {"S": 5}], tmp_path / "g", make=make, reload=reload)
        for point in points(tmp_path / "g"):
            calls = [golden.load(tmp_path / "g", s["outputs"][1]).item() for s in point["steps"]]
            assert calls == [1, 2, 3]
        lengths = [s["shape"]["S"] for s in points(tmp_path / "g")[1]["steps"]]
        assert lengths == [5, 6, 7]


@pytest.mark.parametrize("name", ["static_cache_sdpa_nonstrict", "static_cache_sdpa_strict"])
def test_static_caches_follow_the_eager_cache(name, folder):
    """Prefill and decode of the goldens equal the unexported model with a cache of its own."""
    root = folder(name) / "golden"
    (point, *_) = points(root)
    model = collect()[name].build()
    for step in point["steps"]:
        given = {e["name"]: golden.load(root, e) for e in step["inputs"]}
        with torch.no_grad():
            mine = model.model(**given)
        want = golden.load(root, step["outputs"][0])
        torch.testing.assert_close(mine, want, rtol=1e-5, atol=1e-5)


def test_no_guard_stands_before_sizes_0_and_1(folder):
    """Dim.DYNAMIC exports say min 2 and `size // 2 != 1`; the operators know better."""
    program = Program(folder("slice_raw") / "model.pt2")
    shapes = [tuple(value.shape) for _, value in program.run({"x": torch.randn(1, 8)})]
    assert shapes[:4] == [(0, 8), (0, 8), (0, 8), (1, 8)]


def test_files_are_as_verify_expects_them(folder):
    root = folder("mlp_bf16") / "golden"
    entry = points(root)[0]["steps"][0]["outputs"][0]
    assert entry["dtype"] == "bfloat16"
    assert np.load(root / entry["file"]).dtype == np.uint16
    assert golden.load(root, entry).dtype == torch.bfloat16
    root = folder("sizes_integers") / "golden"
    step = points(root)[0]["steps"][0]
    assert [e["name"] for e in step["inputs"]] == ["x", "n", "k"]
    integer = np.load(root / step["inputs"][1]["file"])
    assert (integer.shape, integer.dtype) == ((), np.int64)


def test_a_foreign_directory_is_not_replaced(folder, tmp_path, capsys):
    (tmp_path / "keep").write_text("mine")
    model = folder("linear_raw") / "model.pt2"
    assert main([str(model), "--sweep", "M=1", "-o", str(tmp_path)]) == 2
    assert (tmp_path / "keep").read_text() == "mine"
