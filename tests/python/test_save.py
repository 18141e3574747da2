"""`liveshape.save` records Dim names, and nothing else changes about the archive."""

import json
import zipfile

import liveshape
import pytest
import torch
from liveshape.program import Program
from torch.export import Dim, export


class Model(torch.nn.Module):
    def forward(self, x, d, n, *, k):
        return x * n + d["q"][0].sum(), k[:1]


def archive(path, names):
    b, t = Dim("B", min=0, max=8), Dim("T", min=1, max=64)
    shapes = {
        "x": (b, 2 * t),
        "k": {0: b},
        "d": {"q": [{0: t}], "unused": None},
        "n": Dim.DYNAMIC,
    }
    args = (torch.randn(3, 8), {"q": [torch.randn(4, 4)], "unused": torch.ones(2)}, 5)
    ep = export(Model(), args, {"k": torch.randn(3)}, dynamic_shapes=shapes)
    liveshape.save(ep, path, names=shapes if names == "shapes" else names)
    return ep


def recorded(path):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read(f"{path.stem}/extra/liveshape.json"))


def test_names_from_dynamic_shapes(tmp_path):
    path = tmp_path / "model.pt2"
    archive(path, "shapes")
    extra = recorded(path)
    assert extra["version"] == 1
    assert sorted(extra["symbols"].values()) == ["B", "T"]
    shapes = {i["name"]: i.get("shape") for i in extra["inputs"]}
    assert shapes["x"] == ["B", "2*T"]
    assert shapes["d_q_0"] == ["T", 4]
    assert shapes["k"] == ["B"]
    assert shapes["n"] is None


def test_names_by_place(tmp_path):
    path = tmp_path / "model.pt2"
    archive(path, {"x.0": "batch", "d_q_0.0": "seq", "n": "count"})
    program = Program(path)
    assert {program.table.call(s) for s in program.table.symbols} == {"batch", "seq", "count"}
    assert program.table.named(program.table.solve({"batch": 2, "x.1": 6, "n": 9})) == {
        "batch": 2,
        "seq": 3,
        "count": 9,
    }


def test_an_archive_without_names_still_loads(tmp_path):
    path = tmp_path / "plain.pt2"
    ep = archive(tmp_path / "model.pt2", None)
    torch.export.save(ep, str(path))
    table = Program(path).table
    assert [table.call(s) for s in table.symbols] == [str(s) for s in table.symbols]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"x.7": "B"}, "nothing enters at `x.7`"),
        ({"x.0": "A", "k.0": "B"}, "elsewhere as A"),
        ({"x.0": "A", "x.1": "A"}, "would name both"),
    ],
)
def test_names_that_cannot_be_are_refused(names, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        archive(tmp_path / "model.pt2", names)
    assert list(tmp_path.iterdir()) == []


def test_save_leaves_one_file_named_after_itself(tmp_path):
    archive(tmp_path / "a_name.pt2", "shapes")
    assert [p.name for p in tmp_path.iterdir()] == ["a_name.pt2"]
    with zipfile.ZipFile(tmp_path / "a_name.pt2") as file:
        assert {name.split("/")[0] for name in file.namelist()} == {"a_name"}
