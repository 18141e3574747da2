"""`liveshape.save` records Dim names; without weights it keeps all but the bytes of parameters."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import liveshape
import numpy
import pytest
import torch
from liveshape.program import Program
from liveshape.testing import ROOT
from torch.export import Dim, export

BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))


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


class Tied(torch.nn.Module):
    """A table that is embedding and head, a norm, and a buffer."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = torch.nn.Embedding(40, 16), torch.nn.LayerNorm(16)
        self.head = torch.nn.Linear(16, 40)
        self.head.weight = self.table.weight
        self.register_buffer("shift", torch.arange(40.0))

    def forward(self, ids):
        return self.head(self.norm(self.table(ids))) + self.shift


def without_weights(path, **options):
    s = torch.export.Dim("S", min=1, max=32)
    ids = torch.arange(5)
    ep = torch.export.export(Tied().half().eval(), (ids,), dynamic_shapes=({0: s},))
    liveshape.save(ep, path, weights=False, **options)


def test_without_weights_buffers_and_ties_stay(tmp_path):
    path = tmp_path / "shape.pt2"
    without_weights(path)
    with zipfile.ZipFile(path) as file:
        config = json.loads(file.read("shape/data/weights/model_weights_config.json"))["config"]
        size = {n: file.getinfo("shape/data/weights/" + c["path_name"]) for n, c in config.items()}
    assert {n for n, info in size.items() if info.file_size} == {"shift"}
    assert size["table.weight"].filename == size["head.weight"].filename
    assert size["table.weight"].filename != size["norm.weight"].filename
    assert recorded(path)["weights_dropped"] is True


def test_weights_made_of_a_seed(tmp_path):
    """Deterministic, of the scale that initialisers have, and refused where nothing was dropped on
    purpose."""
    path = tmp_path / "shape.pt2"
    without_weights(path)

    def compiled(name, seed, *source):
        command = [CLI, "compile", *(source or (path,)), "-o", tmp_path / name]
        command += ["--random-weights", str(seed)] if seed is not None else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert compiled("refused", None)[0] == 2
    assert "--random-weights" in compiled("refused", None)[1]
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        assert compiled(name, seed)[0] == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b and a != c

    ids = numpy.arange(32)
    y = liveshape.load(tmp_path / "a").run([ids])[0].astype(numpy.float64) - numpy.arange(40.0)
    assert y.std() == pytest.approx(0.02 * 16**0.5, rel=0.2)  # a normalised row times the table

    plain = tmp_path / "plain.pt2"
    with zipfile.ZipFile(path) as file, zipfile.ZipFile(plain, "w") as out:
        for member in file.namelist():
            if not member.endswith("extra/liveshape.json"):
                out.writestr(member, file.read(member))
    code, message = compiled("plain", 7, plain)
    assert code == 2 and "has no data" in message


def test_without_weights_needs_memory_to_know_ties(tmp_path):
    with torch.device("meta"):
        model = Tied().eval()
    ep = torch.export.export(model, (torch.arange(5, device="meta"),))
    with pytest.raises(ValueError, match="to_empty"):
        liveshape.save(ep, tmp_path / "meta.pt2", weights=False)
