"""What Liveshape has no op for stays with torch, named in one warning; the rest is ours."""

import warnings

import pytest
import torch
from liveshape.dynamo import stats


def compiled(model, **options):
    return torch.compile(model, backend="liveshape", dynamic=True, options=options or None)


def test_an_op_in_the_middle():
    def f(x):
        y = torch.relu(x @ x.T)
        z = torch.special.i0(y)
        return torch.softmax(z + y, -1)

    fast = compiled(f)
    with pytest.warns(
        UserWarning, match=r"liveshape: aten.special_i0.default run in eager"
    ) as told:
        torch.testing.assert_close(fast(torch.ones(3, 4)), f(torch.ones(3, 4)))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (5, 9, 2):
            x = torch.randn(rows, 4) / 4
            torch.testing.assert_close(fast(x), f(x))
    assert dict(stats.eager) == {"aten.special_i0.default": 1}
    assert stats.graphs == 1 and stats.artifacts == 2 and stats.rebuilds == 0


def test_sizes_cross_into_the_later_region():
    def f(x, y):
        n = x.shape[0]
        z = torch.special.i0(x + 1)
        return (z[: n - 1] * n).sum(0) + torch.arange(n + y.shape[0]).sum()

    fast = compiled(f, bound=16)
    with pytest.warns(UserWarning, match="special_i0"):
        fast(torch.zeros(3, 2), torch.zeros(4))
    for n, m in [(3, 4), (9, 2), (5, 16)]:
        x, y = torch.randn(n, 2), torch.randn(m)
        torch.testing.assert_close(fast(x, y), f(x, y))
    assert stats.rebuilds == 0
    with pytest.warns(UserWarning, match="above its bound"):
        x, y = torch.randn(17, 2), torch.randn(3)
        torch.testing.assert_close(fast(x, y), f(x, y))


def test_refused_arguments_name_the_node():
    def f(x):
        largest, where = torch.nn.functional.max_pool1d(x * 2, 2, return_indices=True)
        return torch.relu(largest) + 1, where

    fast = compiled(f)
    with pytest.warns(UserWarning, match=r"max_pool.* run in eager"):
        for n in (8, 12):
            x = torch.randn(2, 3, n)
            torch.testing.assert_close(fast(x), f(x))
    assert stats.eager and stats.nodes


def test_a_graph_break_makes_two_graphs():
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    fast = compiled(f)
    for n in (3, 7):
        torch.testing.assert_close(fast(torch.ones(n)), f(torch.ones(n)))
    assert stats.graphs == 2 and stats.artifacts == 2 and not stats.eager


def test_a_complex_model_part_stays_with_torch():
    def f(x):
        return torch.fft.rfft(x * 2).abs() + 1

    with pytest.warns(UserWarning, match="fft"):
        x = torch.randn(3, 8)
        torch.testing.assert_close(compiled(f)(x), f(x))
    assert stats.nodes and stats.eager
