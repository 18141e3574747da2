"""Everything that documentation shows in Python runs.

Docstrings of the public modules are doctests. In docs/*.md and README.md a block that begins with
```python run is executed, and one with ```pycon run is a doctest; the blocks of a file share their
names and a fresh working directory, in order.
"""

import doctest
import importlib
import re
from pathlib import Path

import liveshape
import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["liveshape", "liveshape.session", "liveshape.exporting", "liveshape.verifying"]
BLOCK = re.compile(r"^```(python|pycon) run\n(.*?)^```$", re.M | re.S)
PAGES = [
    p for p in [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"] if "run\n" in p.read_text()
]
FLAGS = doctest.ELLIPSIS


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(x)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen += x.sum()
        return self.seen.clone()


def artifact(model, example, size=64):
    dim = torch.export.Dim("S", min=1, max=size)
    return liveshape.export(model.eval(), (example,), dynamic_shapes=({0: dim},))


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What docstrings may use without making it."""
    torch.manual_seed(0)
    demo = artifact(Head(), torch.randn(3, 8))
    counter = artifact(Counter(), torch.randn(3))
    return {
        "Artifact": liveshape.Artifact,
        "counter": lambda: counter,
        "demo": lambda: demo,
        "folder": tmp_path_factory.mktemp("docs"),
        "liveshape": liveshape,
        "np": np,
        "torch": torch,
    }


def check(test):
    said = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, names):
    module = importlib.import_module(name)
    tests = [t for t in doctest.DocTestFinder().find(module, extraglobs=names) if t.examples]
    assert tests, f"{name} has no examples"
    for test in tests:
        check(test)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machines").symlink_to(ROOT / "machines")  # as in a checkout
    text = page.read_text()
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        kind, code = block.groups()
        line = text.count("\n", 0, block.start()) + 1
        if kind == "python":
            exec(compile("\n" * line + code, page.name, "exec"), names)
        else:
            parser = doctest.DocTestParser()
            test = parser.get_doctest(code, names, page.name, page.name, line)
            test.globs = names  # later blocks go on where this one ends
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            said = []
            runner.run(test, out=said.append, clear_globs=False)
            assert runner.failures == 0, "".join(said)
