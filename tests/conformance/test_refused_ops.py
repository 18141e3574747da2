"""What is not served is refused at compile, with the node and the reason; what is not checked is
warned of."""

import os
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))
LINES = torch.zeros(2, 3, dtype=torch.long)
REFUSED = {
    "cumprod": (lambda x: x.cumprod(0), "aten.cumprod.default"),
    "cummax": (lambda x: x.cummax(0)[0], "aten.cummax.default"),
    "diagonal": (lambda x: x.diagonal(), "aten.diagonal.default"),
    "scatter_reduce": (lambda x: x.scatter_reduce(0, LINES, x, "amax"), 'reduce="amax"'),
    "rand": (lambda x: x + torch.rand(3), "output 0, `rand`, is read, but not served"),
    "einsum": (lambda x: torch.einsum("ii->i", x @ x.T), "`i` twice in an operand"),
    "max_pool2d_with_indices": (
        lambda x: torch.nn.functional.max_pool2d(x[None], 2, return_indices=True)[1],
        "output 1, `getitem_1`, is read, but not served",
    ),
}


class Module(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x)


@pytest.mark.parametrize("name", REFUSED)
def test_names_the_node(name, tmp_path):
    op, reason = REFUSED[name]
    program = torch.export.export(Module(op), (torch.randn(4, 3),))
    torch.export.save(program, tmp_path / "m.pt2")
    command = [CLI, "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.live"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout
    assert f"`{name}" in done.stderr and reason in done.stderr, done.stderr
    assert not (tmp_path / "m.live").exists()


class LayerDrop(torch.nn.Module):
    """As transformers has it: the number is drawn, but only training looks at it."""

    def forward(self, x):
        skip = torch.rand([]) < 0.1 if self.training else torch.rand([])
        return x if self.training and skip else x * 2


def test_takes_a_draw_that_nobody_reads(tmp_path):
    program = torch.export.export(LayerDrop().eval(), (torch.randn(4, 3),))
    assert any("rand" in str(node.target) for node in program.graph.nodes)
    torch.export.save(program, tmp_path / "m.pt2")
    command = [CLI, "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.live"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


class Large(torch.nn.Module):
    """Of no shape that the import draws; where there are some, x[:1] is compared at 2 and above."""

    def forward(self, x, y):
        torch._check(x.shape[0] * y.shape[0] > 100_000)
        return x + x[:1], y * 2


def test_warns_where_no_shape_is_found_to_compare_sizes_at(tmp_path):
    dims = {name: {0: torch.export.Dim(name, min=0, max=5000)} for name in ("x", "y")}
    program = torch.export.export(
        Large(), (torch.zeros(500), torch.zeros(400)), dynamic_shapes=dims
    )
    torch.export.save(program, tmp_path / "m.pt2")
    command = [CLI, "compile", tmp_path / "m.pt2", "-o", tmp_path / "m.live"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "warning: sizes were not checked against the export's" in done.stderr
