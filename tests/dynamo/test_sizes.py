"""One build serves all sizes: counted (G4), at the bound and above it."""

import warnings

import pytest
import torch
from liveshape.dynamo import stats


class Mlp(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(x)))


def compiled(model, **options):
    return torch.compile(model.eval(), backend="liveshape", dynamic=True, options=options or None)


def test_fifty_shapes_cost_one_build(agree):
    model = Mlp()
    fast = compiled(model, bound=64)
    # The first two differ: Dynamo takes sizes that are equal while it traces for one symbol.
    sizes = [(2 + i * 7 % 63, 2 + i * 11 % 61) for i in range(1, 51)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch, length in sizes:
            agree(model, fast, torch.randn(batch, length, 16))
    assert len(set(sizes)) == 50
    assert (stats.graphs, stats.artifacts, stats.rebuilds) == (1, 1, 0)
    assert not stats.eager


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_zero_and_one_are_one_graph_more(agree, size):
    model = Mlp()
    fast = compiled(model, bound=64)
    for length in (5, 9, size, 7, size):
        agree(model, fast, torch.randn(length, 16))
    assert (stats.graphs, stats.artifacts, stats.rebuilds) == (2, 2, 0)


def test_above_the_bound_is_one_warned_rebuild(agree):
    model = Mlp()
    fast = compiled(model, bound=32)
    agree(model, fast, torch.randn(32, 16))
    with pytest.warns(
        UserWarning, match=r"`x dim 0` is 33, above its bound: .* 64 .*mark_dynamic"
    ) as told:
        agree(model, fast, torch.randn(33, 16))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in (64, 2, 40):
            agree(model, fast, torch.randn(length, 16))
    assert (stats.graphs, stats.artifacts, stats.rebuilds) == (1, 2, 1)


def test_bound_of_mark_dynamic(agree):
    model = Mlp()
    fast = compiled(model)
    for length in (8, 2, 100):
        x = torch.randn(length, 16)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=100)
        agree(model, fast, x)
    assert (stats.graphs, stats.artifacts, stats.rebuilds) == (1, 1, 0)


def test_above_the_maximum_of_mark_dynamic_dynamo_traces_again(agree):
    model = Mlp()
    fast = compiled(model)
    x = torch.randn(8, 16)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=100)
    agree(model, fast, x)
    with pytest.warns(UserWarning, match=r"`x dim 0` is 101, above 100, the maximum .*") as told:
        agree(model, fast, torch.randn(101, 16))
    assert len(told) == 1
    for length in (150, 100, 2, 300):
        agree(model, fast, torch.randn(length, 16))
    assert (stats.graphs, stats.artifacts, stats.rebuilds) == (2, 2, 1)


def test_several_symbols_and_an_integer(agree):
    class Model(torch.nn.Module):
        def forward(self, x, y, n):
            return torch.cat([x * n, y], 1)[:, 1:], x.shape[0] + n

    fast = compiled(Model(), bound=32)
    for b, s, t, n in [(2, 3, 4, 5), (3, 5, 2, -7), (31, 2, 32, 9)]:
        agree(Model(), fast, torch.randn(b, s), torch.randn(b, t), n)
    assert stats.artifacts == 1 and not stats.eager


def test_unknown_option_is_refused():
    with pytest.raises(Exception, match=r"no `bounds` is known; there are bound, "):
        compiled(Mlp(), bounds=3)(torch.randn(3, 16))
