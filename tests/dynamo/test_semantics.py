"""What torch promises stays true: writes, weights that change, gradients, aliases, threads."""

import threading

import pytest
import torch
from liveshape.dynamo import stats


def compiled(model, **options):
    return torch.compile(model, backend="liveshape", dynamic=True, options=options or None)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(8, 4))

    def forward(self, x, at):
        self.seen.add_(1)
        self.cache.index_copy_(0, at, x)
        return self.cache.sum(0) * self.seen


def test_buffers_that_the_graph_writes_are_written():
    eager, model = Counting(), Counting()
    fast = compiled(model)
    for rows in (2, 5, 3):
        x, at = torch.randn(rows, 4), torch.arange(rows)
        torch.testing.assert_close(fast(x, at), eager(x, at))
        torch.testing.assert_close(model.cache, eager.cache, rtol=0, atol=0)
        assert torch.equal(model.seen, eager.seen)
    assert stats.artifacts == 1 and not stats.eager


def test_an_input_that_the_graph_writes_is_written():
    def add_into(x, y):
        x.add_(y)
        return x * 2

    fast = compiled(add_into)
    for rows in (3, 6):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        want = x.clone()
        torch.testing.assert_close(fast(x, y), add_into(want, y))
        torch.testing.assert_close(x, want)


def test_a_changed_weight_is_followed_with_one_warned_rebuild():
    model = torch.nn.Linear(4, 4).eval()
    fast = compiled(model)
    x = torch.randn(3, 4)
    torch.testing.assert_close(fast(x), model(x))
    model.weight.mul_(2)
    with pytest.warns(UserWarning, match=r"weight `.*weight` changed") as told:
        torch.testing.assert_close(fast(x), model(x))
    assert len(told) == 1
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    with pytest.warns(UserWarning, match="changed"):
        torch.testing.assert_close(fast(x), model(x))
    torch.testing.assert_close(fast(x), model(x))
    assert (stats.artifacts, stats.rebuilds) == (3, 2)


def test_gradients_stay_with_torch():
    model = torch.nn.Linear(4, 4)
    fast = compiled(model)
    x = torch.randn(3, 4)
    told = pytest.warns(UserWarning, match=r"runs in eager: gradients .* torch.no_grad")
    with torch.enable_grad(), told:
        fast(x).sum().backward()
    assert model.weight.grad is not None and stats.artifacts == 0
    torch.testing.assert_close(fast(x), model(x))
    assert stats.artifacts == 1


def test_memory_that_is_not_dense_and_outputs_that_alias():
    def f(x):
        return x.t() * 2, x, x[1:]

    x = torch.randn(6, 5).t()
    have, want = compiled(f)(x), f(x)
    for a, b in zip(have, want, strict=True):
        torch.testing.assert_close(a, b)
    assert have[1] is x
    have[2].fill_(7.0)
    assert torch.equal(x[1:], have[2]) and not stats.eager


def test_a_float_of_the_model_that_changes_is_seen():
    class Scaled(torch.nn.Module):
        scale = 0.5

        def forward(self, x):
            return x * self.scale

    model = Scaled()
    fast = compiled(model)
    assert torch.equal(fast(torch.ones(3)), torch.full((3,), 0.5))
    model.scale = 0.25
    assert torch.equal(fast(torch.ones(3)), torch.full((3,), 0.25))
    assert not stats.eager


@pytest.mark.parametrize("quant", ["q8", "q4"])
def test_quantised_weights(quant):
    from liveshape.quantise import dequantised

    model = torch.nn.Linear(64, 48).eval()
    x = torch.randn(5, 64)
    have = compiled(model, quant=quant)(x)
    want = torch.nn.functional.linear(x, dequantised(model.weight, quant), model.bias)
    torch.testing.assert_close(have, want, rtol=0, atol=1e-5)
    assert (have - model(x)).abs().max() > 1e-5


def test_dtypes():
    def f(x, y, b):
        return x.to(torch.float16) + 1, (y // 3).to(torch.int32), b & (y > 0), y.to(torch.bfloat16)

    inputs = torch.randn(5), torch.arange(-2, 3), torch.tensor([True, False, True, True, False])
    for a, b in zip(compiled(f)(*inputs), f(*inputs), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_results_are_the_callers():
    fast = compiled(lambda x: x + 1)
    first = fast(torch.zeros(4))
    fast(torch.ones(4))
    assert torch.equal(first, torch.ones(4))


def test_threads_share_one_compiled_model():
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    fast = compiled(model.eval())
    inputs = [torch.randn(2 + i, 8) for i in range(8)]
    want = [model(x) for x in inputs]
    fast(inputs[0])
    wrong = []

    def work(i):
        with torch.no_grad():
            for _ in range(20):
                if (fast(inputs[i]) - want[i]).abs().max() > 1e-5:
                    wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and stats.artifacts == 1
