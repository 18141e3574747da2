"""Programs that exercise the .pt2 format: for the reader's tests and the fuzz corpus."""

import functools
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import torch
import transformers
from torch.export import Dim, export
from transformers.integrations import executorch

S = Dim("S", min=1, max=64)


class Fn(torch.nn.Module):
    """A function as a module, for cases without weights."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8, bias=False)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


class Views(torch.nn.Module):
    """Weights that are views of one storage, transposed and with an offset."""

    def __init__(self):
        super().__init__()
        base = torch.arange(24, dtype=torch.float32)
        self.register_buffer("whole", base.view(4, 6))
        self.register_buffer("turned", base.view(4, 6).t())
        self.register_buffer("tail", base[20:])
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("scratch", torch.ones(4), persistent=False)
        self.register_buffer("wide", torch.ones(1).expand(4))

    def forward(self, x):
        y = x @ self.whole @ self.turned + self.tail + self.scratch
        return y + self.wide + self.empty.sum()


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(2, 16, 4))

    def forward(self, x):
        self.count.add_(1)
        self.cache[:, : x.shape[1]].copy_(x)
        return x + self.cache[:, : x.shape[1]], self.count


class Nested(torch.nn.Module):
    def forward(self, x, d, l, n: int, *, scale=None, flag: bool = True):
        y = x + d["q"]["x"] * n
        if scale is not None and flag:
            y = y * scale
        return {"y": y, "parts": [l[0] + 1, l[1]], "n": n + x.shape[0]}


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.shape[0] > 5, lambda a: a.sin(), lambda a: a.cos(), (x,))


class NoGrad(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x.exp()
        return y + 1


class Constants(torch.nn.Module):
    def forward(self, x):
        return x + torch.tensor([1.0, 2.0]) + float("inf") - 1e-30, x.masked_fill(
            x > 0, float("-inf")
        )


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="test.Pair")
Point = namedtuple("Point", ["px", "py"])
torch.utils._pytree._register_namedtuple(Point, serialized_type_name="test.Point")


def case(model, args, shapes=None, kwargs=None, **options):
    return lambda: export(model(), args, kwargs, dynamic_shapes=shapes, **options)


def fn(function, args, shapes=None, **options):
    return case(lambda: Fn(function), args, None if shapes is None else (shapes,), **options)


R = torch.randn
NESTED_ARGS = (R(4, 3), {"q": {"x": R(4, 3)}}, [R(2), R(3)], 7)
NESTED_SHAPES = {
    "x": {0: S},
    "d": {"q": {"x": {0: S}}},
    "l": [None, None],
    "n": Dim.DYNAMIC,
    "scale": {0: S},
    "flag": None,
}
NESTED_KWARGS = {"scale": R(4, 1), "flag": True}

CASES = {
    "mlp": case(Mlp, (R(4, 8),), ({0: S},)),
    "mlp_strict": case(Mlp, (R(4, 8),), ({0: S},), strict=True),
    "mlp_bf16": lambda: export(Mlp().to(torch.bfloat16), (R(2, 8).to(torch.bfloat16),)),
    "tied": case(Tied, (torch.arange(6).view(2, 3),), ({0: Dim("B", max=8), 1: S},)),
    "views": case(Views, (R(5, 4),), ({0: S},)),
    "counter": case(Counter, (R(2, 4, 4),), ({1: Dim("T", max=15)},)),
    "counter_strict": case(Counter, (R(2, 4, 4),), ({1: Dim("T", max=15)},), strict=True),
    "nested": case(Nested, NESTED_ARGS, NESTED_SHAPES, NESTED_KWARGS),
    "nested_strict": case(Nested, NESTED_ARGS, NESTED_SHAPES, NESTED_KWARGS, strict=True),
    "cond": case(Cond, (R(8, 2),), ({0: S},)),
    "no_grad": case(NoGrad, (R(8, 2),), ({0: S},)),
    "constants": case(Constants, (R(3, 2),), ({0: S},)),
    "derived_dim": fn(lambda x: x.view(4, -1), (R(8),), ({0: 4 * Dim("q", max=9)},)),
    "guards": fn(lambda x: x.view(x.shape[0] // 4, 4), (R(8),), ({0: Dim.AUTO},)),
    "expressions": fn(
        lambda x: (x[: x.shape[0] // 2], torch.cat([x, x[1:]]), x[: 64 - x.shape[0]]),
        (R(40),),
        ({0: Dim("n", min=33, max=62)},),
    ),
    "unbacked": fn(lambda x: (x.nonzero() + 1, x[x > 0]), (R(8),), ({0: S},)),
    "item": fn(lambda x: x.new_zeros(x[0].item()), (torch.tensor([3, 4]),)),
    "sym_float": fn(lambda x: x * (x.shape[0] ** 0.5) / x.shape[0], (R(8, 2),), ({0: S},)),
    "index": fn(lambda x, i: x[:, i, None], (R(4, 5), torch.tensor([0, 2])), ({0: S}, None)),
    "lists": fn(
        lambda x: [*torch.split(x, 2, -1), *torch.topk(x, 2), x.max(dim=-1)[0]],
        (R(4, 6),),
        ({0: S},),
    ),
    "dtypes": fn(
        lambda x: (x.to(torch.int32), x.bool(), torch.zeros(2, dtype=torch.float64), x.half()),
        (R(4),),
        ({0: S},),
    ),
    "input_mutation": fn(lambda x: x.add_(1), (R(4),), ({0: S},)),
    "passthrough": fn(lambda x, y: (x, x, x.shape[0], None, 3), (R(4), R(2)), ({0: S}, None)),
    "none_input": fn(lambda x, y, s: x + 1, (R(4), None, "mode"), ({0: S}, None, None)),
    "scalar": fn(lambda x: x.sum(), (R(4),), ({0: S},)),
    "rank6": fn(lambda x: x.permute(5, 4, 3, 2, 1, 0), (R(2, 3, 1, 2, 4, 5),), ({0: S},)),
    "containers": fn(
        lambda p, t, o: (Pair(p.left, o["b"]), Point(t.px + 1, t.py)),
        (Pair(R(2), R(3)), Point(R(1), R(2)), OrderedDict(a=R(2), b=R(2))),
    ),
    "channels_last": fn(
        lambda x: x.to(memory_format=torch.channels_last) + 1, (R(2, 3, 4, 4),), ({0: S},)
    ),
    "attention": fn(
        torch.nn.functional.scaled_dot_product_attention,
        (R(2, 4, 6, 8), R(2, 4, 6, 8), R(2, 4, 6, 8)),
        ({2: S}, {2: S}, {2: S}),
    ),
    "map": fn(
        lambda x: torch._higher_order_ops.map(lambda a, b: a + b, x, R(3)), (R(4, 3),), ({0: S},)
    ),
}
# transformers' own models, tiny and with random weights.


def tiny(name, **extra):
    sizes = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
    }
    config = getattr(transformers, f"{name}Config")(**sizes, **extra)
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def decoder(name):
    shapes = {"input_ids": {0: Dim("B", max=4), 1: S}, "use_cache": None}
    ids = torch.arange(10).view(2, 5)
    return export(tiny(name), (), {"input_ids": ids, "use_cache": False}, dynamic_shapes=shapes)


def static_cache(strict):
    model = tiny("Qwen3")
    model.generation_config = type(model.generation_config)(
        use_cache=True,
        cache_implementation="static",
        max_length=32,
        cache_config={"batch_size": 1, "max_cache_len": 32, "device": "cpu"},
    )
    module = executorch.TorchExportableModuleForDecoderOnlyLM(model, 1, 32)
    seq = Dim("seq", min=2, max=31)
    return module.export(
        input_ids=torch.arange(5).view(1, 5),
        cache_position=torch.arange(5),
        dynamic_shapes={"input_ids": {1: seq}, "cache_position": {0: seq}},
        strict=strict,
    )


CASES |= {
    "llama": lambda: decoder("Llama"),
    "qwen3": lambda: decoder("Qwen3"),
    "qwen3_static_cache": lambda: static_cache(False),
    "qwen3_static_cache_strict": lambda: static_cache(True),
}
# torch itself fails on these: mutated constants, and what its own functionalisation refuses.
NOT_DECOMPOSED = {"qwen3_static_cache", "map"}


@functools.cache
def program(name):
    return CASES[name]()


def exported(name, tmp_path, rename="model.pt2"):
    path = tmp_path / rename
    torch.export.save(program(name), path)
    return path
