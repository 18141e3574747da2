"""What a random program may do: families of ATen-level calls, drawn as one line of Python each.

A family asks the `Draw` for operands and options and returns an expression over variables (x0 an
input, s0 a state, v0 a result). It may be careless: what torch refuses is drawn again. What torch
leaves undefined (a float beyond an integer's range cast to it, INT_MIN / -1) is not drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import torch

NAME = re.compile(r"\b[xsv]\d+\b")
FLOATS = ("float32", "float32", "float32", "float16", "bfloat16", "float64")
INTS = ("int64", "int64", "int32", "int8", "uint8")
FAMILIES: list[tuple[int, Callable[[Draw], str]]] = []


class Draw:
    """Operands that exist, with what they are at the sizes of the example."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.values: dict[str, torch.Tensor] = {}

    def one(self, *choices):
        return self.rng.choice(choices)

    def words(self, text: str) -> str:
        return self.rng.choice(text.split())

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def tensor(self, fits: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        """A value for which `fits`, later ones more often; without one, LookupError: draw again."""
        names = [name for name, value in self.values.items() if fits(value)]
        if not names:
            raise LookupError
        return names[max(self.rng.randrange(len(names)) for _ in range(2))]

    def float(self) -> str:
        return self.tensor(torch.is_floating_point)

    def int(self) -> str:
        return self.tensor(is_int)

    def ranked(self, rank: int = 1) -> str:
        return self.tensor(lambda t: t.dim() >= rank)

    def rank(self, name: str) -> int:
        return self.values[name].dim()

    def axis(self, name: str) -> int:
        rank = max(1, self.rank(name))
        return self.rng.randrange(-rank, rank)

    def axes(self, name: str) -> list[int]:
        rank = self.rank(name)
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank)) if rank else []
        return [axis - rank if self.chance(0.3) else axis for axis in chosen]

    def number(self) -> str:
        return self.words("0 1 2 3 -1 -3 7 0.5 -1.5 2.0 1e-3 0.1 True float('inf') float('nan')")

    def small(self) -> int:
        return self.rng.randint(-3, 6)

    def size(self) -> str:
        """A size: a dim of something, or a constant."""
        name = self.ranked()
        return self.one(f"{name}.shape[{self.axis(name)}]", str(self.rng.randint(0, 4)))

    def like(self, name: str) -> str:
        """Something that broadcasts with `name`."""
        shape = self.values[name].shape

        def fits(t: torch.Tensor) -> bool:
            try:
                return torch.broadcast_shapes(t.shape, shape) is not None
            except RuntimeError:
                return False

        return self.tensor(fits)

    def mask(self, name: str) -> str:
        """A bool that broadcasts with `name`."""
        other = self.like(name)
        return other if self.values[other].dtype == torch.bool else f"({other} > 0)"

    def places(self, name: str, axis: int) -> str:
        """Indices into that dim, of the rank of `name`."""
        found = self.tensor(lambda t: is_int(t) and t.dim() == self.rank(name))
        return f"({found}.long() % {name}.shape[{axis}])"


def is_int(t: torch.Tensor) -> bool:
    return t.dtype != torch.bool and not t.is_floating_point()


def family(weight: int):
    return lambda draw: FAMILIES.append((weight, draw)) or draw


def line(draw: Draw) -> str:
    weights = [weight for weight, _ in FAMILIES]
    return draw.rng.choices([make for _, make in FAMILIES], weights)[0](draw)


@family(10)
def unary(d):
    return f"torch.{d.words(UNARY)}({d.tensor()})"


UNARY = """abs neg sign sgn relu square exp log sqrt rsqrt sin cos tan tanh sigmoid erf erfc floor
    ceil round trunc frac reciprocal exp2 expm1 log1p log2 log10 atan asin acos sinh cosh asinh
    acosh atanh isnan isinf isfinite signbit logical_not bitwise_not nan_to_num deg2rad positive
    isposinf isneginf"""


@family(4)
def activation(d):
    x = d.float()
    if d.chance(0.1):  # of infinity torch's gelu is NaN in f32 and infinity in halves
        return f"torch.nn.functional.gelu({x}.clamp(-9, 9), approximate='{d.words('none tanh')}')"
    call = d.words("""silu relu6 leaky_relu elu selu celu hardtanh hardswish hardsigmoid mish
        softplus logsigmoid softsign hardshrink softshrink tanhshrink""")
    return f"torch.nn.functional.{call}({x})"


