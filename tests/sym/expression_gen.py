"""Random size expressions: one tree, three spellings.

A tree is a tuple (op, *args). `spell` writes it as infix or as the Python of a guard, `srepr_of`
as the srepr of its parts, `to_sympy` builds it with torch's own sympy functions, which simplify as
they like before their srepr is taken.
"""

import random

import sympy
import torch.utils._sympy.functions as F

# name, minimum, maximum. torch calls a size positive while tracing; at 0 its identities do not
# hold, so only symbols that are at least 1 get that assumption here.
SYMBOL_SETS = [
    [("s0", 1, 64), ("s1", 2, 4096), ("u0", 0, 7), ("u1", -20, 20)],
    [("s0", 1, 1), ("s1", 2, 5), ("u0", -3, 3), ("u1", 0, 1)],
    [("s0", 2, 2**20), ("s1", 1, 2**31), ("u0", -(2**31), 2**31), ("u1", 0, 100000)],
    [("s0", 7, 9), ("s1", 128, 128), ("u0", -9, -1), ("u1", 0, 2**40)],
]


def sympy_symbol(name, lo):
    if lo >= 1:
        return sympy.Symbol(name, positive=True, integer=True)
    return sympy.Symbol(name, integer=True)


class Generator:
    def __init__(self, rng: random.Random, symbols):
        self.rng = rng
        self.symbols = symbols
        self.positive = [i for i, (_, lo, _) in enumerate(symbols) if lo >= 1]

    def pick(self, weights):
        names, counts = zip(*(w.split(":") for w in weights.split()), strict=True)
        return self.rng.choices(names, [int(c) for c in counts])[0]

    def size(self):  # at least 1
        return ("symbol", self.rng.choice(self.positive))

    def nonnegative(self, depth):
        return ("tofloat", ("max", self.integer(depth), ("int", 0)))

    def integer(self, depth):
        r = self.rng
        if depth <= 0 or r.random() < 0.1:
            if r.random() < 0.72:
                return ("symbol", r.randrange(len(self.symbols)))
            return ("int", r.choice([0, 1, 2, 3, 4, 5, 7, 8, 16, 60, 64, 100, -1, -2, -8]))
        op = self.pick(
            "add:22 sub:10 mul:18 floordiv:14 mod:10 min:5 max:5 pow:3 ceildiv:3 where:4 bits:2 "
            "shift:2 round:6"
        )
        if op in ("floordiv", "mod", "ceildiv"):
            return (op, self.integer(depth - 1), self.divisor(depth - 1, op == "ceildiv"))
        if op in ("min", "max"):
            return (op, *(self.integer(depth - 1) for _ in range(r.choice([2, 2, 3]))))
        if op == "pow":
            return (op, self.integer(depth - 2), ("int", r.choice([0, 1, 2, 2, 3])))
        if op == "where":
            return (op, self.truth(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
        if op == "bits":
            return (r.choice(["bitand", "bitor"]), self.integer(depth - 2), self.integer(depth - 2))
        if op == "shift":
            return (r.choice(["shl", "shr"]), self.integer(depth - 1), ("int", r.randrange(5)))
        if op == "round":
            return (r.choice(["trunc", "floor", "ceil", "round"]), self.real(depth - 1))
        return (op, self.integer(depth - 1), self.integer(depth - 1))

    def divisor(self, depth, constant):
        r = self.rng
        kind = r.random()
        if constant or kind < 0.5:
            return ("int", r.choice([1, 2, 2, 3, 4, 4, 5, 8, 12, 16, 64]))
        if kind < 0.8:
            return self.size()
        if kind < 0.9:
            return ("add", ("mul", self.size(), self.size()), ("int", 1))
        if kind < 0.93:
            return ("int", r.choice([-1, -2, -3, -8]))
        return self.integer(depth)  # may be zero: an error there

    def real(self, depth):
        r = self.rng
        if depth <= 0:
            return ("tofloat", self.integer(0))
        op = self.pick("truediv:5 tofloat:3 fadd:2 fmul:3 fdiv:1 sqrt:1 fpow:1 fmin:1 fmax:1")
        if op == "truediv":
            return (op, self.integer(depth - 1), self.divisor(0, False))
        if op == "tofloat":
            return (op, self.integer(depth - 1))
        if op == "sqrt":
            return (op, self.nonnegative(depth - 1))
        if op == "fpow":
            return (op, self.nonnegative(depth - 2), ("float", r.choice([0.5, 2.0, 1.5])))
        # Factors and summands of a like operation would be flattened by sympy, in an order of its
        # own: floats do not associate, so the judges themselves would differ in the last bit.
        if op in ("fadd", "fmul"):
            operand = ("tofloat", self.integer(depth - 1))
        else:
            operand = self.real(depth - 1)
        if op == "fdiv":
            return (op, operand, ("float", r.choice([2.0, 3.0, 0.5, 7.0])))
        return (op, operand, ("float", r.choice([0.5, 1.5, 2.0, 0.3, -1.25, 3.0])))

    def truth(self, depth):
        r = self.rng
        op = self.pick("relation:10 and:3 or:3 not:1 float_relation:1")
        if depth <= 1 or op == "relation":
            name = r.choice(["eq", "ne", "lt", "le", "gt", "ge"])
            return (name, self.integer(depth - 1), self.integer(depth - 2))
        if op == "float_relation":
            return (r.choice(["lt", "le", "gt", "ge"]), self.real(depth - 1), self.real(1))
        if op == "not":
            return (op, self.truth(depth - 1))
        return (op, self.truth(depth - 1), self.truth(depth - 1))


def names(pairs):
    return dict(pair.split(":") for pair in pairs.split())


INFIX = names(
    "add:+ sub:- mul:* floordiv:// mod:% pow:** truediv:/ fadd:+ fmul:* fdiv:/ fpow:** bitand:& "
    "bitor:| shl:<< shr:>> eq:== ne:!= lt:< le:<= gt:> ge:>= and:and or:or"
)
CALLS = names(
    "min:Min max:Max fmin:Min fmax:Max ceildiv:CeilDiv where:Where tofloat:ToFloat sqrt:sqrt "
    "trunc:TruncToInt floor:FloorToInt ceil:CeilToInt round:RoundToInt"
)
GUARD_CALLS = names(
    "min:min max:torch.sym_max fmin:min fmax:max tofloat:torch.sym_float sqrt:torch._sym_sqrt "
    "trunc:math.trunc floor:math.floor ceil:math.ceil round:round"
)
SREPR = names(
    "add:Add mul:Mul floordiv:FloorDiv mod:PythonMod min:Min max:Max fmin:Min fmax:Max pow:Pow "
    "where:Where bitand:BitwiseFn_bitwise_and bitor:BitwiseFn_bitwise_or shl:LShift shr:RShift "
    "trunc:TruncToInt floor:FloorToInt ceil:CeilToInt round:RoundToInt tofloat:ToFloat "
    "truediv:IntTrueDiv fadd:Add fmul:Mul fdiv:FloatTrueDiv sqrt:OpaqueUnaryFn_sqrt fpow:FloatPow "
    "eq:Equality ne:Unequality lt:StrictLessThan le:LessThan gt:StrictGreaterThan ge:GreaterThan "
    "and:And or:Or not:Not ceildiv:CeilDiv"
)


def spell(tree, symbols, guard):
    op, *args = tree
    if op == "symbol":
        return f"L['x'].size()[{args[0]}]" if guard else symbols[args[0]][0]
    if op in ("int", "float"):
        return repr(args[0]) if args[0] >= 0 else f"({args[0]!r})"
    texts = [spell(a, symbols, guard) for a in args]
    if op == "not":
        return f"(not {texts[0]})"
    if op in INFIX:
        return f"({texts[0]} {INFIX[op]} {texts[1]})"
    if guard and op == "where":
        return f"({texts[1]} if {texts[0]} else {texts[2]})"
    if guard and op == "ceildiv":  # torch writes it out
        return f"(({texts[0]} + {texts[1]} - 1) // {texts[1]})"
    if guard and op == "max" and len(texts) != 2:
        return f"max({', '.join(texts)})"
    return f"{(GUARD_CALLS if guard else CALLS)[op]}({', '.join(texts)})"


# srepr's names: torch's functions where torch has its own, sympy's classes else.
NAMESPACE = {name: getattr(F, name) for name in dir(F) if name[0].isupper()}
SYMPY_NAMES = (
    "Add Mul Pow Integer Float And Or Not Equality Unequality StrictLessThan LessThan "
    "StrictGreaterThan GreaterThan Piecewise true false"
)
NAMESPACE |= {name: getattr(sympy, name) for name in SYMPY_NAMES.split()}
NAMESPACE["ExprCondPair"] = lambda e, c: (e, c)


def to_sympy(tree, symbols):
    op, *args = tree
    if op == "symbol":
        name, lo, _ = symbols[args[0]]
        return sympy_symbol(name, lo)
    if op == "int":
        return sympy.Integer(args[0])
    if op == "float":
        return sympy.Float(args[0])
    built = [to_sympy(a, symbols) for a in args]
    return built[0] - built[1] if op == "sub" else NAMESPACE[SREPR[op]](*built)


def srepr_of(tree, symbols):
    op, *args = tree
    if op == "symbol":
        return sympy.srepr(sympy_symbol(*symbols[args[0]][:2]))
    if op == "int":
        return f"Integer({args[0]})"
    if op == "float":
        return sympy.srepr(sympy.Float(args[0]))
    texts = [srepr_of(a, symbols) for a in args]
    if op == "sub":
        return f"Add({texts[0]}, Mul(Integer(-1), {texts[1]}))"
    if op == "mod" and args[0][0] == "floordiv":
        base, divisor = (srepr_of(a, symbols) for a in args[0][1:])
        return f"ModularIndexing({base}, {divisor}, {texts[1]})"
    if op == "where" and args[1][0] == "symbol":
        return f"Piecewise(ExprCondPair({texts[1]}, {texts[0]}), ExprCondPair({texts[2]}, true))"
    if op == "pow" and args[0][0] == "symbol":
        return f"PowByNatural({', '.join(texts)})"
    return f"{SREPR[op]}({', '.join(texts)})"


def magnitude(tree, point):
    """A bound on every intermediate at this point, also after products are multiplied out."""
    op, *args = tree
    if op == "symbol":
        return abs(point[args[0]])
    if op in ("int", "float"):
        return abs(args[0]) + 1
    sizes = [magnitude(a, point) for a in args]
    # a // b may be merged into (a + ...) // (b * c)
    if op in ("mul", "fmul", "truediv", "floordiv", "mod", "ceildiv"):
        return max(sizes[0], 1) * max(sizes[1], 1)
    if op == "pow":
        return max(sizes[0], 1) ** args[1][1]
    if op == "shl":
        return sizes[0] << args[1][1]
    if op == "fpow":
        return max(sizes[0], 1) ** 2
    return sum(sizes)
