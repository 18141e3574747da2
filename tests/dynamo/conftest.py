"""Each test starts without compiled code and with counters at zero."""

import pytest
import torch
from liveshape.dynamo import stats
from liveshape.testing import threads


@pytest.fixture(autouse=True)
def _clean_slate():
    threads(1)
    torch.manual_seed(0)
    torch._dynamo.reset()
    stats.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def agree():
    """agree(eager, compiled, *inputs): the same structure, values within 1e-5 of torch's."""

    def check(eager, compiled, *inputs, **named):
        want = torch.utils._pytree.tree_leaves(eager(*inputs, **named))
        have = torch.utils._pytree.tree_leaves(compiled(*inputs, **named))
        assert len(want) == len(have)
        for a, b in zip(have, want, strict=True):
            if not isinstance(b, torch.Tensor):
                assert a == b
                continue
            assert a.shape == b.shape and a.dtype == b.dtype
            worst = (a.double() - b.double()).abs().max().item() if b.numel() else 0.0
            assert worst <= 1e-5 * max(1.0, b.double().abs().max().item() if b.numel() else 0.0)

    return check