@family(14)
def binary(d):
    a = d.tensor()
    b = d.number() if d.chance(0.3) else d.like(a)
    if d.chance(0.1):
        b = d.size()
    op = d.words("+ - * / + - * < <= > >= == != & | ^")
    return f"({a} {op} {b})" if d.chance(0.8) else f"({b} {op} {a})"


@family(5)
def binary_function(d):
    a = d.tensor()
    call = d.words("""maximum minimum fmax fmin logical_and logical_or logical_xor atan2 hypot
        copysign heaviside xlogy rsub add sub mul true_divide logaddexp""")
    alpha = ", alpha=2" if call in ("add", "sub", "rsub") and d.chance(0.5) else ""
    return f"torch.{call}({a}, {d.like(a)}{alpha})"


@family(5)
def division(d):
    a = d.tensor()
    form = d.words("""torch.div({},{},rounding_mode='floor') torch.div({},{},rounding_mode='trunc')
        {}//{} {}%{} torch.fmod({},{}) torch.remainder({},{}) torch.floor_divide({},{}) {}/{}""")
    if d.chance(0.4):
        return form.format(a, d.words("2 3 -2 -7 0.5 -1.5 100"))
    b = d.like(a)
    if d.values[b].is_floating_point():
        b = f"torch.nan_to_num({b}, 2, 3, -3)"  # by infinity torch's vectors and its tails disagree
    else:
        b = f"({b} % 3 * 5 - 7)"
    return form.format(a, b)


@family(3)
def power(d):
    a = d.tensor()
    if d.values[a].is_floating_point():
        return (
            f"{a} ** {d.words('2 3 0.5 -1 -2 0 1 1.5 -0.5 4')}"
            if d.chance(0.7)
            else (d.one(f"torch.pow({a}, {d.like(a)})", f"torch.pow({d.words('2 0.5 3')}, {a})"))
        )
    return d.one(f"{a} ** {d.words('0 1 2 3')}", f"torch.pow({a}, {d.like(a)} % 4)")


@family(2)
def shift(d):
    a = d.int()
    amount = d.one(str(d.rng.randint(0, 6)), f"({d.int()} % 6)")
    return f"({a} {d.words('<< >>')} {amount})"


@family(4)
def clamp(d):
    a = d.tensor()
    low, high = d.one("-1", "0", "0.5", "None", "-2.5"), d.one("1", "2.5", "3", "None")
    if d.chance(0.3):
        return f"torch.clamp({a}, min={d.like(a)})"
    return f"torch.clamp({a}, {low}, {high})"


@family(5)
def choice(d):
    a = d.tensor()
    mask = d.mask(a)
    b = d.one(d.number(), d.like(a))
    return d.one(f"torch.where({mask}, {a}, {b})", f"{a}.masked_fill({mask}, {d.number()})")


@family(4)
def cast(d):
    a = d.tensor()
    dtype = d.one(*FLOATS, *INTS, "bool")
    if dtype in INTS and d.values[a].is_floating_point():
        low = 0 if dtype == "uint8" else -100
        return f"torch.nan_to_num({a}, 0, 100, {low}).clamp({low}, 100).to(torch.{dtype})"
    return f"{a}.to(torch.{dtype})"


@family(10)
def reduction(d):
    a = d.tensor()
    call = d.words(
        """sum sum mean prod amax amin any all var std logsumexp norm count_nonzero max min argmax
        argmin"""
    )
    axes = d.axes(a)
    keep = d.words("True False")
    match call:
        case "prod" if d.values[a].dtype in (torch.float16, torch.bfloat16):
            return f"torch.prod({a}.float(), {d.axis(a)})"  # torch rounds every product
        case "prod" | "argmax" | "argmin":
            return f"torch.{call}({a}, {d.axis(a)}, keepdim={keep})"
        case "max" | "min":
            if d.chance(0.3):
                return f"torch.{call}({a})"
            return f"torch.{call}({a}, {d.axis(a)}, keepdim={keep})[{d.words('0 1')}]"
        case "count_nonzero":
            return f"torch.count_nonzero({a}, dim={axes or None})"
        case "var" | "std":
            return f"torch.{call}({a}, {axes}, correction={d.words('0 1')}, keepdim={keep})"
        case "norm":
            return f"torch.linalg.vector_norm({a}, {d.words('2 1 0')}, {axes}, {keep})"
        case "sum" | "mean" if d.chance(0.2):
            return f"torch.{call}({a}, {axes}, keepdim={keep}, dtype=torch.{d.one(*FLOATS)})"
    whole = call not in ("amax", "amin", "logsumexp") and d.chance(0.2)
    return f"torch.{call}({a})" if whole else f"torch.{call}({a}, {axes}, keepdim={keep})"


