"""States: whatever the graph writes in place and keeps, in each form that exports write it.

A state may be a buffer, a parameter or a lifted constant, reached directly, through a view or
through a `to` that does nothing. Counters are not idempotent on purpose (X2): a step run twice,
or not at all, shows.
"""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i64, variants
from torch import nn

ROWS, WIDTH = 16, 4


class Counter(nn.Module):
    """Adds up what it sees, and how often it was called."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(WIDTH))

    def forward(self, x):
        self.calls.add_(1)
        self.total.add_(x.sum(0))
        return x + self.total, self.calls, self.calls * 2 + x.shape[0]


class Assigned(nn.Module):
    """`self.state = ...`: torch.export turns the assignment into a mutation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.ones(WIDTH))

    def forward(self, x):
        before = self.last
        self.last = x[-1] + before * 0.5
        return x * before, self.last


class Copied(nn.Module):
    """Two states that trade places: both old values must be read before either is written."""

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(WIDTH).float())
        self.register_buffer("b", -torch.arange(WIDTH).float())

    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(self.b + x.sum(0))
        self.b.copy_(old)
        return self.a * 1, self.b * 1, x + self.a


class Sliced(nn.Module):
    """Writes into a slice, of live length, at the front and at a fixed place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(ROWS, WIDTH))

    def forward(self, x):
        s = x.shape[0]
        self.ring[:s] = x
        self.ring[ROWS - 2 :].add_(1)
        return self.ring + 0, self.ring[:s].sum(0)


class Scattered(nn.Module):
    """The functional spelling: slice_scatter, then one copy_ of the whole."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(ROWS, WIDTH))

    def forward(self, x):
        updated = torch.slice_scatter(self.ring, x, 0, 0, x.shape[0])
        self.ring.copy_(updated)
        return updated * 2, updated.sum(1)


class ThroughViews(nn.Module):
    """The same storage under several names: a transpose, a view, a `to` that is no cast."""

    def __init__(self):
        super().__init__()
        # Wider than S can be: torch specialises on a full slice, it has the grid's own strides.
        self.register_buffer("grid", torch.zeros(WIDTH, ROWS + 4))

    def forward(self, x):
        s = x.shape[0]
        columns = self.grid.transpose(0, 1)
        columns[:s].copy_(x)
        same = self.grid.to(torch.float32)
        same.mul_(0.5)
        self.grid.view(-1)[3:7].add_(10)
        self.grid.select(0, 1).sub_(1)
        return self.grid.clone(), columns[:s] * 2


class IndexWritten(nn.Module):
    """index_put_ (also accumulating) and index_copy_, at positions that are data."""

    def __init__(self):
        super().__init__()
        self.register_buffer("put", torch.zeros(ROWS, WIDTH))
        self.register_buffer("summed", torch.zeros(ROWS, WIDTH))
        self.register_buffer("copied", torch.zeros(2, ROWS, WIDTH))

    def forward(self, x, rows):
        self.put[rows] = x
        self.summed.index_put_((rows,), x, accumulate=True)
        self.copied.index_copy_(1, rows, torch.stack((x, -x)))
        return self.put + 0, self.summed * 1, self.copied.sum(0)


class WrittenParameter(nn.Module):
    """A parameter can be a state too, and a weight at the same time."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH), requires_grad=False)

    def forward(self, x):
        y = nn.functional.linear(x, self.weight)
        self.weight.mul_(0.9)
        return y, nn.functional.linear(x, self.weight)


class LiftedConstant(nn.Module):
    """A plain tensor attribute: exports carry it as a lifted tensor constant, mutated in place."""

    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(WIDTH)

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return x - self.seen


class ReadBeforeWrite(nn.Module):
    """The old value is read after the write in program order: no in-place write is allowed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(ROWS, WIDTH))

    def forward(self, x):
        s = x.shape[0]
        before = self.state + 0
        old = self.state[:s].clone()
        self.state[:s].add_(x)
        return before, old + self.state[:s], self.state.sum()


def run(*lengths):
    """Steps of these lengths on one life of the states."""

    def make(point, rng):
        steps = []
        for length in lengths if not point else (point["S"],):
            x = torch.randn(length, WIDTH, generator=rng)
            steps.append({"x": x})
        return steps

    return make


def with_rows(point, rng):
    steps = run(5, 16, 1, 3)(point, rng)
    for step in steps:
        step["rows"] = torch.randperm(ROWS, generator=rng)[: step["x"].shape[0]]
    return steps


X = {"x": f32("S", WIDTH)}
DIMS = {"S": (1, 16)}
SWEEP = [{}, {"S": 16}, {"S": 1}]
FORMS = {
    "counter": Counter,
    "assigned": Assigned,
    "copied": Copied,
    "sliced": Sliced,
    "scattered": Scattered,
    "views": ThroughViews,
    "parameter": WrittenParameter,
    "read_before_write": ReadBeforeWrite,
}
CASES = [
    *(
        case
        for name, form in FORMS.items()
        for case in variants(
            Case(f"state_{name}", form, X, DIMS, SWEEP, run(5, 15, 1, 1, 7), covers="X2"),
            decompose=RAW_AND_DECOMPOSED,
        )
    ),
    Case("state_constant", LiftedConstant, X, DIMS, SWEEP, run(5, 15, 1), covers="X2"),
    Case("state_counter_strict", Counter, X, DIMS, SWEEP, run(5, 15, 1), strict=True),
    *variants(
        Case(
            "state_index",
            IndexWritten,
            X | {"rows": i64("S", high=ROWS - 1)},
            DIMS,
            SWEEP,
            with_rows,
            covers="X2",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
]