@family(2)
def scan(d):
    a = d.ranked()
    return f"torch.cumsum({a}, {d.axis(a)})"


@family(3)
def softmax(d):
    a = d.float()
    return f"torch.{d.words('softmax log_softmax')}({a}, {d.axis(a)})"


@family(8)
def reshape(d):
    a = d.ranked()
    n, axis = d.rank(a), d.rng.randrange(d.rank(a))
    last = d.rng.randrange(axis, n)
    dims = [f"{a}.shape[{i}]" for i in range(n)]
    merged = [*dims[:axis], "*".join(dims[axis : last + 1]), *dims[last + 1 :]]
    factor = d.one(2, 3, 4)
    split = [*dims[:axis], d.one(str(factor), "-1"), f"{dims[axis]}//{factor}", *dims[axis + 1 :]]
    return d.one(
        f"{a}.reshape(-1)",
        f"{a}.flatten({axis}, {last})",
        f"{a}.reshape({', '.join(merged)})",
        f"{a}.reshape({', '.join(split)})",
        f"{a}.unflatten({axis}, ({factor}, -1))",
        f"{a}.reshape({dims[axis]}, -1)",
        f"{a}.view({', '.join(['-1', *dims[1:]])})",
        f"{a}.reshape(-1, {dims[axis]}, 1)",
    )


@family(8)
def view(d):
    a = d.ranked()
    axis, n = d.axis(a), d.rank(a)
    order = d.rng.sample(range(n), n)
    return d.one(
        f"{a}.permute({order})",
        f"{a}.transpose({d.axis(a)}, {axis})",
        f"{a}.select({axis}, {d.one(0, -1, 1)})",
        f"{a}.unsqueeze({axis})",
        f"{a}.unsqueeze({axis}).squeeze({axis})",
        f"{a}.squeeze()",
        f"{a}.narrow({axis}, {d.one(0, 1)}, {d.one(0, 1, 2)})",
        f"{a}.flip({axis})",
        f"{a}.roll({d.small()}, {axis})",
        f"{a}.unbind({axis})[{d.one(0, -1)}]",
        f"{a}.movedim({axis}, {d.axis(a)})",
    )


@family(7)
def slices(d):
    a = d.ranked()
    end = lambda: d.one("", str(d.small()), "-1", "-2")  # noqa: E731
    step = d.one("", "", ":2", ":3")
    cut = f"{end()}:{end()}{step}"
    before = ":, " * d.rng.randrange(d.rank(a))
    return f"{a}[{d.one(before, '..., ')}{cut}]"


@family(5)
def copies(d):
    a = d.ranked()
    axis, n = d.axis(a), d.rank(a)
    times = [d.rng.randint(0, 3) if d.chance(0.3) else 1 for _ in range(n)]
    return d.one(
        f"{a}.repeat({times})",
        f"torch.tile({a}, ({d.one(1, 2)}, {d.one(1, 2, 3)}))",
        f"{a}.expand(2, *{a}.shape)",
        f"{a}.unsqueeze(0).expand({d.one(2, 3)}, *[-1] * {n})",
        f"{a}.expand_as({d.like(a)})",
        f"torch.repeat_interleave({a}, {d.one(1, 2, 3)}, {axis})",
        f"torch.broadcast_to({a}, (2, *{a}.shape))",
        f"{a}.clone()",
        f"{a}.contiguous()",
    )


@family(7)
def joins(d):
    a = d.ranked()
    axis = d.axis(a)
    others = [d.tensor(lambda t: t.dim() == d.rank(a)) for _ in range(d.one(1, 1, 2))]
    return f"torch.{d.one('cat', 'cat', 'stack')}([{', '.join([a, *others])}], {axis})"


@family(4)
def parts(d):
    a = d.ranked()
    axis = d.axis(a)
    return d.one(
        f"{a}.split({d.rng.randint(1, 3)}, {axis})[{d.one(0, -1)}]",
        f"{a}.chunk({d.rng.randint(1, 4)}, {axis})[{d.one(0, -1)}]",
        f"torch.tensor_split({a}, {d.rng.randint(1, 4)}, {axis})[{d.one(0, -1)}]",
        f"torch.tensor_split({a}, [1, 2], {axis})[{d.one(0, 1, 2)}]",
    )


@family(4)
def pads(d):
    a = d.ranked()
    amounts = [d.one(0, 1, 2, -1) for _ in range(2 * d.one(1, min(2, d.rank(a))))]
    if d.chance(0.6):
        return f"torch.nn.functional.pad({a}, {amounts}, value={d.one(0, 1, -2)})"
    a = d.tensor(lambda t: t.dim() in (2, 3) and t.is_floating_point())
    mode = d.words("reflect replicate circular")
    return f"torch.nn.functional.pad({a}, {[d.one(0, 1, 2, -1), d.one(0, 1, 2)]}, mode='{mode}')"


@family(3)
def triangles(d):
    return f"torch.{d.words('tril triu')}({d.ranked(2)}, {d.rng.randint(-2, 2)})"


@family(8)
def indexing(d):
    a, i = d.ranked(), d.int()
    axis = d.rng.randrange(d.rank(a))
    index = f"({i}.long() % {a}.shape[{axis}])"
    row = f"{index}.reshape(-1)"
    zero = f"({i}.long() % {a}.shape[0])"
    return d.one(
        f"torch.index_select({a}, {axis}, {row})",
        f"{a}[{zero}]",
        f"{a}[{zero} - {a}.shape[0]]",
        f"{a}[{':, ' * axis}{index}]",
        f"{a}[{':, ' * axis}{row}, None]",
        f"torch.gather({a}, {axis}, {d.places(a, axis)})",
        f"torch.take_along_dim({a}, {d.places(a, axis)}, {axis})",
        f"torch.nn.functional.embedding({zero}, {d.tensor(lambda t: t.dim() == 2)})",
        f"torch.nn.functional.one_hot({i}.long() % 5, 5)",
        f"torch.take({a}, {i}.long() % {a}.numel())",
    )


@family(6)
def scattering(d):
    """Where torch defines who wins: no place is written twice, or all writes are equal or added."""
    a, b = d.ranked(), d.ranked()
    axis = d.rng.randrange(d.rank(a))
    index = d.places(a, axis)
    size = f"{a}.shape[{axis}]"
    each = f"torch.arange({size}).reshape([-1] + [1] * {d.rank(a) - 1 - axis}).expand_as({a})"
    length = f"{b}.shape[{axis}]" if axis < d.rank(b) else "1"
    rows, one = f"({d.int()}.long() % {a}.shape[0])", f"torch.ones((), dtype={a}.dtype)"
    return d.one(
        f"torch.scatter({a}, {axis}, {index}, {d.one('0', '1', '2.5')})",
        f"torch.scatter({a}, {axis}, {each}, {b})",
        f"torch.scatter_add({a}, {axis}, {index}, {b})",
        f"torch.index_put({a}, [torch.arange({a}.shape[0])], {b})",
        f"torch.index_put({a}, [{rows}], {one}, accumulate=True)",
        f"torch.select_scatter({a}, {b}, {axis}, 0)",
        f"torch.slice_scatter({a}, {b}, {axis}, 0, {length})",
        f"torch.index_copy({a}, {axis}, torch.arange({length}), {b})",
    )


@family(4)
def order(d):
    a = d.ranked()
    axis, descending = d.axis(a), d.words("True False")
    return d.one(
        f"torch.sort({a}, dim={axis}, descending={descending}, stable=True)[{d.one(0, 1)}]",
        f"torch.argsort({a}, dim={axis}, descending={descending}, stable=True)",
        f"torch.topk({a}, {d.one(1, 2)}, dim={axis}, largest={descending})[0]",
    )


@family(6)
def products(d):
    a = d.float()
    b = d.tensor(lambda t: t.dtype == d.values[a].dtype)
    flip = f"{b}.mT" if d.rank(b) >= 2 else b
    c = d.tensor(lambda t: t.dtype == d.values[a].dtype)
    return d.one(
        f"{a} @ {b}",
        f"{a} @ {flip}",
        f"torch.matmul({flip}, {a})",
        f"torch.nn.functional.linear({a}, {b})",
        f"torch.bmm({a}, {flip})",
        f"torch.addmm({c}, {a}, {flip}, beta={d.one(1, 0.5)}, alpha={d.one(1, 2)})",
        f"torch.einsum('...i,...i->...', {a}, {c})",
    )


@family(4)
def makers(d):
    a = d.tensor()
    n, dtype = d.size(), d.one("int64", "float32", "int32", "float64", "bool")
    return d.one(
        f"torch.arange({n})",
        f"torch.arange({d.small()}, {n}, {d.one(1, 2, 3)})",
        f"torch.arange(0, {n}, {d.one(0.5, 1.5)}, dtype=torch.float32)",
        f"torch.full(({n}, {d.size()}), {d.number()})",
        f"torch.ones_like({a}, dtype=torch.{dtype})",
        f"torch.full_like({a}, {d.one(0, 2, 3)})",
        f"torch.zeros({n}, 3, dtype=torch.{dtype})",
        f"torch.eye({n})",
        f"{a}.new_ones({n})",
        "torch.tensor([1, -2, 3])",
        "torch.linspace(0, 1, 5)",
    )


@family(2)
def norms(d):
    a = d.tensor(lambda t: t.is_floating_point() and t.dim() >= 1)
    return d.one(
        f"torch.nn.functional.layer_norm({a}, {a}.shape[-1:])",
        f"torch.nn.functional.rms_norm({a}, {a}.shape[-1:], eps=1e-5)",
        f"torch.nn.functional.normalize({a}, dim=-1)",
    )


@family(4)
def in_place(d):
    """On a state, a part of one, or a result: writes are seen through every view."""
    a = d.tensor()
    part = d.one(
        "", "[0]", "[1:]", "[..., 0]", "[:, 1:]", ".transpose(0, 1)", ".reshape(-1)", "[::2]"
    )
    call = d.words("add_ mul_ sub_ copy_ clamp_ fill_ zero_ neg_ masked_fill_ div_ setitem")
    b = d.one(d.tensor(), d.words("1 2 0 -1"))
    match call:
        case "zero_" | "neg_":
            return f"{a}{part}.{call}()"
        case "clamp_":
            return f"{a}{part}.clamp_(-2, 2)"
        case "masked_fill_":
            return f"{a}.masked_fill_({d.mask(a)}, {d.words('0 1 -1')})"
        case "setitem":
            return f"torch.ops.aten.index_put_({a}, [torch.arange(1)], {a}[:1])"
    return f"{a}{part}.{call}({b})"


@family(3)
def kept(d):
    """As caches and counters are written: at the front, at a position, rolled, added up."""
    s = d.tensor(lambda t: any(t is d.values[n] for n in d.values if n[0] == "s"))
    rank = max(1, d.rank(s))
    axis, b = d.rng.randrange(rank), d.tensor(lambda t: t.dim() == d.rank(s))
    before, size = ":, " * axis, f"{b}.shape[{axis}]" if d.rank(b) else "1"
    index = f"({d.int()}.long().reshape(-1)[:1] % {s}.shape[{axis}])"
    return d.one(
        f"{s}[{before}:{size}].copy_({b})",
        f"{s}[{before}1 : {size} + 1].add_({b})",
        f"{s}.index_copy_({axis}, torch.arange({size}), {b}.clone())",
        f"{s}.index_copy_({axis}, {index}, {b}.narrow({axis}, 0, 1).clone())",
        f"{s}.index_put_([{index}], {b}[:1])",
        f"{s}.scatter_({axis}, {d.places(s, axis)}, 1)",
        f"{s}.copy_(torch.roll({s}, -1, {axis}))",
        f"{s}.add_(1)",
        f"{s}.mul_({d.words('2 -1')})",
        f"{s}.add_({d.tensor()}.sum())",
    )


@family(5)
def several(d):
    """Calls of more than two operands, or with more than one result."""
    a = d.tensor()
    b, c = d.like(a), d.like(a)
    k = d.rng.randrange(2)
    return d.one(
        f"torch.addcmul({a}, {b}, {c}, value={d.one(1, 2)})",
        f"torch.addcdiv({a}, {b}, {c}.abs() + 1)",
        f"torch.lerp({a}, {b}, {d.one('0.3', '0.75', c)})",
        f"torch.clamp({a}, {b}, {c})",
        f"torch.where({d.mask(a)}, {d.number()}, {d.number()})",
        f"torch.nan_to_num({a}, 1.0, 2.0, -2.0)",
        f"torch.round({a}, decimals={d.one(1, -1)})",
        f"torch.bucketize({a}, torch.tensor([-1.0, 0.0, 0.5, 2.0]), right={d.words('True False')})",
        f"torch.aminmax({a}, dim={d.axis(a)})[{k}]",
        f"torch.var_mean({a}, dim={d.axis(a)}, correction={d.one(0, 1)})[{k}]",
        f"torch.diff({a}, dim={d.axis(a)})",
        f"torch.cumsum({a}, {d.axis(a)}, dtype=torch.{d.one('float32', 'int64', 'float64')})",
        f"torch.meshgrid({d.ranked()}.reshape(-1), {d.ranked()}.reshape(-1), indexing='ij')[{k}]",
        f"torch.topk({d.ranked()}, 2, dim=-1)[1] * 0",
        f"torch.nn.functional.glu({a}, {d.axis(a)})",
        f"torch.any({a})",
        f"torch.logical_and({a}, {b})",
        f"torch.outer({a}.reshape(-1), {b}.reshape(-1))",
    )


@family(4)
def masks(d):
    """Written and read where a mask is true, and indices beside None, slices and each other."""
    a = d.ranked()
    mask = d.mask(a)
    i, j = (f"({d.int()}.long().reshape(-1)[:2] % {a}.shape[{n}])" for n in (0, -1))
    return d.one(
        f"torch.index_put({a}, [{mask}], torch.zeros((), dtype={a}.dtype))",
        f"torch.masked_fill({a}, {mask}, {d.number()})",
        f"{a}[{i}, None]",
        f"{a}[None, {i}]",
        f"{a}[{i}, ..., {j}]",
        f"{a}[{i}, 1:, {j}]",
        f"{a}[{i}, {j}]",
        f"{a}[..., {j}]",
        f"{a}[-1, {j}]",
        f"{a}[{i}].flip(0)",
        f"{a}[[0, -1]]",
        f"{a}[:, [0, 0]]",
    )


@family(3)
def attention(d):
    q = d.tensor(lambda t: t.is_floating_point() and t.dim() >= 2)
    k = d.tensor(lambda t: t.dtype == d.values[q].dtype and t.dim() >= 2)
    v = d.tensor(lambda t: t.dtype == d.values[q].dtype and t.dim() >= 2)
    name = "torch.nn.functional.scaled_dot_product_attention"
    if d.chance(0.7):  # of a NaN torch's fused kernel makes 0 in some rows
        q, k, v = (f"torch.nan_to_num({t}, 0, 3, -3).clamp(-8, 8)" for t in (q, k, v))
    else:
        return f"torch.softmax({q} @ {k}.mT, -1) @ {v}"
    return d.one(
        f"{name}({q}, {k}, {v})",
        f"{name}({q}, {k}, {k}, is_causal=True)",
        f"{name}({q}, {k}, {v}, scale=0.5)",
        f"{name}({q}, {k}, {k}, attn_mask=torch.ones({q}.shape[-2], {k}.shape[-2]).tril() > 0)",
        f"torch.softmax({q} @ {k}.mT * 0.5, -1) @ {v}",
    )


@family(2)
def from_data(d):
    """Sizes and numbers that only data knows."""
    a = d.tensor()
    return d.one(
        f"torch.nonzero({a})",
        f"torch.masked_select({a}, {d.mask(a)})",
        f"{a}[{a} > 0]",
        f"torch.where({a} > 0)[0]",
        f"{a}[torch.where({a} > 0)]",
        f"torch.arange(({d.int()}.reshape(-1)[:1].sum() % 6).item())",
        f"{d.ranked()}[({d.int()}.reshape(-1)[:1].sum() % 2).item() :]",
        f"{a} * ({d.tensor()} > 0).sum().item()",
        f"torch.repeat_interleave(({d.int()}.reshape(-1).long() % 3))",
    )
